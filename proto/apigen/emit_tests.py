# SPDX-License-Identifier: Apache-2.0
"""Tests that need every exported function: test_zeros.c calls each with nothing
but zeros; timed_entry.c forwards each to the shim and notes its times."""

from apigen import cudatypes as ct
from apigen.text import c_file, c_params, call, header, prototype


def zero(param):
    return f"({param.ctype}){{ 0 }}" if param.ctype in ct.BY_VALUE else "0"


def call_zeros(entry):
    zeros = ", ".join(zero(p) for p in entry.params)
    return (f"static CUresult\nzero_{entry.name}(void (*f)(void))\n{{\n"
            f"\treturn ((__typeof__(&{entry.name}))f)({zeros});\n}}")


def before_init(entry):
    """The answer to zeros before cuInit."""
    if entry.needs == "nothing":
        return "ANY"
    if entry.checks_before == "init":
        return entry.checks[0].code
    return "CUDA_ERROR_NOT_INITIALIZED"


def rows(api, graphics):
    for entry in api.entries:
        code = before_init(entry)
        for name in [entry.name] + ([entry.twin_name] if entry.twin else []):
            yield f'\t{{ "{name}", zero_{entry.name}, {code} }},'
    for name in graphics:
        yield f'\t{{ "{name}", zero_nothing, CUDA_ERROR_NOT_INITIALIZED }},'


def test_zeros_c(api, graphics):
    codes = "\n".join(f"\tcase {code}:" for code in ct.CODES)
    return c_file("""
/*
 * test_zeros LIBRARY: calls every exported function with zeros, before cuInit
 * and after. Each must return a CUresult that cuda.h knows; before cuInit
 * whatever needs it must answer CUDA_ERROR_NOT_INITIALIZED, or what it looks
 * at earlier. Exit status 77 when the library finds no device, so that only
 * the first half ran.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api_cuda.h"

#define ANY (-1)

struct row {
	const char *name;
	CUresult (*zero)(void (*function)(void));
	int before_init;
};

static const char *volatile current = "";
static unsigned int failed, calls;""", """
static CUresult
zero_nothing(void (*f)(void))
{
	return ((CUresult (*)(void))f)();
}""", *[call_zeros(e) for e in api.entries],
                  "static const struct row rows[] = {\n"
                  + "\n".join(rows(api, graphics)) + "\n};", f"""
static bool
is_known(CUresult code)
{{
	switch (code) {{
{codes}
		return true;
	}}
	return false;
}}""", """
static void
report_signal(int number)
{
	static const char text[] = ": crashed\\n";

	(void)!write(STDERR_FILENO, current, strlen(current));
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(128 + number);
}""", """
static void
fail(const char *name, const char *what, CUresult code)
{
	fprintf(stderr, "%s: %s (%d)\\n", name, what, (int)code);
	failed++;
}""", """
static void
call_all(void *library, bool initialized)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		void *symbol = dlsym(library, row->name);
		void (*function)(void);
		CUresult code;

		/* cuInit with zeros is the one call that would succeed. */
		if (!initialized && !strcmp(row->name, "cuInit"))
			continue;
		if (!symbol) {
			fail(row->name, "is not exported", 0);
			continue;
		}
		memcpy(&function, &symbol, sizeof(function));
		current = row->name;
		code = row->zero(function);
		calls++;
		if (!is_known(code))
			fail(row->name, "answers no CUresult", code);
		else if (!initialized && row->before_init != ANY &&
			 (int)code != row->before_init)
			fail(row->name, "does not ask for cuInit", code);
	}
}""", """
int
main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void *symbol;
	CUresult (*init)(unsigned int);
	CUresult code;

	if (!library) {
		fprintf(stderr, "test_zeros LIBRARY: %s\\n",
			argc == 2 ? dlerror() : "one argument");
		return 2;
	}
	signal(SIGSEGV, report_signal);
	signal(SIGBUS, report_signal);
	signal(SIGABRT, report_signal);
	call_all(library, false);
	symbol = dlsym(library, "cuInit");
	if (!symbol)
		return 1;
	memcpy(&init, &symbol, sizeof(init));
	code = init(0);
	if (code == CUDA_SUCCESS)
		call_all(library, true);
	printf("%u calls with zeros, %u failed\\n", calls, failed);
	if (code != CUDA_SUCCESS)
		printf("skipped after cuInit, which answers %d\\n", (int)code);
	return failed ? 1 : code == CUDA_SUCCESS ? 0 : 77;
}""")


def timed_entry(entry, name):
    """A call that is forwarded. What cuGetProcAddress finds is ours, too."""
    forward = call(f"\tr = TIMED_REAL({name})(", [p.name for p in entry.params])
    found = ""
    if entry.name.startswith("cuGetProcAddress"):
        found = ("\n\tif (r == CUDA_SUCCESS && pfn)"
                 "\n\t\t*pfn = timed_own(*pfn);")
    return (prototype("CUresult", name, c_params(entry), ")") + f"""
{{
\tstruct timed_call *noted = timed_begin(TIMED_{name});
\tCUresult r;

{forward}{found}
\ttimed_end(noted);
\treturn r;
}}""")


def timed_entry_c(api):
    """Forwards what cuda.h declares; nobody here calls the graphics ones."""
    parts = [timed_entry(e, e.name) for e in api.entries]
    parts += [timed_entry(e, e.twin_name) for e in api.entries if e.twin]
    return c_file("""
/* Every function of cuda.h, forwarded to the library that timed.c opened. */
#include "api_cuda.h"

#include "tests/gpu/stall/timed.h"

#define TIMED_REAL(name) ((__typeof__(&name))timed_real[TIMED_##name])""",
                  *parts)


def timed_names_h(api):
    """For each export whether the call is served, and its name."""
    served = {}
    for e in api.entries:
        kind = "REFUSED" if (e.target or e).is_refused else "SERVED"
        served[e.name] = kind
        if e.twin:
            served[e.twin_name] = kind
    rows = " \\\n".join(f"\tX({n}, {served[n]})" for n in api.exports())
    return header("timed_names.h", f"""
/* X(name, SERVED or REFUSED) for every exported function of cuda.h. */
#define TIMED_NAMES(X) \\
{rows}""")


def files(api, graphics):
    return {"test_zeros.c": test_zeros_c(api, graphics),
            "timed_entry.c": timed_entry_c(api),
            "timed_names.h": timed_names_h(api)}
