/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that state facts about a driver, one line each, and check them.
 * For tests/api only. Such a program runs under mpsrun and, unchanged, on the
 * real driver; with FACTS_COMPARABLE in the environment of both, what it prints
 * is to be the same.
 */
#ifndef TESTS_API_FACTS_H
#define TESTS_API_FACTS_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int facts_wrong;

/* A fact that must be so. */
static inline void
fact(const char *text, bool is)
{
	printf("%s  %s\n", is ? "yes" : "NO ", text);
	fflush(stdout);
	facts_wrong += !is;
}

/* A number that must be that one. */
static inline void
fact_is(long want, long got, const char *text)
{
	if (want != got)
		printf("     %ld, not %ld\n", got, want);
	fact(text, want == got);
}

/* What the driver answers, whatever it is: lines are compared. */
static inline void
told(const char *text, CUresult r)
{
	printf("     %s: %d\n", text, (int)r);
	fflush(stdout);
}

/* A call that must answer with that code. */
static inline void
answers(const char *text, CUresult r, CUresult want)
{
	const char *name = "?";

	if (r != want) {
		cuGetErrorName(r, &name);
		printf("     %s gives %d %s, not %d\n", text, (int)r, name,
		       (int)want);
	}
	fact(text, r == want);
}

/* One without which nothing that follows makes sense. */
#define OK(call) facts_ok(#call, __LINE__, call)
static inline void
facts_ok(const char *call, int line, CUresult r)
{
	const char *name = "?";

	if (r == CUDA_SUCCESS)
		return;
	cuGetErrorName(r, &name);
	printf("NO   line %d: %s gives %d %s\n", line, call, (int)r, name);
	exit(1);
}

/*
 * Is the run to be compared with one on the real driver? That one follows
 * handles that are none or are no more and crashes; facts about those are
 * left out then.
 */
static inline bool
facts_comparable(void)
{
	return getenv("FACTS_COMPARABLE") != NULL;
}

static inline int
facts_end(void)
{
	printf("%d wrong\n", facts_wrong);
	return facts_wrong ? 1 : 0;
}

#endif
