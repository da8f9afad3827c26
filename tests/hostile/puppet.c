/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that does what it is told, one line of stdin at a time, and
 * answers each with one line: "ok", or a CUresult and where it came from.
 * tests/hostile/faults.c and solo.c have several of them.
 *
 *   make         memory of every kind with known content, streams, events,
 *                code, a graph
 *   check        all of that is as it was, and works; new code loads
 *   wild         a kernel writes where nothing is; the code that follows
 *   arm, assert  load a kernel whose assertion fails; launch it: the code
 *   reset        what a reset answers, and a use of the context after it
 *   hold, free   a kernel that runs until it is freed
 *   hang         one that is never freed; its stream is not waited for
 *   wait         synchronise: the code
 *   work N       N rounds of copies and fills, each compared
 *   kernels N    N rounds of launch and synchronise, the sum compared
 *   state        run code that has a variable on the device
 *   address      ask for the address of a constant of the code
 *   array        make an array
 *   deadly       load code that says so
 *   dig, deep    load a kernel with 8 KiB of local memory; run it
 *   fill         take all device memory that there is
 *   empty        give that back
 *   crash        load an image with a kernel "crasher", which ends the worker
 *                if SOFTCUDA_FAULT says so
 *   crashlink    link such an image
 *   crashuse     load it and take out the kernel
 *   heap N       kernels that allocate N bytes, 32 times, and free them, in
 *                the middle of others of a stream
 *   limit N      let the device heap have N MiB
 *   nested       load code whose kernels would launch kernels
 *   export [event], import [event] HANDLE, exported
 *                memory, or an event, of another process: a handle; write
 *                there what that process wants to see; has it been written
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 6
#define WORDS (16u * 1024u)
#define BYTES (WORDS * 4u)
#define STREAMS 3
#define GRANULE (2u << 20)

static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	/* Adds by to n words. */
	".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 by)\n{\n"
	" .reg .pred %q; .reg .b32 %r<9>; .reg .b64 %d<4>;\n"
	" ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n];\n"
	" ld.param.u32 %r7, [by];\n"
	" mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	" mad.lo.u32 %r5, %r2, %r3, %r4; setp.ge.u32 %q, %r5, %r1;\n"
	" @%q bra E; mul.wide.u32 %d2, %r5, 4; add.u64 %d3, %d1, %d2;\n"
	" ld.global.u32 %r6, [%d3]; add.u32 %r6, %r6, %r7;\n"
	" st.global.u32 [%d3], %r6;\nE: ret;\n}\n"
	".visible .entry wild(.param .u64 p)\n{\n"
	" .reg .b64 %d<2>; .reg .b32 %r<2>; ld.param.u64 %d1, [p];\n"
	" mov.u32 %r1, 7; st.global.u32 [%d1], %r1; ret;\n}\n"
	/* Until the word is not 0. */
	".visible .entry hold(.param .u64 p)\n{\n"
	" .reg .pred %q; .reg .b64 %d<2>; .reg .b32 %r<2>;\n"
	" ld.param.u64 %d1, [p];\n"
	"L: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %q, %r1, 0;\n"
	" @%q bra L; ret;\n}\n";
static const char stateful[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .global .align 4 .u32 counter;\n"
	".visible .const .align 4 .u32 fixed = 5;\n"
	".visible .entry count()\n{\n"
	" .reg .b32 %r<2>; ld.global.u32 %r1, [counter];\n"
	" add.u32 %r1, %r1, 1; st.global.u32 [counter], %r1; ret;\n}\n"
	".visible .entry nothing()\n{ ret; }\n";
/* "n > 5" of f() in line 9 of a.cu. */
static const char asserting[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".extern .func __assertfail(.param .b64 m, .param .b64 f,"
	" .param .b32 l, .param .b64 n, .param .b64 s);\n"
	".global .align 1 .b8 what[6] = {110, 32, 62, 32, 53, 0};\n"
	".global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};\n"
	".global .align 1 .b8 func[2] = {102, 0};\n"
	".visible .entry fails()\n{\n .reg .b64 %d<4>;\n"
	" mov.u64 %d1, what; cvta.global.u64 %d1, %d1;\n"
	" mov.u64 %d2, file; cvta.global.u64 %d2, %d2;\n"
	" mov.u64 %d3, func; cvta.global.u64 %d3, %d3;\n"
	" { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n;"
	" .param .b64 s;\n"
	" st.param.b64 [m], %d1; st.param.b64 [f], %d2;"
	" st.param.b32 [l], 9;\n"
	" st.param.b64 [n], %d3; st.param.b64 [s], 1;\n"
	" call.uni __assertfail, (m, f, l, n, s); }\n ret;\n}\n";
/* Reads at a place that the run alone knows. */
static const char deep[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry deep(.param .u64 p, .param .u32 n, .param .u32 by)\n"
	"{\n .local .align 4 .b8 room[8192]; .reg .b64 %d<5>;"
	" .reg .b32 %r<3>;\n ld.param.u64 %d4, [p]; ld.param.u32 %r1, [n];\n"
	" mov.u64 %d1, room; mul.wide.u32 %d2, %r1, 4;\n"
	" add.u64 %d3, %d1, %d2; st.local.u32 [%d1], %r1;\n"
	" st.local.u32 [%d1+4], %r1; ld.local.u32 %r2, [%d3];\n"
	" st.global.u32 [%d4], %r2; ret;\n}\n";

/* Loads; what then happens to its kernel is the software device's to say. */
static const char crashing[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry crasher()\n{\n ret;\n}\n"
	".visible .entry other()\n{\n ret;\n}\n";

/* Of n bytes, out[thread] is thread + 7 by way of the last four, or 0. */
static const char heap[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
	".extern .func free(.param .b64 p);\n"
	".visible .entry heap(.param .u64 out, .param .u64 n)\n{\n"
	" .reg .pred %q; .reg .b32 %r<4>; .reg .b64 %d<8>;\n"
	" ld.param.u64 %d1, [out]; ld.param.u64 %d2, [n];\n"
	" mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;\n"
	" add.u64 %d1, %d1, %d3; mov.u32 %r2, 0;\n"
	" st.global.u32 [%d1], %r2;\n"
	" { .param .b64 s; .param .b64 r; st.param.b64 [s], %d2;\n"
	" call.uni (r), malloc, (s); ld.param.b64 %d4, [r]; }\n"
	" setp.eq.u64 %q, %d4, 0; @%q bra E;\n"
	" add.u64 %d5, %d4, %d2; add.u32 %r2, %r1, 7;\n"
	" st.u32 [%d5+-4], %r2; ld.u32 %r3, [%d5+-4];\n"
	" st.global.u32 [%d1], %r3;\n"
	" { .param .b64 p; st.param.b64 [p], %d4; call.uni free, (p); }\n"
	"E: ret;\n}\n";
static const char nested[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2"
	"(.param .b64 p, .param .b64 s);\n"
	".visible .entry nested()\n{ ret; }\n";

static CUdevice device;
static CUcontext context;
static CUdeviceptr blocks[BLOCKS], mapped, sums, exported;
static uint32_t *pinned;
static volatile uint32_t *flag;
static CUstream streams[STREAMS];
static CUevent events[STREAMS];
static CUmodule module, other;
static CUlibrary library;
static CUkernel kernel;
static CUfunction add, hold, wild, fails, deep_one;
static CUgraphExec exec;
static uint32_t seed, added, graph_runs;
static uint32_t host[WORDS];

static jmp_buf end_of_command;
static CUresult failed;
static const char *failed_at;

#define OK(call) ok((call), #call)
static void
ok(CUresult r, const char *call)
{
	if (r == CUDA_SUCCESS)
		return;
	failed = r;
	failed_at = call;
	longjmp(end_of_command, 1);
}

static void
wrong(const char *what)
{
	failed = (CUresult)-1;
	failed_at = what;
	longjmp(end_of_command, 1);
}

static uint32_t
word(unsigned block, unsigned i)
{
	return (i * 2654435761u) ^ (block * 40503u + seed);
}

static void
fill(unsigned block)
{
	for (unsigned i = 0; i < WORDS; i++)
		host[i] = word(block, i);
}

static void
compare(unsigned block, uint32_t more, const char *what)
{
	for (unsigned i = 0; i < WORDS; i++)
		if (host[i] != word(block, i) + more)
			wrong(what);
}

static void
launch(CUfunction f, CUdeviceptr p, uint32_t n, uint32_t by, CUstream s)
{
	void *args[] = { &p, &n, &by };

	OK(cuLaunchKernel(f, (n + 127) / 128, 1, 1, 128, 1, 1, 0, s, args,
			  NULL));
}

/* ---- commands ---- */

static void
map_memory(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = device },
	};
	CUmemAccessDesc access = {
		.location = prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle memory;

	OK(cuMemCreate(&memory, GRANULE, &prop, 0));
	OK(cuMemAddressReserve(&mapped, GRANULE, 0, 0, 0));
	OK(cuMemMap(mapped, GRANULE, 0, memory, 0));
	OK(cuMemSetAccess(mapped, GRANULE, &access, 1));
	OK(cuMemRelease(memory));
}

static void
make_graph(void)
{
	CUgraph graph;

	OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD32Async(sums, 0, 64, streams[0]));
	launch(add, sums, 64, 3, streams[0]);
	launch(add, sums, 64, 4, streams[0]);
	OK(cuStreamEndCapture(streams[0], &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
}

static void
make(void)
{
	seed = (uint32_t)getpid() * 7919u;
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuModuleGetFunction(&hold, module, "hold"));
	OK(cuModuleGetFunction(&wild, module, "wild"));
	OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "add"));
	for (unsigned i = 0; i < BLOCKS; i++) {
		OK(cuMemAlloc(&blocks[i], BYTES));
		fill(i);
		OK(cuMemcpyHtoD(blocks[i], host, BYTES));
	}
	OK(cuMemAlloc(&sums, 4096));
	map_memory();
	fill(BLOCKS);
	OK(cuMemcpyHtoD(mapped, host, BYTES));
	OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
	fill(BLOCKS + 1);
	memcpy(pinned, host, BYTES);
	OK(cuMemHostAlloc((void **)&flag, 4096, 0));
	for (unsigned i = 0; i < STREAMS; i++) {
		OK(cuStreamCreate(&streams[i], i == 1 ? CU_STREAM_NON_BLOCKING
						      : 0));
		OK(cuEventCreate(&events[i], 0));
		OK(cuEventRecord(events[i], streams[i]));
	}
	make_graph();
	OK(cuCtxSynchronize());
}

/* One more everywhere, by stream 0, then 1, then 2. */
static void
add_in_order(void)
{
	CUfunction f;

	OK(cuKernelGetFunction(&f, kernel));
	for (unsigned i = 0; i < BLOCKS; i++)
		launch(add, blocks[i], WORDS, 2, streams[0]);
	OK(cuEventRecord(events[0], streams[0]));
	OK(cuStreamWaitEvent(streams[1], events[0], 0));
	for (unsigned i = 0; i < BLOCKS; i++)
		launch(f, blocks[i], WORDS, 5, streams[1]);
	launch(f, mapped, WORDS, 7, streams[1]);
	OK(cuEventRecord(events[1], streams[1]));
	OK(cuStreamWaitEvent(streams[2], events[1], 0));
	launch(add, (CUdeviceptr)(uintptr_t)pinned, WORDS, 7, streams[2]);
	OK(cuEventRecord(events[2], streams[2]));
	OK(cuEventSynchronize(events[2]));
	OK(cuEventQuery(events[0]));
	OK(cuStreamQuery(streams[2]));
	added += 7;
}

static void
check_content(void)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		OK(cuMemcpyDtoH(host, blocks[i], BYTES));
		compare(i, added, "device memory");
	}
	OK(cuMemcpyDtoH(host, mapped, BYTES));
	compare(BLOCKS, added, "mapped memory");
	memcpy(host, pinned, BYTES);
	compare(BLOCKS + 1, added, "pinned memory");
}

static void
check_graph(void)
{
	uint32_t got[64];

	OK(cuGraphLaunch(exec, streams[1]));
	OK(cuGraphLaunch(exec, streams[1]));
	OK(cuStreamSynchronize(streams[1]));
	graph_runs += 2;
	OK(cuMemcpyDtoH(got, sums, sizeof(got)));
	for (unsigned i = 0; i < 64; i++)
		if (got[i] != 7)
			wrong("graph");
}

static void
check_new_objects(void)
{
	CUdeviceptr p;
	CUfunction f;
	CUstream s;
	CUevent e;
	int n;

	OK(cuModuleLoadData(&other, ptx));
	OK(cuModuleGetFunction(&f, other, "add"));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, add, 128, 0));
	OK(cuMemAlloc(&p, BYTES));
	OK(cuStreamCreate(&s, 0));
	OK(cuEventCreate(&e, 0));
	OK(cuMemsetD32Async(p, 40, WORDS, s));
	launch(f, p, WORDS, 2, s);
	OK(cuEventRecord(e, s));
	OK(cuEventSynchronize(e));
	OK(cuMemcpyDtoH(host, p, BYTES));
	for (unsigned i = 0; i < WORDS; i++)
		if (host[i] != 42)
			wrong("new memory");
	OK(cuEventDestroy(e));
	OK(cuStreamDestroy(s));
	OK(cuMemFree(p));
	OK(cuModuleUnload(other));
}

static void
check(void)
{
	check_content();
	add_in_order();
	check_content();
	check_graph();
	check_new_objects();
}

static void
do_wild(void)
{
	CUdeviceptr p = 0x10;
	void *args[] = { &p };

	OK(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, streams[0], args, NULL));
	OK(cuStreamSynchronize(streams[0]));
}

static void
do_arm(void)
{
	OK(cuModuleLoadData(&other, asserting));
	OK(cuModuleGetFunction(&fails, other, "fails"));
}

static void
do_assert(void)
{
	OK(cuLaunchKernel(fails, 1, 1, 1, 2, 1, 1, 0, streams[0], NULL, NULL));
	OK(cuStreamSynchronize(streams[0]));
}

static void
start_hold(CUdeviceptr p)
{
	void *args[] = { &p };

	OK(cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, streams[1], args, NULL));
	/* It has begun, as far as we can know. */
	while (cuStreamQuery(streams[1]) == CUDA_SUCCESS)
		continue;
}

static void
do_hold(void)
{
	*flag = 0;
	start_hold((CUdeviceptr)(uintptr_t)flag);
}

static void
do_free(void)
{
	*flag = 1;
}

static void
do_hang(void)
{
	CUdeviceptr p;

	OK(cuMemAlloc(&p, 4096));
	OK(cuMemsetD32(p, 0, 1024));
	start_hold(p);
}

static void
do_work(unsigned rounds)
{
	for (unsigned n = 0; n < rounds; n++) {
		unsigned i = n % BLOCKS;

		fill(i);
		OK(cuMemcpyHtoD(blocks[i], host, BYTES));
		OK(cuMemsetD32Async(sums, n, 1024, streams[0]));
		memset(host, 0, sizeof(host));
		OK(cuMemcpyDtoH(host, blocks[i], BYTES));
		compare(i, 0, "a copy");
		OK(cuStreamSynchronize(streams[0]));
		OK(cuMemcpyDtoH(host, sums, 4096));
		for (unsigned k = 0; k < 1024; k++)
			if (host[k] != n)
				wrong("a fill");
	}
	for (unsigned i = 0; i < BLOCKS && added; i++) {
		fill(i);
		for (unsigned k = 0; k < WORDS; k++)
			host[k] += added;
		OK(cuMemcpyHtoD(blocks[i], host, BYTES));
	}
}

static void
do_kernels(unsigned rounds)
{
	uint32_t got;

	OK(cuMemsetD32(sums, 0, 1024));
	for (unsigned n = 1; n <= rounds; n++) {
		launch(add, sums, 1024, 1, streams[0]);
		OK(cuStreamSynchronize(streams[0]));
		OK(cuMemcpyDtoH(&got, sums + 4 * 1023, sizeof(got)));
		if (got != n)
			wrong("a sum");
	}
}

static void
do_state(void)
{
	CUfunction f;

	OK(cuModuleLoadData(&other, stateful));
	OK(cuModuleGetFunction(&f, other, "count"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuCtxSynchronize());
}

static void
do_address(void)
{
	CUdeviceptr p;
	size_t size;

	OK(cuModuleLoadData(&other, stateful));
	OK(cuModuleGetGlobal(&p, &size, other, "fixed"));
}

static void
do_array(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	};
	CUarray array;

	OK(cuArrayCreate(&array, &shape));
}

/* In pieces of 4 GiB, then of half of that; what is left of the last one of 2
 * MiB is not asked for. */
static CUdeviceptr filling[4096];
static unsigned nfilling;

static void
do_fill(void)
{
	size_t before, after, total, size = (size_t)4 << 30, taken = 0;

	OK(cuMemGetInfo(&before, &total));
	while (nfilling < 4096) {
		CUresult r = cuMemAlloc(&filling[nfilling], size);

		if (r == CUDA_ERROR_OUT_OF_MEMORY && size == GRANULE)
			break;
		if (r == CUDA_ERROR_OUT_OF_MEMORY) {
			size /= 2;
			continue;
		}
		OK(r);
		OK(cuMemsetD32(filling[nfilling], nfilling + seed, size / 4));
		nfilling++;
		taken += size;
	}
	OK(cuMemGetInfo(&after, &total));
	if (!taken)
		wrong("there is no memory");
	if (before >= total || before < taken)
		wrong("more memory than was said to be free");
	if (after >= 2 * GRANULE)
		wrong("memory that is said to be free");
}

static void
check_filling(void)
{
	for (unsigned i = 0; i < nfilling; i++) {
		uint32_t got;

		OK(cuMemcpyDtoH(&got, filling[i] + GRANULE - 4, sizeof(got)));
		if (got != i + seed)
			wrong("memory that was filled");
	}
}

static void
do_empty(void)
{
	check_filling();
	while (nfilling)
		OK(cuMemFree(filling[--nfilling]));
}

#define HEAP_THREADS 32u

static void
do_heap(unsigned bytes)
{
	CUdeviceptr out;
	uint64_t size = bytes;
	void *args[] = { &out, &size };
	CUmodule loaded;
	CUfunction f;
	uint32_t got;

	OK(cuMemAlloc(&out, HEAP_THREADS * 4));
	OK(cuMemsetD32Async(sums, 0, 1024, streams[0]));
	for (unsigned n = 0; n < 100; n++)
		launch(add, sums, 1024, 1, streams[0]);
	OK(cuModuleLoadData(&loaded, heap));
	OK(cuModuleGetFunction(&f, loaded, "heap"));
	for (unsigned n = 0; n < 100; n++)
		launch(add, sums, 1024, 1, streams[0]);
	OK(cuLaunchKernel(f, 1, 1, 1, HEAP_THREADS, 1, 1, 0, streams[0], args,
			  NULL));
	OK(cuStreamSynchronize(streams[0]));
	OK(cuMemcpyDtoH(&got, sums + 4 * 1023, sizeof(got)));
	if (got != 200)
		wrong("kernels around the load");
	OK(cuMemcpyDtoH(host, out, HEAP_THREADS * 4));
	for (unsigned i = 0; i < HEAP_THREADS; i++)
		if (host[i] != i + 7)
			wrong(host[i] ? "heap memory" : "no heap memory");
	OK(cuMemFree(out));
}

/* Set, as nobody else has it. */
static void
do_limit(unsigned mib)
{
	size_t want = (size_t)mib << 20, got;

	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, want));
	OK(cuCtxGetLimit(&got, CU_LIMIT_MALLOC_HEAP_SIZE));
	if (got < want)
		wrong("a limit");
}

static void
do_nested(void)
{
	CUmodule loaded;

	OK(cuModuleLoadData(&loaded, nested));
}

static void
do_deadly(void)
{
	OK(cuModuleLoadData(&other, "// deadly\n.version 7.0\n"
			    ".target sm_50\n.address_size 64\n"));
}

static void
do_dig(void)
{
	OK(cuModuleLoadData(&other, deep));
	OK(cuModuleGetFunction(&deep_one, other, "deep"));
}

static void
do_deep(void)
{
	launch(deep_one, sums, 1, 0, streams[0]);
	OK(cuStreamSynchronize(streams[0]));
}

static void
do_crash(void)
{
	OK(cuModuleLoadData(&other, crashing));
	OK(cuModuleUnload(other));
}

static void
do_crash_in_link(void)
{
	char text[256] = "";
	CUjit_option options[] = {
		CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
	};
	void *values[] = { text, (void *)sizeof(text) };
	CUlinkState link;
	CUresult r;

	OK(cuLinkCreate(2, options, values, &link));
	r = cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)crashing,
			  sizeof(crashing), "crash", 0, NULL, NULL);
	OK(cuLinkDestroy(link));
	if (r != CUDA_SUCCESS && !strstr(text, "it has ended"))
		wrong("no reason");
	OK(r);
}

static void
do_crash_in_use(void)
{
	CUfunction f;
	CUresult r;

	OK(cuModuleLoadData(&other, crashing));
	OK(cuModuleGetFunction(&f, other, "other"));
	r = cuModuleGetFunction(&f, other, "crasher");
	OK(cuModuleUnload(other));
	OK(r);
}

static void
print_handle(const void *handle)
{
	const uint8_t *bytes = handle;

	printf("ok ");
	for (unsigned i = 0; i < CU_IPC_HANDLE_SIZE; i++)
		printf("%02x", bytes[i]);
	printf("\n");
}

static void
read_handle(const char *text, void *out)
{
	uint8_t *bytes = out;
	unsigned byte;

	for (unsigned i = 0; i < CU_IPC_HANDLE_SIZE; i++) {
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			wrong("not a handle");
		bytes[i] = (uint8_t)byte;
	}
}

static void
do_export(const char *what)
{
	CUipcEventHandle event;
	CUipcMemHandle memory;
	CUevent e;

	if (!strcmp(what, "export event")) {
		OK(cuEventCreate(&e, CU_EVENT_INTERPROCESS |
				 CU_EVENT_DISABLE_TIMING));
		OK(cuIpcGetEventHandle(&event, e));
		print_handle(&event);
		return;
	}
	OK(cuMemAlloc(&exported, GRANULE));
	OK(cuMemsetD32(exported, 1, 2));
	OK(cuIpcGetMemHandle(&memory, exported));
	print_handle(&memory);
}

static void
do_import(const char *text)
{
	CUipcEventHandle event;
	CUipcMemHandle memory;
	uint32_t got[2];
	CUdeviceptr p;
	CUevent e;

	if (!strncmp(text, "event ", 6)) {
		read_handle(text + 6, &event);
		OK(cuIpcOpenEventHandle(&e, event));
		return;
	}
	read_handle(text, &memory);
	OK(cuIpcOpenMemHandle(&p, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuMemcpyDtoH(got, p, sizeof(got)));
	if (got[0] != 1 || got[1] != 1)
		wrong("what was exported");
	launch(add, p, 2, 41, streams[0]);
	OK(cuStreamSynchronize(streams[0]));
	OK(cuIpcCloseMemHandle(p));
}

static void
do_exported(void)
{
	uint32_t got[2];

	OK(cuMemcpyDtoH(got, exported, sizeof(got)));
	if (got[0] != 42 || got[1] != 42)
		wrong("what the importer wrote");
	OK(cuMemFree(exported));
}

/* As a program that hopes for the best. */
static void
do_reset(void)
{
	CUresult r = cuDevicePrimaryCtxReset(device), use;
	CUdeviceptr p;

	use = cuMemAlloc(&p, 4096);
	printf("reset %d, use %d\n", (int)r, (int)use);
}

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
run(const char *command)
{
	unsigned n = 0;

	sscanf(command, "%*s %u", &n);
	if (!strncmp(command, "make", 4))
		make();
	else if (!strncmp(command, "check", 5))
		check();
	else if (!strncmp(command, "wild", 4))
		do_wild();
	else if (!strncmp(command, "arm", 3))
		do_arm();
	else if (!strncmp(command, "assert", 6))
		do_assert();
	else if (!strncmp(command, "hold", 4))
		do_hold();
	else if (!strncmp(command, "free", 4))
		do_free();
	else if (!strncmp(command, "hang", 4))
		do_hang();
	else if (!strncmp(command, "wait", 4))
		OK(cuCtxSynchronize());
	else if (!strncmp(command, "work", 4))
		do_work(n);
	else if (!strncmp(command, "kernels", 7))
		do_kernels(n);
	else if (!strncmp(command, "state", 5))
		do_state();
	else if (!strncmp(command, "address", 7))
		do_address();
	else if (!strncmp(command, "array", 5))
		do_array();
	else if (!strncmp(command, "dig", 3))
		do_dig();
	else if (!strncmp(command, "deep", 4))
		do_deep();
	else if (!strncmp(command, "deadly", 6))
		do_deadly();
	else if (!strcmp(command, "fill"))
		do_fill();
	else if (!strcmp(command, "empty"))
		do_empty();
	else if (!strcmp(command, "crash"))
		do_crash();
	else if (!strcmp(command, "crashlink"))
		do_crash_in_link();
	else if (!strcmp(command, "crashuse"))
		do_crash_in_use();
	else if (!strncmp(command, "heap", 4))
		do_heap(n);
	else if (!strncmp(command, "limit", 5))
		do_limit(n);
	else if (!strncmp(command, "nested", 6))
		do_nested();
	else if (!strncmp(command, "import ", 7))
		do_import(command + 7);
	else if (!strncmp(command, "exported", 8))
		do_exported();
	else
		wrong("no such command");
}

int
main(void)
{
	static char line[512];
	static double begin;

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		begin = now_ms();
		if (!strcmp(line, "reset"))
			do_reset();
		else if (setjmp(end_of_command))
			printf("%d %s\n", (int)failed, failed_at);
		else if (!strcmp(line, "export") ||
			 !strcmp(line, "export event"))
			do_export(line);
		else {
			run(line);
			printf("ok %.1f ms\n", now_ms() - begin);
		}
		fflush(stdout);
	}
	return 0;
}
