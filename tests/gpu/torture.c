/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is what was waited for there? Whoever has waited must see the newest data,
 * whichever unit wrote it and by whatever sign the wait has ended: stores of
 * kernels, the copy engines, and another stream's work that an event joins.
 *
 *	torture ROUNDS [SECONDS] [early]
 *
 * A round writes its number by one of the ways, waits, and looks at once, the
 * last word first. After SECONDS (0: never) no round is begun. With "early" it
 * looks before it waits, while the stream is held up, so that each round sees
 * old data: the test is one that can fail. Exits with 1 if any data was old.
 * Through us or natively: an ordinary program of the driver API.
 */
#include <string.h>
#include <time.h>

#include "tests/api/facts.h"

enum { WORDS = 2048, PAIRS = 4, SAID_MAX = 3 };

static const char ptx[] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry fill(.param .u64 at, .param .u32 v)\n"
	"{\n"
	"	.reg .u32 i, b, n, x;\n"
	"	.reg .u64 a, o;\n"
	"	mov.u32 i, %tid.x;\n"
	"	mov.u32 b, %ctaid.x;\n"
	"	mov.u32 n, %ntid.x;\n"
	"	mad.lo.u32 i, b, n, i;\n"
	"	mul.wide.u32 o, i, 4;\n"
	"	ld.param.u64 a, [at];\n"
	"	cvta.to.global.u64 a, a;\n"
	"	add.u64 a, a, o;\n"
	"	ld.param.u32 x, [v];\n"
	"	st.global.u32 [a], x;\n"
	"	ret;\n"
	"}\n";

/* Two streams, and an event for each. */
static struct pair {
	CUstream a, b;
	CUevent ea, eb;
} pairs[PAIRS];

/* A round: where it writes, and what. */
struct round {
	struct pair *p;
	uint32_t *host; /* pinned, where the data is looked for */
	CUdeviceptr mapped, device;
	uint32_t value, count;
};

static CUfunction fill_f;
static uint32_t *source, *pageable;

/* Who stores: few threads of several blocks. */
static void
fill(CUstream stream, CUdeviceptr at, uint32_t value, uint32_t count)
{
	uint32_t threads = count < 64 ? count : 64;
	void *argv[] = {&at, &value};

	OK(cuLaunchKernel(fill_f, count / threads, 1, 1, threads, 1, 1, 0,
			  stream, argv, NULL));
}

static void
store(const struct round *r)
{
	fill(r->p->a, r->mapped, r->value, r->count);
}

static void
copy(const struct round *r)
{
	OK(cuMemsetD32Async(r->device, r->value, r->count, r->p->a));
	OK(cuMemcpyDtoHAsync(r->host, r->device, 4 * r->count, r->p->a));
}

static void
there_and_back(const struct round *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		source[i] = r->value;
	OK(cuMemcpyHtoDAsync(r->device, source, 4 * r->count, r->p->a));
	OK(cuMemcpyDtoHAsync(r->host, r->device, 4 * r->count, r->p->a));
}

static void
store_away(const struct round *r)
{
	fill(r->p->a, r->device, r->value, r->count);
}

static void
b_after_a(const struct round *r)
{
	OK(cuEventRecord(r->p->ea, r->p->a));
	OK(cuStreamWaitEvent(r->p->b, r->p->ea, 0));
}

static void
join_store(const struct round *r)
{
	store(r);
	b_after_a(r);
}

static void
join_copy(const struct round *r)
{
	store_away(r);
	b_after_a(r);
	OK(cuMemcpyDtoHAsync(r->host, r->device, 4 * r->count, r->p->b));
}

static void
wait_a(const struct round *r)
{
	OK(cuStreamSynchronize(r->p->a));
}

static void
wait_b(const struct round *r)
{
	OK(cuStreamSynchronize(r->p->b));
}

static void
wait_context(const struct round *r)
{
	(void)r;
	OK(cuCtxSynchronize());
}

static void
wait_event(const struct round *r)
{
	OK(cuEventRecord(r->p->ea, r->p->a));
	OK(cuEventSynchronize(r->p->ea));
}

static void
wait_joined_event(const struct round *r)
{
	OK(cuEventRecord(r->p->eb, r->p->b));
	OK(cuEventSynchronize(r->p->eb));
}

static void
ask_event(const struct round *r)
{
	CUresult is;

	OK(cuEventRecord(r->p->ea, r->p->a));
	while ((is = cuEventQuery(r->p->ea)) == CUDA_ERROR_NOT_READY)
		;
	OK(is);
}

static void
ask_stream(const struct round *r)
{
	CUresult is;

	while ((is = cuStreamQuery(r->p->a)) == CUDA_ERROR_NOT_READY)
		;
	OK(is);
}

/* The copy to memory of the program's own is the wait. */
static void
fetch(const struct round *r)
{
	OK(cuMemcpyDtoHAsync(pageable, r->device, 4 * r->count, r->p->a));
	OK(cuStreamSynchronize(r->p->a));
}

static struct way {
	const char *name;
	void (*begin)(const struct round *r);
	void (*wait)(const struct round *r);
	uint32_t *host;
	CUdeviceptr mapped;
	uint64_t rounds, old;
} ways[] = {
	{.name = "kernel, stream", .begin = store, .wait = wait_a},
	{.name = "kernel, event", .begin = store, .wait = wait_event},
	{.name = "kernel, context", .begin = store, .wait = wait_context},
	{.name = "kernel, event asked", .begin = store, .wait = ask_event},
	{.name = "kernel, stream asked", .begin = store, .wait = ask_stream},
	{.name = "copy, stream", .begin = copy, .wait = wait_a},
	{.name = "copy, event", .begin = copy, .wait = wait_event},
	{.name = "copy, stream asked", .begin = copy, .wait = ask_stream},
	{.name = "in and out, stream", .begin = there_and_back, .wait = wait_a},
	{.name = "kernel joined, stream", .begin = join_store, .wait = wait_b},
	{.name = "kernel joined, event",
	 .begin = join_store,
	 .wait = wait_joined_event},
	{.name = "copy joined, stream", .begin = join_copy, .wait = wait_b},
	{.name = "copy to pageable", .begin = store_away, .wait = fetch},
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static CUdeviceptr device, hold_address;
static volatile uint32_t *hold;

static CUdeviceptr
mapped(void *host)
{
	CUdeviceptr address;

	OK(cuMemHostGetDevicePointer(&address, host, 0));
	return address;
}

static void
begin(void)
{
	CUcontext ctx;
	CUmodule module;
	void *p;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&fill_f, module, "fill"));
	OK(cuMemAlloc(&device, 4 * WORDS));
	OK(cuMemHostAlloc((void **)&source, 4 * WORDS, 0));
	OK(cuMemHostAlloc(&p, 64, CU_MEMHOSTALLOC_DEVICEMAP));
	memset(p, 0, 64);
	hold = p;
	hold_address = mapped(p);
	pageable = calloc(WORDS, 4);
	for (int i = 0; i < WAYS; i++) {
		OK(cuMemHostAlloc(&p, 4 * WORDS, CU_MEMHOSTALLOC_DEVICEMAP));
		memset(p, 0, 4 * WORDS);
		ways[i].host = p;
		ways[i].mapped = mapped(p);
	}
	for (struct pair *s = pairs; s < pairs + PAIRS; s++) {
		OK(cuStreamCreate(&s->a, CU_STREAM_NON_BLOCKING));
		OK(cuStreamCreate(&s->b, CU_STREAM_NON_BLOCKING));
		OK(cuEventCreate(&s->ea, CU_EVENT_DISABLE_TIMING));
		OK(cuEventCreate(&s->eb, CU_EVENT_DISABLE_TIMING));
	}
}

/* The last word is the last to be written. */
static void
look(struct way *way, const struct round *r)
{
	const volatile uint32_t *at =
		way->wait == fetch ? pageable : r->host;
	static int said;
	uint32_t i = r->count;

	while (i > 0 && at[i - 1] == r->value)
		i--;
	way->rounds++;
	if (i == 0)
		return;
	way->old++;
	if (said++ < SAID_MAX)
		fprintf(stderr, "%s: word %u of %u is %u in round %u\n",
			way->name, i - 1, r->count, at[i - 1], r->value);
}

static void
play(uint32_t number, bool early)
{
	struct way *way = &ways[number % WAYS];
	struct round r = {
		.p = &pairs[number / WAYS % PAIRS],
		.host = way->host,
		.mapped = way->mapped,
		.device = device,
		.value = number,
		.count = number / WAYS / PAIRS % 2 ? WORDS : 1,
	};

	if (!early) {
		way->begin(&r);
		way->wait(&r);
		look(way, &r);
		return;
	}
	OK(cuStreamWaitValue32(r.p->a, hold_address, number,
			       CU_STREAM_WAIT_VALUE_GEQ));
	way->begin(&r);
	look(way, &r);
	*hold = number;
	way->wait(&r);
}

static uint64_t
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

int
main(int argc, char **argv)
{
	uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 1000;
	uint64_t limit = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
	bool early = argc > 3 && !strcmp(argv[3], "early");
	uint64_t done = 0, old = 0, end;

	begin();
	end = limit ? seconds() + limit : UINT64_MAX;
	for (uint32_t n = 1; n <= rounds && seconds() < end; n++)
		play(n, early);
	for (struct way *way = ways; way < ways + WAYS; way++) {
		printf("%-24s %9llu rounds %6llu old\n", way->name,
		       (unsigned long long)way->rounds,
		       (unsigned long long)way->old);
		done += way->rounds;
		old += way->old;
	}
	printf("rounds %llu, mismatches %llu\n", (unsigned long long)done,
	       (unsigned long long)old);
	return old ? 1 : 0;
}
