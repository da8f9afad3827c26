/* SPDX-License-Identifier: Apache-2.0 */
/*
 * questions [NAME...]: what the real driver does where the worker has to know
 * and no contract program can tell yet. Prints one line for each; the driver
 * may die or wait for long in any, so each is a process of its own.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/drv.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
#define LOADS 60
#define HOLD_MS 700.0
/* A process that takes longer hangs. */
#define PATIENCE_S 12

/* ---- code ---- */

static const char prints[] = HEAD
	".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
	".global .align 1 .b8 text[3] = {104, 10, 0};\n"
	".visible .entry k(.param .u32 yes)\n{\n .reg .pred %q;\n"
	" .reg .b64 %d<2>; .reg .b32 %r<3>;\n ld.param.u32 %r1, [yes];\n"
	" setp.eq.u32 %q, %r1, 0; @%q bra E;\n mov.u64 %d1, text;\n"
	" cvta.global.u64 %d1, %d1;\n { .param .b64 f; .param .b64 a;"
	" .param .b32 r; st.param.b64 [f], %d1; st.param.b64 [a], 0;\n"
	" call.uni (r), vprintf, (f, a); }\nE: ret;\n}\n";
static const char asserts[] = HEAD
	".extern .func __assertfail(.param .b64 m, .param .b64 f,"
	" .param .b32 l, .param .b64 n, .param .b64 s);\n"
	".global .align 1 .b8 text[6] = {110, 32, 62, 32, 53, 0};\n"
	".visible .entry k(.param .u32 yes)\n{\n .reg .pred %q;\n"
	" .reg .b64 %d<2>; .reg .b32 %r<2>;\n ld.param.u32 %r1, [yes];\n"
	" setp.eq.u32 %q, %r1, 0; @%q bra E;\n mov.u64 %d1, text;\n"
	" cvta.global.u64 %d1, %d1;\n { .param .b64 m; .param .b64 f;"
	" .param .b32 l; .param .b64 n; .param .b64 s;\n"
	" st.param.b64 [m], %d1; st.param.b64 [f], %d1;"
	" st.param.b32 [l], 9;\n st.param.b64 [n], %d1;"
	" st.param.b64 [s], 1;\n"
	" call.uni __assertfail, (m, f, l, n, s); }\nE: ret;\n}\n";
/* What it writes is read back at a place that only the run knows, and given
 * away if that says so: the compiler must leave room for it. */
static const char local[] = HEAD
	".visible .global .align 4 .u32 given;\n"
	".visible .entry k(.param .u32 yes)\n{\n .reg .b64 %%d<4>;\n"
	" .reg .b32 %%r<3>; .local .align 4 .b8 room[%u]; .reg .pred %%q;\n"
	" ld.param.u32 %%r1, [yes]; mov.u64 %%d1, room;\n"
	" mul.wide.u32 %%d2, %%r1, 4; add.u64 %%d3, %%d1, %%d2;\n"
	" st.local.u32 [%%d1], %%r1; st.local.u32 [%%d1+4], %%r1;\n"
	" ld.local.u32 %%r2, [%%d3]; setp.eq.u32 %%q, %%r1, 0; @%%q bra E;\n"
	" st.global.u32 [given], %%r2;\nE: ret;\n}\n";

static const struct {
	const char *name, *image;
} bad[] = {
	{ "junk", "junk" },
	{ "instruction", HEAD ".visible .entry x(){ bogus; }\n" },
	{ "version", ".version 99.0\n.target sm_70\n.address_size 64\n"
		     ".visible .entry x(){ ret; }" },
	{ "sm_200", ".version 7.0\n.target sm_200\n.address_size 64\n"
		    ".visible .entry x(){ ret; }" },
	{ "no_target", ".version 7.0\n" },
	{ "extern", HEAD ".extern .func gone;\n"
		    ".visible .entry x(){ call gone; ret; }\n" },
};
#define BAD (sizeof(bad) / sizeof(bad[0]))

/* How far each child has come, for when it does not say so itself. */
static volatile unsigned *progress;

/* ---- first launches ---- */

static CUstream
stream(void)
{
	CUstream s;

	OK(drv.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

/* A kernel that runs for HOLD_MS. */
static void
hold(CUstream s)
{
	uint64_t ns = (uint64_t)(HOLD_MS * 1e6);
	CUdeviceptr never;
	void *args[] = { &never, &ns };

	OK(drv.cuMemAlloc(&never, 4096));
	OK(drv.cuMemsetD8(never, 0, 4096));
	OK(drv_launch1(drv_kernel(KERNEL_HOLD), s, args));
	test_sleep_ms(30);
}

static CUfunction
kernel_of(const char *ptx)
{
	CUresult (*load)(CUfunction) = drv_symbol("cuFuncLoad");
	CUfunction f;

	OK(drv.cuModuleGetFunction(&f, drv_load(ptx), "k"));
	OK(load(f));
	return f;
}

static void
first_launch(const char *ptx)
{
	uint32_t no = 0;
	void *args[] = { &no };
	CUstream a, b;
	CUfunction f;
	double begin, launched;
	int bytes = 0;

	drv_start();
	a = stream();
	b = stream();
	f = kernel_of(ptx);
	OK(drv.cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
				  f));
	hold(a);
	begin = test_ms();
	OK(drv_launch1(f, b, args));
	launched = test_ms() - begin;
	OK(drv.cuStreamSynchronize(b));
	printf("%d B of local memory: beside a kernel of %.0f ms its first "
	       "launch takes %.1f ms and is done after %.1f ms\n", bytes,
	       HOLD_MS, launched, test_ms() - begin);
}

static void
first_plain(void)
{
	first_launch(HEAD ".visible .entry k(.param .u32 yes){ ret; }\n");
}

static void
first_printing(void)
{
	first_launch(prints);
}

static void
first_asserting(void)
{
	first_launch(asserts);
}

static void
first_local(unsigned bytes)
{
	char text[1024];

	snprintf(text, sizeof(text), local, bytes);
	first_launch(text);
}

static void
first_local_512(void)
{
	first_local(512);
}

static void
first_local_2048(void)
{
	first_local(2048);
}

/* ---- a failing assertion ---- */

/* Who asks the stream alone, does it ever hear? */
static void
assertion(bool beside)
{
	uint32_t no = 0, yes = 1;
	void *args[] = { &no };
	CUstream a, b;
	CUresult r, other;
	CUfunction f;
	double begin, heard;

	drv_start();
	a = stream();
	b = stream();
	f = kernel_of(asserts);
	OK(drv_launch1(f, b, args));
	OK(drv.cuStreamSynchronize(b));
	if (beside)
		hold(a);
	args[0] = &yes;
	begin = test_ms();
	OK(drv_launch1(f, b, args));
	do {
		r = drv.cuStreamQuery(b);
		heard = test_ms() - begin;
	} while (r == CUDA_ERROR_NOT_READY && heard < 2 * HOLD_MS);
	other = drv.cuStreamQuery(a);
	printf("%s: cuStreamQuery gives %d after %.1f ms, of the other stream "
	       "%d; ", beside ? "beside a running kernel" : "alone", (int)r,
	       heard, (int)other);
	r = drv.cuStreamSynchronize(b);
	printf("cuStreamSynchronize %d after %.1f ms, cuCtxSynchronize %d\n",
	       (int)r, test_ms() - begin, (int)drv.cuCtxSynchronize());
}

static void
assertion_alone(void)
{
	assertion(false);
}

static void
assertion_beside(void)
{
	assertion(true);
}

/* ---- loads that fail ---- */

static unsigned
load_bad(const char *image, unsigned times)
{
	CUmodule m;
	CUresult r = 0;

	for (unsigned i = 0; i < times; i++) {
		r = drv.cuModuleLoadData(&m, image);
		++*progress;
	}
	return (unsigned)r;
}

static void
bad_loads(const char *name)
{
	drv_start();
	for (size_t i = 0; i < BAD; i++)
		if (strcmp(bad[i].name, name) == 0)
			printf("%d loads answer %u\n", LOADS,
			       load_bad(bad[i].image, LOADS));
}

static _Atomic bool over;

static void *
link_for_ever(void *with)
{
	CUresult (*create)(unsigned, CUjit_option *, void **, CUlinkState *) =
		drv_symbol("cuLinkCreate_v2");
	CUresult (*add)(CUlinkState, CUjitInputType, void *, size_t,
			const char *, unsigned, CUjit_option *, void **) =
		drv_symbol("cuLinkAddData_v2");
	CUresult (*destroy)(CUlinkState) = drv_symbol("cuLinkDestroy");
	unsigned n = 0;

	OK(drv.cuCtxSetCurrent(drv.ctx));
	while (!over) {
		CUlinkState s;

		OK(create(0, NULL, NULL, &s));
		if (with)
			OK(add(s, CU_JIT_INPUT_PTX, (void *)prints,
			       sizeof(prints), "x", 0, NULL, NULL));
		OK(destroy(s));
		n++;
	}
	return (void *)(uintptr_t)n;
}

static void *
unload_for_ever(void *unused)
{
	unsigned n = 0;

	OK(drv.cuCtxSetCurrent(drv.ctx));
	for (; !over; n++)
		OK(drv.cuModuleUnload(drv_load(prints)));
	return (void *)((uintptr_t)n + (uintptr_t)unused);
}

/* As the worker's gate and reaper do at once. */
static void
bad_loads_beside(void *(*other)(void *), void *with)
{
	pthread_t thread;
	void *n;

	drv_start();
	pthread_create(&thread, NULL, other, with);
	for (unsigned round = 0; round < 25; round++)
		for (size_t i = 0; i < BAD; i++)
			load_bad(bad[i].image, 1);
	over = true;
	pthread_join(thread, &n);
	printf("%u bad loads beside %u of those: nothing happens\n", *progress,
	       (unsigned)(uintptr_t)n);
}

static void
beside_links(void)
{
	bad_loads_beside(link_for_ever, NULL);
}

static void
beside_links_of_text(void)
{
	bad_loads_beside(link_for_ever, (void *)1);
}

static void
beside_unloads(void)
{
	bad_loads_beside(unload_for_ever, NULL);
}

static void
all_bad_loads(void)
{
	drv_start();
	for (unsigned round = 0; round < 25; round++)
		for (size_t i = 0; i < BAD; i++)
			load_bad(bad[i].image, 1);
	printf("%u loads of all in turn: nothing happens\n", *progress);
}

/* ---- the questions ---- */

static const struct {
	const char *name;
	void (*ask)(void);
	const char *image;
} questions[] = {
	{ "first launch, plain", first_plain, NULL },
	{ "first launch, printing", first_printing, NULL },
	{ "first launch, asserting", first_asserting, NULL },
	{ "first launch, local 512", first_local_512, NULL },
	{ "first launch, local 2048", first_local_2048, NULL },
	{ "assertion alone", assertion_alone, NULL },
	{ "assertion beside", assertion_beside, NULL },
	{ "loads, junk", NULL, "junk" },
	{ "loads, bad instruction", NULL, "instruction" },
	{ "loads, version 99", NULL, "version" },
	{ "loads, sm_200", NULL, "sm_200" },
	{ "loads, no target", NULL, "no_target" },
	{ "loads, extern", NULL, "extern" },
	{ "loads, all in turn", all_bad_loads, NULL },
	{ "loads beside links", beside_links, NULL },
	{ "loads beside links of text", beside_links_of_text, NULL },
	{ "loads beside unloads", beside_unloads, NULL },
};
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static pid_t
start(size_t i)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	progress += i;
	alarm(PATIENCE_S);
	printf("%s: ", questions[i].name);
	if (questions[i].ask)
		questions[i].ask();
	else
		bad_loads(questions[i].image);
	fflush(stdout);
	_exit(0);
}

int
main(int argc, char **argv)
{
	pid_t pids[QUESTIONS] = { 0 };
	int status;

	progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (progress == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < QUESTIONS; i++) {
		bool wanted = argc == 1;

		for (int a = 1; a < argc; a++)
			wanted |= strstr(questions[i].name, argv[a]) != NULL;
		if (wanted)
			pids[i] = start(i);
	}
	for (size_t i = 0; i < QUESTIONS; i++) {
		if (!pids[i])
			continue;
		waitpid(pids[i], &status, 0);
		if (WIFSIGNALED(status))
			printf("%s: signal %d after %u loads\n",
			       questions[i].name, WTERMSIG(status),
			       progress[i]);
		else if (WEXITSTATUS(status))
			printf("%s: status %d\n", questions[i].name,
			       WEXITSTATUS(status));
	}
	return 0;
}
