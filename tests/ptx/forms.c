/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the table of PTX forms.
 *
 *	forms MODE [-d FOLDER] [PREFIX]
 *
 * record  prints the table with the results that this driver library gives
 * missing is "record" of the rows that have no result yet
 * check   compares with the recorded results
 * accept  prints the table with its "accepted" column set for this library
 * ptx     prints the module text of the rows
 * count   prints rows, recorded rows, accepted rows
 *
 * PREFIX takes only the rows whose name begins so. DRIVER names the library.
 */
#include "tests/ptx/forms.h"

#include <stdlib.h>
#include <string.h>

#include "tests/contract/drv.h"

struct tally {
	size_t passed, failed, skipped;
};

static const char table_head[] =
	"# name\tptx\ttypes\tinputs\tclass\taccepted\tresult\n";

static int
record(const struct form_table *table, const struct form_result *result)
{
	size_t i, missing = 0;

	fputs(table_head, stdout);
	for (i = 0; i < table->count; i++) {
		if (result[i].state == FORM_RAN) {
			form_print_result(stdout, &table->form[i],
					  &result[i]);
			continue;
		}
		form_print(stdout, &table->form[i]);
		fprintf(stderr, "%s: %s\n", table->form[i].name,
			result[i].reason);
		missing++;
	}
	fprintf(stderr, "%zu recorded, %zu not\n", table->count - missing,
		missing);
	return missing ? TEST_FAIL : TEST_PASS;
}

static int
accept(struct form_table *table, const struct form_result *result)
{
	size_t i;

	fputs(table_head, stdout);
	for (i = 0; i < table->count; i++) {
		struct form form = table->form[i];
		char yes[] = "yes", no[] = "no";

		form.accepted = result[i].state == FORM_REJECTED ? no : yes;
		form_print(stdout, &form);
	}
	return TEST_PASS;
}

static void
difference_print(const struct form *form, const struct form_result *got,
		 const struct form_result *want)
{
	unsigned k, i, j, shown = 0, all = 0;

	for (k = 0; k < form->nout; k++) {
		for (i = 0; i < FORM_THREADS; i++) {
			if (form_word_equal(form, k, got->out[k][i],
					    want->out[k][i]))
				continue;
			if (all++ >= 4)
				continue;
			shown++;
			printf("  thread %u:", i);
			for (j = 0; j < form->nin; j++)
				printf(" %c=%llx", "abcx"[j],
				       (unsigned long long)
				       form->set[j]->word[i]);
			printf(" gave %c=%llx, recorded %llx\n", "defg"[k],
			       (unsigned long long)got->out[k][i],
			       (unsigned long long)want->out[k][i]);
		}
	}
	if (all > shown)
		printf("  and %u more\n", all - shown);
}

static bool
same(const struct form *form, const struct form_result *got,
     const struct form_result *want)
{
	unsigned k, i;

	for (k = 0; k < form->nout; k++) {
		for (i = 0; i < FORM_THREADS; i++) {
			if (!form_word_equal(form, k, got->out[k][i],
					     want->out[k][i]))
				return false;
		}
	}
	return true;
}

static void
check_one(const struct form *form, const struct form_result *got,
	  struct tally *tally)
{
	static struct form_result want;
	bool listed = !strcmp(form->accepted, "no");

	if (got->state == FORM_NOT_RUN || !form_recorded(form, &want)) {
		tally->skipped++;
		printf("skipped %s: %s\n", form->name,
		       got->state == FORM_NOT_RUN ? "not run"
						  : "nothing recorded");
	} else if (got->state == FORM_RAN && same(form, got, &want)) {
		tally->passed++;
	} else if (got->state == FORM_REJECTED && listed) {
		tally->skipped++;
		printf("skipped %s: listed as not accepted\n", form->name);
	} else {
		tally->failed++;
		printf("failed  %s: %s\n  %s\n", form->name,
		       got->state == FORM_RAN ? "other result" : got->reason,
		       form->ptx);
		if (got->state == FORM_RAN)
			difference_print(form, got, &want);
	}
}

static int
check(const struct form_table *table, const struct form_result *result)
{
	struct tally tally = { 0 };
	size_t i;

	for (i = 0; i < table->count; i++)
		check_one(&table->form[i], &result[i], &tally);
	printf("%zu passed, %zu failed, %zu skipped\n", tally.passed,
	       tally.failed, tally.skipped);
	if (tally.failed)
		return TEST_FAIL;
	return tally.passed ? TEST_PASS : TEST_SKIP;
}

static int
count_rows(const struct form_table *table)
{
	static struct form_result words;
	size_t recorded = 0, yes = 0, no = 0, i;

	for (i = 0; i < table->count; i++) {
		const struct form *form = &table->form[i];

		recorded += form_recorded(form, &words);
		yes += !strcmp(form->accepted, "yes");
		no += !strcmp(form->accepted, "no");
	}
	printf("%zu rows, %zu recorded, %zu accepted, %zu not accepted\n",
	       table->count, recorded, yes, no);
	return TEST_PASS;
}

static int
run_mode(const char *mode, struct form_table *table)
{
	struct form_result *result;
	int r;

	if (!strcmp(mode, "ptx")) {
		form_module_print(stdout, table->form, table->count);
		return TEST_PASS;
	}
	if (!strcmp(mode, "count"))
		return count_rows(table);
	if (!strcmp(mode, "missing"))
		form_table_select_missing(table);
	result = calloc(table->count + 1, sizeof(*result));
	if (!result)
		return TEST_FAIL;
	form_run(table->form, result, table->count);
	if (!strcmp(mode, "record") || !strcmp(mode, "missing"))
		r = record(table, result);
	else if (!strcmp(mode, "accept"))
		r = accept(table, result);
	else
		r = check(table, result);
	free(result);
	return r;
}

int
main(int argc, char **argv)
{
	static const char modes[] = "|record|missing|check|accept|ptx|count|";
	const char *folder = "tests/ptx", *prefix = "";
	struct form_table table;
	char word[16];
	int i, r;

	snprintf(word, sizeof(word), "|%s|", argc > 1 ? argv[1] : "");
	if (argc < 2 || !strstr(modes, word)) {
		fprintf(stderr, "usage: forms "
				"record|missing|check|accept|ptx|count "
				"[-d FOLDER] [PREFIX]\n");
		return 2;
	}
	for (i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "-d") && i + 1 < argc)
			folder = argv[++i];
		else
			prefix = argv[i];
	}
	if (form_table_read(&table, folder))
		return TEST_FAIL;
	form_table_select(&table, prefix);
	r = run_mode(argv[1], &table);
	form_table_fini(&table);
	return r;
}
