/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of PTX instruction forms: rows, input vectors, kernels, runs.
 * For tests/ptx/forms only; make_forms.py describes the rows.
 */
#ifndef TESTS_PTX_FORMS_H
#define TESTS_PTX_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	FORM_THREADS = 64,
	FORM_OPERANDS = 4,   /* inputs at most, and outputs at most */
	FORM_SCRATCH = 32,   /* bytes a thread at %gp */
	FORM_BATCH = 48,     /* rows of one module */
};

enum form_state {
	FORM_NOT_RUN,
	FORM_RAN,
	FORM_REJECTED,       /* the driver does not load it */
	FORM_BROKE,          /* the launch or the process failed */
};

struct form_type {
	const char *name;
	const char *reg;     /* register type */
	unsigned bits;
	unsigned lanes;      /* values in a word */
	char kind;           /* 'i' integer, 'f' IEEE, 'b' bf16, 'p' predicate */
};

struct form_inputs {
	char *name;
	unsigned bits;
	uint64_t word[FORM_THREADS];
};

struct form {
	char *name, *ptx, *types, *inputs, *cls, *accepted, *result;
	const struct form_type *in[FORM_OPERANDS], *out[FORM_OPERANDS];
	const struct form_inputs *set[FORM_OPERANDS];
	unsigned nin, nout;
};

/* What one run gave. Lives in memory that the child process shares. */
struct form_result {
	enum form_state state;
	char reason[120];
	uint64_t out[FORM_OPERANDS][FORM_THREADS];
};

struct form_table {
	struct form *form;
	size_t count;
	struct form_inputs *set;
	size_t nsets;
};

/* Reads forms.tsv and inputs.tsv of a folder. 0, or -1 with a message. */
int form_table_read(struct form_table *table, const char *folder);
void form_table_fini(struct form_table *table);
/* Keeps the rows whose name begins with prefix. */
void form_table_select(struct form_table *table, const char *prefix);
/* Keeps the rows that nothing is recorded for. */
void form_table_select_missing(struct form_table *table);
void form_print(FILE *f, const struct form *form);
void form_print_result(FILE *f, const struct form *form,
		       const struct form_result *result);
/* The recorded result as words; false when none is recorded or it is cut. */
bool form_recorded(const struct form *form, struct form_result *out_result);

/* PTX text of a module with these rows, kernel k named form_k. */
void form_module_print(FILE *f, const struct form *form, size_t count);

/* Runs rows in child processes: one that faults costs no other. */
void form_run(const struct form *form, struct form_result *result,
	      size_t count);

/* Whether word `got` of output k stands for `want` under the row's class. */
bool form_word_equal(const struct form *form, unsigned k, uint64_t got,
		     uint64_t want);

#endif
