/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device printf: the format and the packed arguments are device memory.
 *
 * Arguments lie one after the other at their natural alignment, after the
 * promotions of C: 4 bytes for int, 8 for long, double and pointers. Every
 * conversion is handed to the host's snprintf by itself, with a format that
 * was rebuilt from checked parts.
 */
#include "server/soft/ptx_exec.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FORMAT 8192
#define MAX_FIELD 1024
#define MAX_STRING 8192

struct text {
	char *data;
	size_t size, cap;
};

struct args {
	struct ptx_warp *w;
	unsigned lane;
	uint64_t at;
	int count;
	bool is_bad;
};

static void
text_add(struct text *t, const char *s, size_t n)
{
	if (!n)
		return;
	if (t->size + n > t->cap) {
		size_t cap = (t->size + n) * 2 + 64;
		char *data = realloc(t->data, cap);

		if (!data)
			return;
		t->data = data;
		t->cap = cap;
	}
	memcpy(t->data + t->size, s, n);
	t->size += n;
}

/* A NUL-terminated device string, at most max bytes; NULL when unreadable. */
static char *
read_string(struct ptx_warp *w, unsigned lane, uint64_t addr, size_t max)
{
	struct text t = { 0 };

	while (t.size < max) {
		size_t n, part;
		const char *p = ptx_peek(w, lane, addr + t.size, &n);

		if (!p) {
			free(t.data);
			return NULL;
		}
		if (n > max - t.size)
			n = max - t.size;
		part = strnlen(p, n);
		text_add(&t, p, part);
		if (part < n)
			break;
	}
	text_add(&t, "", 1);
	return t.data;
}

static uint64_t
next_arg(struct args *a, unsigned size)
{
	uint64_t v = 0;
	size_t n;
	const void *p;

	a->at = (a->at + size - 1) & ~(uint64_t)(size - 1);
	p = ptx_peek(a->w, a->lane, a->at, &n);
	if (!p || n < size) {
		a->is_bad = true;
		return 0;
	}
	memcpy(&v, p, size);
	a->at += size;
	a->count++;
	return v;
}

struct spec {
	char flags[8];
	int width, precision;    /* -1: none */
	unsigned size;           /* of an integer */
	char conversion;
};

static const char *
parse_count(const char *s, struct args *a, int *out)
{
	if (*s == '*') {
		*out = (int)(int32_t)next_arg(a, 4);
		return s + 1;
	}
	*out = 0;
	while (*s >= '0' && *s <= '9') {
		if (*out < MAX_FIELD)
			*out = *out * 10 + (*s - '0');
		s++;
	}
	return s;
}

/* After the '%'. */
static const char *
parse_spec(const char *s, struct args *a, struct spec *sp)
{
	size_t n = 0;

	*sp = (struct spec){ .width = -1, .precision = -1, .size = 4 };
	while (*s && strchr("-+ #0", *s)) {
		if (n < sizeof(sp->flags) - 2)
			sp->flags[n++] = *s;
		s++;
	}
	if (*s == '*' || (*s >= '1' && *s <= '9'))
		s = parse_count(s, a, &sp->width);
	if (sp->width < -1) { /* as C does for a negative '*' */
		sp->flags[n++] = '-';
		sp->width = -sp->width;
	}
	if (*s == '.')
		s = parse_count(s + 1, a, &sp->precision);
	for (; *s == 'h' || *s == 'l' || *s == 'z' || *s == 'j' || *s == 't';
	     s++) {
		if (*s != 'h')
			sp->size = 8;
		else
			sp->size = sp->size == 2 ? 1 : 2;
	}
	sp->conversion = *s;
	if (sp->width > MAX_FIELD)
		sp->width = MAX_FIELD;
	if (sp->precision > MAX_FIELD)
		sp->precision = MAX_FIELD;
	return *s ? s + 1 : s;
}

static void
build_format(char *out, size_t size, const struct spec *sp, const char *conv)
{
	int n = snprintf(out, size, "%%%s", sp->flags);

	if (sp->width >= 0)
		n += snprintf(out + n, size - (size_t)n, "%d", sp->width);
	if (sp->precision >= 0)
		n += snprintf(out + n, size - (size_t)n, ".%d",
			      sp->precision);
	snprintf(out + n, size - (size_t)n, "%s", conv);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void
put_integer(struct text *t, struct args *a, const struct spec *sp)
{
	char format[64], conv[4] = "ll", out[2 * MAX_FIELD + 128];
	unsigned size = sp->size < 4 ? 4 : sp->size;
	uint64_t v = next_arg(a, size);
	bool is_signed = sp->conversion == 'd' || sp->conversion == 'i';
	unsigned bits = 8 * sp->size;
	int n;

	if (bits < 64) {
		v <<= 64 - bits;
		v = is_signed ? (uint64_t)((int64_t)v >> (64 - bits))
			      : v >> (64 - bits);
	}
	conv[2] = sp->conversion;
	conv[3] = 0;
	build_format(format, sizeof(format), sp, conv);
	n = snprintf(out, sizeof(out), format, v);
	if (n > 0)
		text_add(t, out, (size_t)n < sizeof(out) ? (size_t)n
							 : sizeof(out) - 1);
}

static void
put_double(struct text *t, struct args *a, const struct spec *sp)
{
	char format[64], conv[2] = { sp->conversion, 0 };
	char out[2 * MAX_FIELD + 512];
	uint64_t bits = next_arg(a, 8);
	double d;
	int n;

	memcpy(&d, &bits, sizeof(d));
	build_format(format, sizeof(format), sp, conv);
	n = snprintf(out, sizeof(out), format, d);
	if (n > 0)
		text_add(t, out, (size_t)n < sizeof(out) ? (size_t)n
							 : sizeof(out) - 1);
}

static void
put_char(struct text *t, struct args *a, const struct spec *sp)
{
	char format[64], out[MAX_FIELD + 16];
	int n, c = (int)(unsigned char)next_arg(a, 4);

	build_format(format, sizeof(format), sp, "c");
	n = snprintf(out, sizeof(out), format, c);
	if (n > 0)
		text_add(t, out, (size_t)n);
}

static void
put_pointer(struct text *t, struct args *a, const struct spec *sp)
{
	char format[64], out[MAX_FIELD + 64];
	void *p = (void *)(uintptr_t)next_arg(a, 8);
	int n;

	build_format(format, sizeof(format), sp, "p");
	n = snprintf(out, sizeof(out), format, p);
	if (n > 0)
		text_add(t, out, (size_t)n);
}

static void
put_string(struct text *t, struct args *a, const struct spec *sp)
{
	char *s = read_string(a->w, a->lane, next_arg(a, 8), MAX_STRING);
	const char *v = s ? s : "(null)";
	size_t n = strlen(v), width = sp->width > 0 ? (size_t)sp->width : 0;
	bool is_left = strchr(sp->flags, '-');

	if (sp->precision >= 0 && n > (size_t)sp->precision)
		n = (size_t)sp->precision;
	for (size_t k = n; !is_left && k < width; k++)
		text_add(t, " ", 1);
	text_add(t, v, n);
	for (size_t k = n; is_left && k < width; k++)
		text_add(t, " ", 1);
	free(s);
}

#pragma GCC diagnostic pop

static void
put_one(struct text *t, struct args *a, const struct spec *sp,
	const char *text, size_t size)
{
	switch (sp->conversion) {
	case 'd':
	case 'i':
	case 'u':
	case 'o':
	case 'x':
	case 'X':
		put_integer(t, a, sp);
		break;
	case 'f':
	case 'F':
	case 'e':
	case 'E':
	case 'g':
	case 'G':
	case 'a':
	case 'A':
		put_double(t, a, sp);
		break;
	case 'c':
		put_char(t, a, sp);
		break;
	case 's':
		put_string(t, a, sp);
		break;
	case 'p':
		put_pointer(t, a, sp);
		break;
	case '%':
		text_add(t, "%", 1);
		break;
	default: /* not a conversion: as it stands */
		text_add(t, text, size);
	}
}

int
ptx_format(struct ptx_warp *w, unsigned lane, uint64_t fmt, uint64_t at)
{
	const struct ptx_env *env = w->thread->env;
	struct args a = { .w = w, .lane = lane, .at = at };
	struct text t = { 0 };
	char *format;
	const char *s;

	if (!fmt)
		return -1;
	format = read_string(w, lane, fmt, MAX_FORMAT);
	if (!format)
		return -2;
	for (s = format; *s && !a.is_bad;) {
		const char *pct = strchr(s, '%'), *next;
		struct spec sp;

		if (!pct) {
			text_add(&t, s, strlen(s));
			break;
		}
		text_add(&t, s, (size_t)(pct - s));
		next = parse_spec(pct + 1, &a, &sp);
		put_one(&t, &a, &sp, pct, (size_t)(next - pct));
		s = next;
	}
	if (t.size && env->print)
		env->print(env->ctx, t.data, t.size);
	free(t.data);
	free(format);
	return a.is_bad ? -2 : a.count;
}

void
ptx_print_assert(struct ptx_warp *w, unsigned lane, uint64_t message,
		 uint64_t file, uint32_t line, uint64_t function)
{
	const struct ptx_env *env = w->thread->env;
	const struct ptx_block *b = w->block;
	const unsigned *n = b->grid->launch.block;
	unsigned t = w->index * PTX_LANES + lane;
	char *m = read_string(w, lane, message, MAX_STRING);
	char *f = read_string(w, lane, file, MAX_STRING);
	char *fn = read_string(w, lane, function, MAX_STRING);
	char *out = NULL;
	int size;

	size = asprintf(&out, "%s:%u: %s: block: [%u,%u,%u], "
			"thread: [%u,%u,%u] Assertion `%s` failed.\n",
			f ? f : "", line, fn ? fn : "", b->id[0], b->id[1],
			b->id[2], t % n[0], t / n[0] % n[1],
			t / n[0] / n[1], m ? m : "");
	if (size > 0 && env->complain)
		env->complain(env->ctx, out, (size_t)size);
	if (size >= 0)
		free(out);
	free(m);
	free(f);
	free(fn);
}
