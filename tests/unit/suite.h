/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of a Check suite from a list of tests. Each test runs forked, with
 * a time limit; the descriptors that are open at its end are compared with
 * those at its start.
 */
#ifndef TESTS_UNIT_SUITE_H
#define TESTS_UNIT_SUITE_H

#undef NDEBUG
#include <assert.h>
#include <check.h>
#include <dirent.h>
#include <stdlib.h>

/* Seconds; sanitizers and valgrind are an order slower. */
#ifdef MPSSHIM_SANITIZED
#define SUITE_TIMEOUT 240
#else
#define SUITE_TIMEOUT 60
#endif

static inline int
suite_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static inline int
suite_run(const char *name, const TTest *const *tests, size_t count,
	  SFun setup, SFun teardown)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, SUITE_TIMEOUT);
	if (setup || teardown)
		tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < count; i++)
		tcase_add_test(tcase, tests[i]);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define SUITE_FIXTURE(name, setup, teardown, ...) \
	int \
	main(void) \
	{ \
		const TTest *const tests[] = {__VA_ARGS__}; \
		return suite_run(name, tests, \
				 sizeof(tests) / sizeof(tests[0]), \
				 setup, teardown); \
	}
#define SUITE(name, ...) SUITE_FIXTURE(name, NULL, NULL, __VA_ARGS__)

#endif
