/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records what the driver's cuGetProcAddress answers.
 *
 *	record_procaddr NAMES.tsv
 *
 * For every name of the list, at the version below each change, at each
 * change, at 13000, 13010 and 15000, flags 0 to 4, through cuGetProcAddress
 * and cuGetProcAddress_v2, the latter with and without a status pointer.
 * Prints a line per name and version, then its answers:
 *
 *	KINDS:FLAGS:RC:SYMBOL:STATUS
 *
 * KINDS   1 = cuGetProcAddress, 2 = _v2 with status, n = _v2 without
 * FLAGS   the flags that gave this answer
 * SYMBOL  exported name with this address, NULL, "-" (left untouched), or
 *         "+HEX", an address that no candidate name has: its offset in the
 *         library
 * STATUS  CUdriverProcAddressQueryResult, or - (untouched or not asked)
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/drv.h"

enum {
	KINDS = 3,
	FLAGS = 5,
	VERSIONS_MAX = 64,
	UNTOUCHED_STATUS = 77,
};

typedef CUresult (*procaddr_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*procaddr_v2)(const char *, void **, int, cuuint64_t,
				CUdriverProcAddressQueryResult *);

struct answer {
	CUresult rc;
	void *address;
	int status;
};

static const char kind_letter[] = "12n";
static procaddr_v1 get_v1;
static procaddr_v2 get_v2;
/* Its address is what an untouched pointer keeps. */
static char untouched;

static struct answer
ask(const char *name, int version, int kind, int flags)
{
	struct answer a = { .address = &untouched,
			    .status = UNTOUCHED_STATUS };
	CUdriverProcAddressQueryResult status =
		(CUdriverProcAddressQueryResult)UNTOUCHED_STATUS;

	if (kind == 0)
		a.rc = get_v1(name, &a.address, version, (cuuint64_t)flags);
	else
		a.rc = get_v2(name, &a.address, version, (cuuint64_t)flags,
			      kind == 1 ? &status : NULL);
	a.status = (int)status;
	return a;
}

/* Prints those of name, name_v2 ... with each suffix that have the address,
 * joined by "=" when the library gives several names one address. */
static bool
symbols_print(const char *name, void *address)
{
	static const char *const version[] = { "", "_v2", "_v3", "_v4", "_v5" };
	static const char *const stream[] = { "", "_ptds", "_ptsz" };
	bool found = false;
	char text[160];
	size_t v, s;

	for (v = 0; v < sizeof(version) / sizeof(version[0]); v++) {
		for (s = 0; s < sizeof(stream) / sizeof(stream[0]); s++) {
			snprintf(text, sizeof(text), "%s%s%s", name,
				 version[v], stream[s]);
			if (dlsym(drv.library, text) != address)
				continue;
			printf("%s%s", found ? "=" : "", text);
			found = true;
		}
	}
	return found;
}

static void
symbol_print(const char *name, const struct answer *a)
{
	Dl_info info;

	if (a->address == &untouched)
		printf("-");
	else if (!a->address)
		printf("NULL");
	else if (symbols_print(name, a->address))
		return;
	else if (dladdr(a->address, &info) && info.dli_saddr == a->address)
		printf("%s", info.dli_sname);
	else if (dladdr(a->address, &info))
		printf("+%zx", (size_t)((char *)a->address -
					(char *)info.dli_fbase));
	else
		printf("+?");
}

static bool
answer_equal(const struct answer *a, const struct answer *b)
{
	return a->rc == b->rc && a->address == b->address &&
	       a->status == b->status;
}

static unsigned
flags_like(struct answer a[KINDS][FLAGS], int kind, const struct answer *like)
{
	unsigned mask = 0;
	int f;

	for (f = 0; f < FLAGS; f++) {
		if (answer_equal(&a[kind][f], like))
			mask |= 1u << f;
	}
	return mask;
}

/* Prints one group: all kinds and flags that gave the same answer as
 * (kind, flags), the first of them. A group is a product of kinds and
 * flags: kinds join only when their flags are the same. */
static void
group_print(const char *name, struct answer a[KINDS][FLAGS],
	    unsigned done[KINDS], int kind, int flags)
{
	const struct answer *like = &a[kind][flags];
	unsigned mask = flags_like(a, kind, like);
	int k, f;

	printf(" ");
	for (k = kind; k < KINDS; k++) {
		if (flags_like(a, k, like) != mask)
			continue;
		done[k] |= mask;
		printf("%c", kind_letter[k]);
	}
	printf(":");
	for (f = 0; f < FLAGS; f++) {
		if (mask >> f & 1)
			printf("%d", f);
	}
	printf(":%d:", (int)like->rc);
	symbol_print(name, like);
	if (like->status == UNTOUCHED_STATUS)
		printf(":-");
	else
		printf(":%d", like->status);
}

static void
version_print(const char *name, int version)
{
	struct answer a[KINDS][FLAGS];
	unsigned done[KINDS] = { 0 };
	const char *asked = strcmp(name, "\"\"") ? name : "";
	int k, f;

	for (k = 0; k < KINDS; k++) {
		for (f = 0; f < FLAGS; f++)
			a[k][f] = ask(asked, version, k, f);
	}
	printf("%s\t%d\t", name, version);
	for (k = 0; k < KINDS; k++) {
		for (f = 0; f < FLAGS; f++) {
			if (!(done[k] >> f & 1))
				group_print(asked, a, done, k, f);
		}
	}
	printf("\n");
}

static int
int_compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Every version worth asking: around each change, and three new ones. */
static size_t
versions_make(char *text, int version[VERSIONS_MAX])
{
	size_t n = 0;
	char *end;

	for (;;) {
		long v = strtol(text, &end, 10);

		if (end == text || n + 6 > VERSIONS_MAX)
			break;
		text = end;
		version[n++] = (int)v - 1;
		version[n++] = (int)v;
	}
	if (!n) {
		version[n++] = 0;
		version[n++] = 12000;
	}
	version[n++] = 13000;
	version[n++] = 13010;
	version[n++] = 15000;
	qsort(version, n, sizeof(version[0]), int_compare);
	return n;
}

static void
line_record(char *line)
{
	int version[VERSIONS_MAX];
	char *name = strsep(&line, "\t\n");
	size_t n, i;

	if (!line)
		return;
	n = versions_make(line, version);
	for (i = 0; i < n; i++) {
		if (!i || version[i] != version[i - 1])
			version_print(name, version[i]);
	}
}

int
main(int argc, char **argv)
{
	int driver_version = 0;
	char line[512];
	FILE *f;

	drv_open();
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	f = fopen(argc > 1 ? argv[1] : "tests/api/procaddr_names.tsv", "re");
	if (!f)
		test_fail("cannot read the list of names");
	get_v1 = (procaddr_v1)drv_symbol("cuGetProcAddress");
	get_v2 = (procaddr_v2)drv_symbol("cuGetProcAddress_v2");
	OK(drv.cuInit(0));
	OK(drv.cuDriverGetVersion(&driver_version));
	printf("# cuGetProcAddress of a driver of CUDA %d; see "
	       "tests/gpu/record_procaddr.c\n"
	       "# name\tversion\tanswers KINDS:FLAGS:RC:SYMBOL:STATUS\n",
	       driver_version);
	while (fgets(line, sizeof(line), f)) {
		if (line[0] != '#')
			line_record(line);
	}
	fclose(f);
	test_pass();
}
