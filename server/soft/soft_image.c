/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images as programs pass them. Everything in them comes from outside:
 * offsets and sizes are compared with what is left before they are used.
 */
#include "server/soft/soft_image.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/fatbin.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FATBINS_MAX 64

struct wrapper {
	uint32_t magic, version;
	const void *fatbin;
	const void *extra;     /* v2: NULL-terminated array of fatbins */
};

static uint32_t
get32(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int
is_usable(const struct fatbin_entry *e)
{
	return (e->kind == FATBIN_PTX || e->kind == FATBIN_ELF) &&
	       !fatbin_is_opaque(e);
}

/* PTX before machine code; of PTX the highest up to 90; of machine code
 * the highest up to 90 too, else the lowest. */
static int
is_better(const struct fatbin_entry *e, const struct fatbin_entry *than)
{
	if (!than->payload)
		return 1;
	if (e->kind != than->kind)
		return e->kind == FATBIN_PTX;
	if ((e->sm <= 90) != (than->sm <= 90))
		return e->sm <= 90;
	return e->sm <= 90 ? e->sm > than->sm : e->sm < than->sm;
}

static int
expand(struct soft_image *out, const struct fatbin_entry *e)
{
	int r = fatbin_expand(e, &out->data, &out->size);

	if (r)
		return r < 0 ? r : SOFT_IMAGE_E_INVALID;
	out->kind = e->kind == FATBIN_PTX ? SOFT_IMAGE_PTX : SOFT_IMAGE_ELF;
	/* Padding behind the text is not text. */
	if (out->kind == SOFT_IMAGE_PTX)
		out->size = strlen(out->data);
	return 0;
}

static int
fatbin_best(const char *data, size_t limit, struct fatbin_entry *best)
{
	size_t size = fatbin_size(data, limit), at = 0;
	struct fatbin_entry e;

	if (!size)
		return SOFT_IMAGE_E_INVALID;
	memset(best, 0, sizeof(*best));
	while (fatbin_next(data, size, &at, &e))
		if (is_usable(&e) && !(e.kind == FATBIN_PTX && e.sm > 90) &&
		    is_better(&e, best))
			*best = e;
	return best->payload ? 0 : SOFT_IMAGE_E_NO_CODE;
}

static int
open_fatbin(struct soft_image *out, const char *data, size_t limit)
{
	struct fatbin_entry best;
	int r = fatbin_best(data, limit, &best);

	return r ? r : expand(out, &best);
}

static int
skip_header_line(const char *line, size_t size)
{
	static const char *const words[] = {
		".version", ".target", ".address_size",
	};

	while (size && isspace((unsigned char)*line)) {
		line++;
		size--;
	}
	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (size > strlen(words[i]) &&
		    !memcmp(line, words[i], strlen(words[i])))
			return 1;
	return 0;
}

int
soft_image_join(struct soft_image *to, const char *text, size_t size)
{
	char *grown = realloc(to->data, to->size + size + 2);
	char *at;

	if (!grown)
		return -ENOMEM;
	to->data = grown;
	at = grown + to->size;
	*at++ = '\n';
	while (size) {
		const char *newline = memchr(text, '\n', size);
		size_t line = newline ? (size_t)(newline - text) + 1 : size;

		if (!skip_header_line(text, line)) {
			memcpy(at, text, line);
			at += line;
		}
		text += line;
		size -= line;
	}
	*at = '\0';
	to->size = (size_t)(at - grown);
	return 0;
}

/* Separately compiled files (-rdc): the linked image has no PTX, each
 * file's fatbin does. Together they are the program. */
static int
open_extra(struct soft_image *out, const void *const *extra)
{
	struct soft_image all = { .kind = SOFT_IMAGE_PTX };
	int r = SOFT_IMAGE_E_NO_CODE;

	for (unsigned i = 0; i < FATBINS_MAX && extra[i]; i++) {
		struct soft_image one = { 0 };
		struct fatbin_entry best;

		r = fatbin_best(extra[i], SIZE_MAX, &best);
		if (!r && best.kind != FATBIN_PTX)
			r = SOFT_IMAGE_E_NO_CODE;
		if (!r)
			r = expand(&one, &best);
		if (!r && !all.data) {
			all = one;
			continue;
		}
		if (!r)
			r = soft_image_join(&all, one.data, one.size);
		soft_image_close(&one);
		if (r)
			break;
	}
	if (r)
		soft_image_close(&all);
	else
		*out = all;
	return r;
}

static int
open_wrapper(struct soft_image *out, const char *data, size_t limit)
{
	struct wrapper w;
	int r;

	if (limit < sizeof(w))
		return SOFT_IMAGE_E_INVALID;
	memcpy(&w, data, sizeof(w));
	if ((w.version != 1 && w.version != 2) || !w.fatbin)
		return SOFT_IMAGE_E_INVALID;
	/* The pointers lead out of the buffer; only headers say how far. */
	r = open_fatbin(out, w.fatbin, SIZE_MAX);
	if (w.version == 2 && w.extra &&
	    (r == SOFT_IMAGE_E_NO_CODE ||
	     (!r && out->kind == SOFT_IMAGE_ELF))) {
		struct soft_image joined;

		if (!open_extra(&joined, w.extra)) {
			soft_image_close(out);
			*out = joined;
			r = 0;
		}
	}
	return r;
}

/* Length of text up to its NUL, or limit. */
static size_t
text_length(const char *data, size_t limit)
{
	return limit == SIZE_MAX ? strlen(data) : strnlen(data, limit);
}

/* PTX begins with .version, after white space and comments. */
static int
is_ptx(const char *at, size_t left)
{
	while (left) {
		if (isspace((unsigned char)*at)) {
			at++;
			left--;
		} else if (left >= 2 && at[0] == '/' && at[1] == '/') {
			const char *newline = memchr(at, '\n', left);

			if (!newline)
				return 0;
			left -= (size_t)(newline - at);
			at = newline;
		} else if (left >= 2 && at[0] == '/' && at[1] == '*') {
			size_t i = 2;

			while (i + 1 < left && memcmp(at + i, "*/", 2))
				i++;
			if (i + 1 >= left)
				return 0;
			at += i + 2;
			left -= i + 2;
		} else {
			return left > 8 && !memcmp(at, ".version", 8);
		}
	}
	return 0;
}

static int
open_text(struct soft_image *out, const char *data, size_t limit)
{
	size_t size = text_length(data, limit);

	if (!is_ptx(data, size))
		return SOFT_IMAGE_E_INVALID;
	out->data = malloc(size + 1);
	if (!out->data)
		return -ENOMEM;
	memcpy(out->data, data, size);
	out->data[size] = '\0';
	out->size = size;
	out->kind = SOFT_IMAGE_PTX;
	return 0;
}

static int
open_elf(struct soft_image *out, const char *data, size_t limit)
{
	size_t size = soft_elf_length(data, limit);

	if (!size)
		return SOFT_IMAGE_E_INVALID;
	out->data = malloc(size);
	if (!out->data)
		return -ENOMEM;
	memcpy(out->data, data, size);
	out->size = size;
	out->kind = SOFT_IMAGE_ELF;
	return 0;
}

/* The four bytes that tell kinds apart may not be there. */
static uint32_t
magic_of(const char *data, size_t limit)
{
	if (limit == SIZE_MAX)
		limit = strnlen(data, 4) < 4 ? strnlen(data, 4) + 1 : 4;
	return limit < 4 ? 0 : get32(data);
}

int
soft_image_open(struct soft_image *out, const void *data, size_t limit)
{
	memset(out, 0, sizeof(*out));
	switch (magic_of(data, limit)) {
	case WRAPPER_MAGIC:
		return open_wrapper(out, data, limit);
	case FATBIN_MAGIC:
		return open_fatbin(out, data, limit);
	case 0x464c457fu:   /* 7f 'E' 'L' 'F' */
		return open_elf(out, data, limit);
	default:
		return open_text(out, data, limit);
	}
}

void
soft_image_close(struct soft_image *image)
{
	free(image->data);
	memset(image, 0, sizeof(*image));
}

size_t
soft_image_length(const void *data, size_t limit)
{
	switch (magic_of(data, limit)) {
	case WRAPPER_MAGIC:
		return limit < sizeof(struct wrapper) ? 0 :
		       sizeof(struct wrapper);
	case FATBIN_MAGIC:
		return fatbin_size(data, limit);
	case 0x464c457fu:
		return soft_elf_length(data, limit);
	default:
		return text_length(data, limit) + 1;
	}
}
