/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ptx/forms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	COLUMNS = 7,
};

static const struct form_type types[] = {
	{ "b16", ".b16", 16, 1, 'i' },    { "b32", ".b32", 32, 1, 'i' },
	{ "b64", ".b64", 64, 1, 'i' },    { "f16", ".b16", 16, 1, 'f' },
	{ "bf16", ".b16", 16, 1, 'b' },   { "f16x2", ".b32", 32, 2, 'f' },
	{ "bf16x2", ".b32", 32, 2, 'b' }, { "f32", ".f32", 32, 1, 'f' },
	{ "f64", ".f64", 64, 1, 'f' },    { "pred", ".pred", 4, 1, 'p' },
};

static const struct form_type *
type_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!strcmp(types[i].name, name))
			return &types[i];
	}
	return NULL;
}

static const struct form_inputs *
set_find(const struct form_table *table, const char *name)
{
	size_t i;

	for (i = 0; i < table->nsets; i++) {
		if (!strcmp(table->set[i].name, name))
			return &table->set[i];
	}
	return NULL;
}

/* "b32 b32 > pred" into operand types. */
static int
types_parse(struct form *form)
{
	char *copy = strdup(form->types), *save = NULL, *word;
	bool output = false;
	int r = copy ? 0 : -1;

	for (word = copy ? strtok_r(copy, " ", &save) : NULL; word && !r;
	     word = strtok_r(NULL, " ", &save)) {
		const struct form_type *type = type_find(word);
		unsigned *n = output ? &form->nout : &form->nin;

		if (!strcmp(word, ">"))
			output = true;
		else if (!type || *n == FORM_OPERANDS)
			r = -1;
		else if (output)
			form->out[(*n)++] = type;
		else
			form->in[(*n)++] = type;
	}
	free(copy);
	return r;
}

static int
sets_parse(struct form *form, const struct form_table *table)
{
	char *copy = strdup(form->inputs), *save = NULL, *word;
	unsigned n = 0;
	int r = copy ? 0 : -1;

	for (word = copy ? strtok_r(copy, " ", &save) : NULL; word && !r;
	     word = strtok_r(NULL, " ", &save)) {
		if (!strcmp(word, "-"))
			continue;
		if (n < FORM_OPERANDS)
			form->set[n] = set_find(table, word);
		if (n == FORM_OPERANDS || !form->set[n])
			r = -1;
		n++;
	}
	free(copy);
	return r || n != form->nin ? -1 : 0;
}

static int
form_parse(struct form *form, char *line, const struct form_table *table)
{
	char **column[COLUMNS] = {
		&form->name, &form->ptx, &form->types, &form->inputs,
		&form->cls, &form->accepted, &form->result,
	};
	int i;

	memset(form, 0, sizeof(*form));
	for (i = 0; i < COLUMNS; i++) {
		char *text = strsep(&line, "\t");

		*column[i] = text ? strdup(text) : NULL;
		if (!*column[i])
			return -1;
	}
	return types_parse(form) || sets_parse(form, table) ? -1 : 0;
}

static int
set_parse(struct form_inputs *set, char *line)
{
	char *name = strsep(&line, "\t"), *bits = strsep(&line, "\t");
	int i;

	if (!name || !bits || !line)
		return -1;
	set->name = strdup(name);
	set->bits = (unsigned)strtoul(bits, NULL, 10);
	for (i = 0; i < FORM_THREADS; i++) {
		char *end;

		set->word[i] = strtoull(line, &end, 16);
		if (end == line)
			return -1;
		line = end;
	}
	return set->name ? 0 : -1;
}

static void *
grown(void *array, size_t count, size_t size)
{
	if (count & (count - 1))
		return array;
	return realloc(array, (count ? 2 * count : 1) * size);
}

/* Calls one parser per line that is not a comment. */
static int
file_read(struct form_table *table, const char *folder, const char *name,
	  bool inputs)
{
	char path[512], *line = NULL;
	size_t size = 0, number = 0;
	int r = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	while (!r && getline(&line, &size, f) > 0) {
		number++;
		line[strcspn(line, "\n")] = 0;
		if (line[0] == '#')
			continue;
		if (inputs) {
			table->set = grown(table->set, table->nsets,
					   sizeof(*table->set));
			r = set_parse(&table->set[table->nsets++], line);
		} else {
			table->form = grown(table->form, table->count,
					    sizeof(*table->form));
			r = form_parse(&table->form[table->count++], line,
				       table);
		}
	}
	if (r)
		fprintf(stderr, "%s:%zu: not understood\n", path, number);
	free(line);
	fclose(f);
	return r;
}

int
form_table_read(struct form_table *table, const char *folder)
{
	memset(table, 0, sizeof(*table));
	if (file_read(table, folder, "inputs.tsv", true))
		return -1;
	return file_read(table, folder, "forms.tsv", false);
}

static void
form_fini(struct form *f)
{
	free(f->name);
	free(f->ptx);
	free(f->types);
	free(f->inputs);
	free(f->cls);
	free(f->accepted);
	free(f->result);
}

void
form_table_select(struct form_table *table, const char *prefix)
{
	size_t i, n = 0;

	for (i = 0; i < table->count; i++) {
		struct form *f = &table->form[i];

		if (!strncmp(f->name, prefix, strlen(prefix)))
			table->form[n++] = *f;
		else
			form_fini(f);
	}
	table->count = n;
}

void
form_table_select_missing(struct form_table *table)
{
	static struct form_result words;
	size_t i, n = 0;

	for (i = 0; i < table->count; i++) {
		struct form *f = &table->form[i];

		if (form_recorded(f, &words))
			form_fini(f);
		else
			table->form[n++] = *f;
	}
	table->count = n;
}

void
form_table_fini(struct form_table *table)
{
	size_t i;

	for (i = 0; i < table->count; i++)
		form_fini(&table->form[i]);
	for (i = 0; i < table->nsets; i++)
		free(table->set[i].name);
	free(table->form);
	free(table->set);
}

static void
print_text(FILE *f, const struct form *form)
{
	fprintf(f, "%s\t%s\t%s\t%s\t%s\t%s\t", form->name, form->ptx,
		form->types, form->inputs, form->cls, form->accepted);
}

void
form_print(FILE *f, const struct form *form)
{
	print_text(f, form);
	fprintf(f, "%s\n", form->result);
}

void
form_print_result(FILE *f, const struct form *form,
		  const struct form_result *result)
{
	unsigned k, i;

	print_text(f, form);
	for (k = 0; k < form->nout; k++) {
		for (i = 0; i < FORM_THREADS; i++)
			fprintf(f, "%s%0*llx", k + i ? " " : "",
				(int)form->out[k]->bits / 4,
				(unsigned long long)result->out[k][i]);
	}
	fprintf(f, "\n");
}

bool
form_recorded(const struct form *form, struct form_result *out_result)
{
	const char *text = form->result;
	unsigned k, i;

	for (k = 0; k < form->nout; k++) {
		for (i = 0; i < FORM_THREADS; i++) {
			char *end;

			out_result->out[k][i] = strtoull(text, &end, 16);
			if (end == text)
				return false;
			text = end;
		}
	}
	return true;
}
