/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress answers every question as the real driver was recorded
 * to answer it.
 *
 *	check_procaddr_real [LIBRARY [RECORDING]]
 *
 * A cell is one question of tests/api/procaddr_real.tsv: a name, a version,
 * flags, and which of the three ways to ask; tests/gpu/record_procaddr.c
 * says how they are written. The library is asked before cuInit, where it
 * stands for a driver of the recording's version. Without an argument it is
 * $MPSSHIM_BUILD/lib/libmpsshim.so.
 */
#undef NDEBUG
#include <assert.h>
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	FLAGS = 5,
	ALL_CELLS = (1 << 3 * FLAGS) - 1, /* of one line */
	UNTOUCHED_STATUS = 77,
	SHOWN_MAX = 30,
	EXIT_SKIP = 77,
};

typedef CUresult (*procaddr_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*procaddr_v2)(const char *, void **, int, cuuint64_t,
				CUdriverProcAddressQueryResult *);

struct answer {
	CUresult rc;
	void *address;
	int status;
};

/* The ways to ask, in the order of a cell's bit. */
static const char kinds[] = "12n";
static const char default_recording[] = "tests/api/procaddr_real.tsv";
static void *library;
static procaddr_v1 get_v1;
static procaddr_v2 get_v2;
/* Its address is what an untouched pointer keeps. */
static char untouched;
static unsigned int passed, failed;

static void *
symbol(const char *name)
{
	return dlsym(library, name);
}

static struct answer
ask(const char *name, int version, char kind, int flags)
{
	CUdriverProcAddressQueryResult status =
		(CUdriverProcAddressQueryResult)UNTOUCHED_STATUS;
	struct answer a = { .address = &untouched };

	if (kind == '1')
		a.rc = get_v1(name, &a.address, version, (cuuint64_t)flags);
	else
		a.rc = get_v2(name, &a.address, version, (cuuint64_t)flags,
			      kind == '2' ? &status : NULL);
	a.status = (int)status;
	return a;
}

/* Whether the recorded text stands for the address: "-", "NULL", or names
 * joined by "=" that shared one address in the real driver. */
static bool
address_is(void *address, const char *text)
{
	char copy[256], *save = NULL, *name;

	if (!strcmp(text, "-"))
		return address == &untouched;
	if (!strcmp(text, "NULL"))
		return !address;
	snprintf(copy, sizeof(copy), "%s", text);
	for (name = strtok_r(copy, "=", &save); name;
	     name = strtok_r(NULL, "=", &save)) {
		void *exported = symbol(name);

		if (exported && exported == address)
			return true;
	}
	return false;
}

static const char *
address_name(void *address)
{
	Dl_info info;

	if (address == &untouched)
		return "-";
	if (!address)
		return "NULL";
	return dladdr(address, &info) && info.dli_sname ? info.dli_sname : "?";
}

static void
cell_check(const char *name, int version, char kind, int flags, int rc,
	   const char *text, int status)
{
	struct answer a = ask(name, version, kind, flags);

	if ((int)a.rc == rc && a.status == status &&
	    address_is(a.address, text)) {
		passed++;
		return;
	}
	if (failed++ >= SHOWN_MAX)
		return;
	printf("%s version %d flags %d way %c: gave %d %s %d, recorded "
	       "%d %s %d\n", *name ? name : "\"\"", version, flags, kind,
	       (int)a.rc, address_name(a.address), a.status, rc, text, status);
}

/* One "KINDS:FLAGS:RC:SYMBOL:STATUS"; returns the cells it covers. */
static unsigned int
group_check(const char *name, int version, char *group)
{
	char *ways = strsep(&group, ":"), *flags = strsep(&group, ":");
	char *rc = strsep(&group, ":"), *text = strsep(&group, ":");
	unsigned int cells = 0;
	int status;

	assert(group);
	status = strcmp(group, "-") ? atoi(group) : UNTOUCHED_STATUS;
	for (const char *k = ways; *k; k++) {
		const char *way = strchr(kinds, *k);

		assert(way);
		for (const char *f = flags; *f; f++) {
			assert(*f >= '0' && *f < '0' + FLAGS);
			cells |= 1u << ((way - kinds) * FLAGS + *f - '0');
			cell_check(name, version, *k, *f - '0', atoi(rc), text,
				   status);
		}
	}
	return cells;
}

static void
line_check(char *line)
{
	char *name = strsep(&line, "\t"), *version = strsep(&line, "\t");
	char *save = NULL, *group;
	unsigned int cells = 0;

	assert(line);
	if (!strcmp(name, "\"\""))
		name = "";
	for (group = strtok_r(line, " \n", &save); group;
	     group = strtok_r(NULL, " \n", &save))
		cells |= group_check(name, atoi(version), group);
	assert(cells == ALL_CELLS);
}

static void
skip(const char *reason)
{
	printf("%s\n", reason);
	exit(EXIT_SKIP);
}

static void
library_open(const char *path)
{
	char made[4096];
	const char *build = getenv("MPSSHIM_BUILD");

	if (!path) {
		snprintf(made, sizeof(made), "%s/lib/libmpsshim.so",
			 build ? build : "build");
		path = made;
	}
	if (access(path, R_OK))
		skip("libmpsshim.so is not built");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		printf("%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	get_v1 = (procaddr_v1)symbol("cuGetProcAddress");
	get_v2 = (procaddr_v2)symbol("cuGetProcAddress_v2");
	assert(get_v1 && get_v2);
}

int
main(int argc, char **argv)
{
	FILE *file = fopen(argc > 2 ? argv[2] : default_recording, "re");
	char line[4096];

	assert(file);
	library_open(argc > 1 ? argv[1] : NULL);
	while (fgets(line, sizeof(line), file)) {
		if (line[0] != '#')
			line_check(line);
	}
	fclose(file);
	if (failed > SHOWN_MAX)
		printf("and %u more\n", failed - SHOWN_MAX);
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed || !passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
