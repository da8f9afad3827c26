/* SPDX-License-Identifier: Apache-2.0 */
/* What a client gets from a worker: launches, copies, order, waits, text. */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "api_cuda.h"
#include "proto/function.h"
#include "proto/handle.h"
#include "tests/unit/suite.h"
#include "tests/unit/worker_rig.h"

#define MIB (UINT64_C(1) << 20)

static const char ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .global .align 4 .b32 counter;\n"
	".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c,"
	" .param .u32 n)\n{\n"
	" .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<8>; .reg .f32 %f<4>;\n"
	" ld.param.u64 %d1, [a];\n ld.param.u64 %d2, [b];\n"
	" ld.param.u64 %d3, [c];\n ld.param.u32 %r1, [n];\n"
	" mov.u32 %r2, %ctaid.x;\n mov.u32 %r3, %ntid.x;\n"
	" mov.u32 %r4, %tid.x;\n mad.lo.s32 %r5, %r2, %r3, %r4;\n"
	" setp.ge.u32 %p, %r5, %r1;\n @%p bra DONE;\n"
	" mul.wide.u32 %d4, %r5, 4;\n add.s64 %d5, %d1, %d4;\n"
	" add.s64 %d6, %d2, %d4;\n add.s64 %d7, %d3, %d4;\n"
	" ld.global.f32 %f1, [%d5];\n ld.global.f32 %f2, [%d6];\n"
	" add.f32 %f3, %f1, %f2;\n st.global.f32 [%d7], %f3;\n"
	"DONE:\n ret;\n}\n"
	".visible .entry bump(.param .u64 p)\n{\n"
	" .reg .b32 %r<3>; .reg .b64 %d<2>;\n"
	" ld.param.u64 %d1, [p];\n ld.global.u32 %r1, [%d1];\n"
	" add.u32 %r2, %r1, 1;\n st.global.u32 [%d1], %r2;\n ret;\n}\n"
	".visible .entry spin(.param .u64 p)\n{\n"
	" .reg .b32 %r<2>; .reg .b64 %d<2>; .reg .pred %p;\n"
	" ld.param.u64 %d1, [p];\n"
	"L:\n ld.volatile.global.u32 %r1, [%d1];\n"
	" setp.eq.u32 %p, %r1, 0;\n @%p bra L;\n ret;\n}\n"
	".visible .entry wild()\n{\n"
	" .reg .b64 %d<2>; .reg .b32 %r<2>;\n"
	" mov.u64 %d1, 64;\n mov.u32 %r1, 1;\n"
	" st.global.u32 [%d1], %r1;\n ret;\n}\n";

/* Prints "K\n", K being the character of the format that it is given. */
static const char printing_ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	".global .align 1 .b8 fmt[4] = {37, 99, 10, 0};\n"
	".visible .entry say(.param .u32 k)\n{\n"
	" .local .align 8 .b8 depot[8];\n"
	" .reg .b32 %r<3>; .reg .b64 %d<4>;\n"
	" ld.param.u32 %r1, [k];\n mov.u64 %d1, depot;\n"
	" cvta.local.u64 %d2, %d1;\n st.local.u32 [depot], %r1;\n"
	" mov.u64 %d3, fmt;\n cvta.global.u64 %d3, %d3;\n"
	" {\n .param .b64 p0;\n st.param.b64 [p0], %d3;\n"
	" .param .b64 p1;\n st.param.b64 [p1], %d2;\n"
	" .param .b32 rv;\n call.uni (rv), vprintf, (p0, p1);\n }\n"
	" ret;\n}\n";

/* Waits until the word at `gate` is set; prints "K" if k is not 0. */
static const char maybe_ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	".global .align 1 .b8 $str[3] = {37, 99, 0};\n"
	".visible .entry maybe(.param .u64 gate, .param .u32 k)\n{\n"
	" .local .align 8 .b8 depot[8];\n"
	" .reg .b32 %r<3>; .reg .b64 %d<5>; .reg .pred %p<3>;\n"
	" ld.param.u64 %d4, [gate];\n ld.param.u32 %r1, [k];\n"
	"again:\n ld.volatile.global.u32 %r2, [%d4];\n"
	" setp.eq.u32 %p1, %r2, 0;\n @%p1 bra again;\n"
	" setp.eq.u32 %p2, %r1, 0;\n @%p2 bra done;\n"
	" mov.u64 %d1, depot;\n"
	" cvta.local.u64 %d2, %d1;\n st.local.u32 [depot], %r1;\n"
	" mov.u64 %d3, $str;\n cvta.global.u64 %d3, %d3;\n"
	" {\n .param .b64 p0;\n st.param.b64 [p0], %d3;\n"
	" .param .b64 p1;\n st.param.b64 [p1], %d2;\n"
	" .param .b32 rv;\n call.uni (rv), vprintf, (p0, p1);\n }\n"
	"done:\n ret;\n}\n";

static struct rig rig;
static struct rig_client one;
static uint64_t base; /* a chunk of 2 MiB of `one` */

/* Handles of one client's usual things. */
struct kit {
	uint64_t stream, module, add, bump;
};

static void
make_stream(struct rig_client *c, uint64_t *out, uint32_t kind)
{
	uint64_t id = rig_mint(c, HANDLE_STREAM), context = 7;
	const uint64_t *p = &id;
	int32_t priority = 0;

	rig_post(c, API_mpsStreamCreate,
		 (void *[]){&p, &context, &kind, &priority});
	*out = id;
}

static int
load(struct rig_client *c, const char *text, size_t size, uint64_t *out,
     uint32_t *kernels)
{
	uint64_t id = rig_mint(c, HANDLE_MODULE), image_size = size;
	uint64_t hash_size = 32, options_size = 0;
	uint32_t kind = 0, no_cap = 0, cap = 256;
	const uint64_t *p = &id;
	const void *options = NULL;
	uint8_t hash[32];
	const void *h = hash;
	char error[256] = "";
	void *i = NULL, *e = error;
	int r;

	ck_assert_uint_eq(rig_image(c->rig, text, size, hash), 0);
	*out = id;
	r = rig_call(c, API_mpsModuleLoad,
		     (void *[]){&p, &h, &hash_size, &image_size, &kind,
				&options, &options_size, &kernels, &i, &no_cap,
				&e, &cap});
	if (r)
		fprintf(stderr, "load: %d %.200s\n", r, error);
	return r;
}

static int
get_function(struct rig_client *c, uint64_t module, const char *name,
	     uint64_t *out, struct function_info *info)
{
	uint64_t id = rig_mint(c, HANDLE_FUNCTION);
	const uint64_t *p = &id;
	uint32_t cap = sizeof(*info);

	*out = id;
	return rig_call(c, API_mpsModuleFunction,
			(void *[]){&module, &name, &p, &info, &cap});
}

static void
make_kit(struct rig_client *c, struct kit *kit)
{
	static struct function_info info;
	uint32_t kernels = 0;

	make_stream(c, &kit->stream, 1);
	ck_assert_int_eq(load(c, ptx, sizeof(ptx), &kit->module, &kernels), 0);
	ck_assert_uint_eq(kernels, 4);
	ck_assert_int_eq(get_function(c, kit->module, "add", &kit->add, &info),
			 0);
	ck_assert_uint_eq(info.nparams, 4);
	ck_assert_uint_eq(info.param_bytes, 28);
	ck_assert_uint_eq(info.params[3].offset, 24);
	ck_assert(info.attribute_mask & 1);
	ck_assert_int_eq(
		get_function(c, kit->module, "bump", &kit->bump, &info), 0);
}

static int
sync_stream(struct rig_client *c, uint64_t stream)
{
	return rig_call(c, API_mpsStreamSync, (void *[]){&stream});
}

static void
copy_in(struct rig_client *c, uint64_t dst, uint64_t size, uint64_t staging,
	uint64_t stream)
{
	rig_post(c, API_mpsCopyIn, (void *[]){&dst, &size, &staging, &stream});
}

static int
copy_out(struct rig_client *c, uint64_t src, uint64_t size, uint64_t staging,
	 uint64_t stream)
{
	return rig_call(c, API_mpsCopyOut,
			(void *[]){&src, &size, &staging, &stream});
}

static void
fill(struct rig_client *c, uint64_t dst, uint32_t value, uint64_t count,
     uint64_t stream)
{
	uint64_t pitch = 0, height = 1;
	uint32_t element = 4;

	rig_post(c, API_mpsFill,
		 (void *[]){&dst, &pitch, &element, &value, &count, &height,
			    &stream});
}

static void
bump(struct rig_client *c, const struct kit *kit, uint64_t stream)
{
	rig_launch(c, kit->bump, stream, 1, 1, &base, sizeof(base));
}

static uint32_t
late_error(struct rig_client *c)
{
	return atomic_exchange(&c->channel.page->late_error, 0);
}

static void
setup(void)
{
	/* Neighbours are on different lanes, whatever the machine has. */
	static const char *const lanes[] = {"MPSSHIM_LANES=3", NULL};

	rig_start(&rig, lanes);
	ck_assert_uint_eq(rig.ready->worker_ready->status, 0);
	rig_client_start(&rig, &one, 1, false);
	base = rig.device_base;
	ck_assert_uint_eq(rig_chunk(&one, 1, base, 2 * MIB), 0);
}

static void
teardown(void)
{
	rig_stop(&rig);
}

START_TEST(ready_describes_the_device)
{
	const Mps__WorkerReady *m = rig.ready->worker_ready;

	ck_assert_int_eq(m->software, !getenv("MPSSHIM_TEST_DRIVER"));
	ck_assert_uint_ge(m->n_devices, 1);
	ck_assert_str_ne(m->devices[0]->name, "");
	ck_assert_uint_eq(m->devices[0]->uuid.len, 16);
	ck_assert_uint_gt(m->devices[0]->n_attributes, 80);
	ck_assert_uint_gt(m->devices[0]->total_memory, 0);
	ck_assert_uint_ge(m->driver_version, 12040);
	ck_assert_uint_ge(m->n_windows, 4);
	ck_assert_uint_eq(m->n_windows % 4, 0);
	/* Device part and pinned part lie side by side. */
	ck_assert_uint_eq(m->windows[0] + m->windows[1], m->windows[2]);
	ck_assert(m->implemented.data[API_mpsFence / 8] >> API_mpsFence % 8 &
		  1);
	ck_assert(!(m->implemented.data[API_cuInit / 8] >> API_cuInit % 8 & 1));
}
END_TEST

static void
add_vectors(struct rig_client *c, uint64_t at)
{
	struct {
		uint64_t a, b, c;
		uint32_t n;
	} params = {at, at + 4096, at + 8192, 1000};
	float *in = (float *)c->staging;
	struct kit kit;

	make_kit(c, &kit);
	for (int i = 0; i < 1000; i++) {
		in[i] = (float)i;
		in[1024 + i] = 2.0f * (float)i;
	}
	copy_in(c, params.a, 4000, 0, kit.stream);
	copy_in(c, params.b, 4000, 4096, kit.stream);
	rig_launch(c, kit.add, kit.stream, 8, 128, &params, 28);
	ck_assert_int_eq(copy_out(c, params.c, 4000, 8192, kit.stream), 0);
	for (int i = 0; i < 1000; i++)
		ck_assert_float_eq(in[2048 + i], 3.0f * (float)i);
	ck_assert_uint_eq(late_error(c), 0);
}

START_TEST(vectors_are_added)
{
	add_vectors(&one, base);
	ck_assert_uint_eq(atomic_load(&one.channel.page->issued), one.seq);
	ck_assert_uint_eq(atomic_load(&one.channel.page->retired), one.seq);
}
END_TEST

START_TEST(vectors_are_added_without_a_ring)
{
	Mps__WorkerStatsReply *stats;
	struct rig_client two;
	Mps__Control *hold;

	rig_client_start(&rig, &two, 2, true);
	ck_assert_uint_eq(rig_chunk(&two, 1, base + 2 * MIB, 2 * MIB), 0);
	add_vectors(&two, base + 2 * MIB);
	stats = rig_stats(&rig, &hold);
	for (size_t i = 0; i < stats->n_clients; i++) {
		if (stats->clients[i]->client != 2)
			continue;
		ck_assert_uint_eq(stats->clients[i]->ring_frames, 0);
		ck_assert_uint_ge(stats->clients[i]->socket_frames, 5);
	}
	mps__control__free_unpacked(hold, NULL);
	ck_assert_uint_eq(rig_client_end(&two), 0);
}
END_TEST

START_TEST(pinned_memory_is_seen_by_copies)
{
	uint64_t size = 64, src, dst = rig.host_base;
	uint32_t *map;
	struct kit kit;

	ck_assert_uint_eq(rig_host(&one, 9, dst, 4096, (void **)&map), 0);
	make_kit(&one, &kit);
	fill(&one, base, 0x1234, 16, kit.stream);
	src = base;
	rig_post(&one, API_mpsCopy, (void *[]){&dst, &src, &size, &kit.stream});
	ck_assert_int_eq(sync_stream(&one, kit.stream), 0);
	ck_assert_uint_eq(map[15], 0x1234);
	ck_assert_uint_eq(map[16], 0);
	munmap(map, 4096);
}
END_TEST

START_TEST(foreign_addresses_are_refused)
{
	struct rig_client two;
	struct kit kit;

	rig_client_start(&rig, &two, 2, false);
	ck_assert_uint_eq(rig_chunk(&two, 1, base + 2 * MIB, 2 * MIB), 0);
	make_kit(&one, &kit);
	ck_assert_int_eq(copy_out(&one, base + 2 * MIB, 64, 0, kit.stream),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(copy_out(&one, base + 2 * MIB - 32, 64, 0, kit.stream),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(
		copy_out(&one, base, 64, CHANNEL_STAGING - 32, kit.stream),
		CUDA_ERROR_INVALID_VALUE);
	fill(&one, base + 2 * MIB, 1, 1, kit.stream);
	ck_assert_int_eq(sync_stream(&one, kit.stream), 0);
	ck_assert_uint_eq(late_error(&one), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(foreign_handles_are_refused)
{
	struct rig_client two;
	struct kit kit;

	rig_client_start(&rig, &two, 2, false);
	make_kit(&one, &kit);
	ck_assert_int_eq(sync_stream(&two, kit.stream),
			 CUDA_ERROR_INVALID_HANDLE);
	rig_launch(&two, kit.bump, kit.stream, 1, 1, &base, 8);
	ck_assert_int_eq(rig_call(&two, API_mpsFence, NULL), 0);
	ck_assert_uint_eq(late_error(&two), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(more_launches_than_credits_all_run)
{
	struct kit kit;
	uint32_t *out = (uint32_t *)one.staging;

	make_kit(&one, &kit);
	fill(&one, base, 0, 1, kit.stream);
	for (int i = 0; i < 3000; i++)
		bump(&one, &kit, kit.stream);
	ck_assert_int_eq(copy_out(&one, base, 4, 0, kit.stream), 0);
	ck_assert_uint_eq(*out, 3000);
	ck_assert_uint_eq(late_error(&one), 0);
}
END_TEST

START_TEST(legacy_stream_orders_blocking_streams)
{
	uint64_t legacy, blocking[4];
	uint32_t *out = (uint32_t *)one.staging;
	struct kit kit;

	make_kit(&one, &kit);
	make_stream(&one, &legacy, 2);
	for (int i = 0; i < 4; i++)
		make_stream(&one, &blocking[i], 0);
	fill(&one, base, 0, 1, legacy);
	/* Unordered, these would lose counts. */
	for (int i = 0; i < 200; i++) {
		bump(&one, &kit, blocking[i % 4]);
		bump(&one, &kit, legacy);
	}
	ck_assert_int_eq(copy_out(&one, base, 4, 0, legacy), 0);
	ck_assert_uint_eq(*out, 400);
}
END_TEST

START_TEST(events_order_streams_and_measure)
{
	uint64_t start = rig_mint(&one, HANDLE_EVENT);
	uint64_t end = rig_mint(&one, HANDLE_EVENT), other;
	const uint64_t *p = &start, *q = &end;
	uint32_t flags = 0, *out = (uint32_t *)one.staging;
	float ms = -1, *m = &ms;
	struct kit kit;

	make_kit(&one, &kit);
	make_stream(&one, &other, 1);
	rig_post(&one, API_mpsEventCreate, (void *[]){&p, &flags});
	rig_post(&one, API_mpsEventCreate, (void *[]){&q, &flags});
	ck_assert_int_eq(rig_call(&one, API_mpsEventQuery, (void *[]){&start}),
			 0);
	rig_post(&one, API_mpsEventRecord,
		 (void *[]){&start, &kit.stream, &flags});
	fill(&one, base, 0, 1, kit.stream);
	for (int i = 0; i < 100; i++)
		bump(&one, &kit, kit.stream);
	rig_post(&one, API_mpsEventRecord,
		 (void *[]){&end, &kit.stream, &flags});
	rig_post(&one, API_mpsStreamWait, (void *[]){&other, &end, &flags});
	ck_assert_int_eq(copy_out(&one, base, 4, 0, other), 0);
	ck_assert_uint_eq(*out, 100);
	ck_assert_int_eq(rig_call(&one, API_mpsEventSync, (void *[]){&end}), 0);
	ck_assert_int_eq(rig_call(&one, API_mpsEventElapsed,
				  (void *[]){&start, &end, &m}),
			 0);
	ck_assert_float_ge(ms, 0);
	rig_post(&one, API_mpsEventDestroy, (void *[]){&end});
	ck_assert_int_eq(rig_call(&one, API_mpsEventSync, (void *[]){&end}),
			 CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(destroyed_stream_finishes_its_work)
{
	uint64_t other, context = 7;
	uint32_t *out = (uint32_t *)one.staging;
	struct kit kit;

	make_kit(&one, &kit);
	make_stream(&one, &other, 1);
	fill(&one, base, 0, 1, other);
	for (int i = 0; i < 50; i++)
		bump(&one, &kit, other);
	rig_post(&one, API_mpsStreamDestroy, (void *[]){&other});
	ck_assert_int_eq(
		rig_call(&one, API_mpsContextSync, (void *[]){&context}), 0);
	ck_assert_int_eq(copy_out(&one, base, 4, 0, kit.stream), 0);
	ck_assert_uint_eq(*out, 50);
	ck_assert_int_eq(sync_stream(&one, other), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(module_global_is_the_clients_own)
{
	uint64_t address = 0, size = 0, *a = &address, *s = &size;
	const char *name = "counter", *none = "nothing";
	uint32_t *out = (uint32_t *)one.staging;
	struct kit kit;

	make_kit(&one, &kit);
	ck_assert_int_eq(rig_call(&one, API_mpsModuleGlobal,
				  (void *[]){&kit.module, &none, &a, &s}),
			 CUDA_ERROR_NOT_FOUND);
	ck_assert_int_eq(rig_call(&one, API_mpsModuleGlobal,
				  (void *[]){&kit.module, &name, &a, &s}),
			 0);
	ck_assert_uint_eq(size, 4);
	rig_launch(&one, kit.bump, kit.stream, 1, 1, &address, 8);
	ck_assert_int_eq(copy_out(&one, address, 4, 0, kit.stream), 0);
	ck_assert_uint_eq(*out, 1);
	rig_post(&one, API_mpsModuleUnload, (void *[]){&kit.module});
	ck_assert_int_eq(copy_out(&one, address, 4, 0, kit.stream),
			 CUDA_ERROR_INVALID_VALUE);
	bump(&one, &kit, kit.stream);
	ck_assert_int_eq(sync_stream(&one, kit.stream), 0);
	ck_assert_uint_eq(late_error(&one), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

/* Kernels of a module from number `first` on; how many names fitted. */
static uint32_t
list_kernels(uint64_t module, uint32_t first, char *names, uint32_t cap)
{
	uint32_t total = 0, *t = &total, n = 0;
	void *p = names;

	memset(names, 0, cap);
	ck_assert_int_eq(rig_call(&one, API_mpsModuleKernels,
				  (void *[]){&module, &first, &t, &p, &cap}),
			 0);
	ck_assert_uint_eq(total, 4);
	for (uint32_t at = 0; at < cap && names[at]; n++)
		at += (uint32_t)strlen(names + at) + 1;
	return n;
}

START_TEST(kernels_are_listed)
{
	static const char *const all[] = {"add", "bump", "spin", "wild"};
	char names[64];
	struct kit kit;

	make_kit(&one, &kit);
	ck_assert_uint_eq(list_kernels(kit.module, 0, names, 64), 4);
	for (int i = 0; i < 4; i++)
		ck_assert_ptr_nonnull(memmem(names, sizeof(names), all[i],
					     strlen(all[i]) + 1));
	ck_assert_uint_eq(list_kernels(kit.module, 3, names, 64), 1);
	ck_assert_uint_eq(list_kernels(kit.module, 4, names, 64), 0);
	/* No half names. */
	ck_assert_uint_eq(list_kernels(kit.module, 0, names, 11), 2);
}
END_TEST

START_TEST(bad_image_answers_its_code_and_log)
{
	static const char junk[] =
		".version 8.0\n.target sm_90\n"
		".address_size 64\n.entry x() { frobnicate; }\n";
	uint32_t kernels;
	uint64_t module;

	ck_assert_int_eq(load(&one, junk, sizeof(junk), &module, &kernels),
			 CUDA_ERROR_INVALID_PTX);
	ck_assert_int_eq(load(&one,
			      "\x7f"
			      "ELF\2",
			      6, &module, &kernels),
			 CUDA_ERROR_INVALID_IMAGE);
	ck_assert_int_eq(rig_call(&one, API_mpsFence, NULL), 0);
}
END_TEST

START_TEST(occupancy_is_answered)
{
	int32_t threads = 128, blocks = 0, *b = &blocks, one_block = 1;
	uint64_t shared = 0, *s = &shared;
	uint32_t flags = 0;
	struct kit kit;

	make_kit(&one, &kit);
	ck_assert_int_eq(
		rig_call(&one, API_mpsOccupancyBlocks,
			 (void *[]){&kit.add, &threads, &shared, &flags, &b}),
		0);
	ck_assert_int_gt(blocks, 0);
	ck_assert_int_eq(
		rig_call(&one, API_mpsOccupancyShared,
			 (void *[]){&kit.add, &one_block, &threads, &s}),
		0);
	ck_assert_uint_gt(shared, 0);
	ck_assert_int_eq(rig_call(&one, API_mpsOccupancyBlocks,
				  (void *[]){&kit.module, &threads, &shared,
					     &flags, &b}),
			 CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(fills_have_their_shapes)
{
	static const uint32_t elements[] = {1, 2, 4};
	uint64_t dst = base, pitch = 64, width = 5, height = 3, bad = 3;
	uint32_t value = 0x11223344, odd = 3;
	struct kit kit;

	make_kit(&one, &kit);
	for (int i = 0; i < 3; i++) {
		uint32_t element = elements[i];
		uint32_t row = 5 * element;

		fill(&one, base, 0, 64, kit.stream);
		rig_post(&one, API_mpsFill,
			 (void *[]){&dst, &pitch, &element, &value, &width,
				    &height, &kit.stream});
		ck_assert_int_eq(copy_out(&one, base, 256, 0, kit.stream), 0);
		for (uint32_t at = 0; at < 256; at++) {
			bool in = at / 64 < 3 && at % 64 < row;
			uint32_t byte = value >> at % element * 8 & 0xff;

			ck_assert_uint_eq(one.staging[at], in ? byte : 0);
		}
	}
	ck_assert_uint_eq(late_error(&one), 0);
	rig_post(&one, API_mpsFill,
		 (void *[]){&dst, &pitch, &odd, &value, &width, &height,
			    &kit.stream});
	ck_assert_int_eq(sync_stream(&one, kit.stream), 0);
	ck_assert_uint_eq(late_error(&one), CUDA_ERROR_INVALID_VALUE);
	/* Rows that overlap. */
	rig_post(&one, API_mpsFill,
		 (void *[]){&dst, &bad, (void *)&elements[0], &value, &width,
			    &height, &kit.stream});
	ck_assert_int_eq(sync_stream(&one, kit.stream), 0);
	ck_assert_uint_eq(late_error(&one), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* Launch with one attribute; the late error that it leaves. */
static uint32_t
launch_with(const struct kit *kit, uint32_t id, const void *value, size_t size)
{
	struct launch_head head = {
		.version = LAUNCH_HEAD_VERSION,
		.nattrs = 1,
		.function = kit->bump,
		.stream = kit->stream,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
	};
	struct launch_attr attr = {.id = id};

	memcpy(attr.value, value, size);
	rig_launch_head(&one, &head, &base, sizeof(base), &attr);
	ck_assert_int_eq(sync_stream(&one, kit->stream), 0);
	return late_error(&one);
}

START_TEST(launch_attributes_are_translated_one_by_one)
{
	CUaccessPolicyWindow window = {.base_ptr = (void *)0x1000,
				       .num_bytes = 64};
	int cooperative = 1, zero = 0;
	uint64_t foreign[2] = {0x1234, 0};
	uint32_t *out = (uint32_t *)one.staging;
	struct kit kit;

	make_kit(&one, &kit);
	fill(&one, base, 0, 1, kit.stream);
	ck_assert_uint_eq(launch_with(&kit, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
				      &cooperative, 4),
			  0);
	ck_assert_uint_eq(
		launch_with(&kit, CU_LAUNCH_ATTRIBUTE_IGNORE, &zero, 4), 0);
	ck_assert_int_eq(copy_out(&one, base, 4, 0, kit.stream), 0);
	ck_assert_uint_eq(*out, 2);
	ck_assert_uint_eq(launch_with(&kit, 9999, &zero, 4),
			  CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(
		launch_with(&kit,
			    CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE,
			    &zero, 4),
		CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(launch_with(&kit,
				      CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
				      &window, sizeof(window)),
			  CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(launch_with(&kit,
				      CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
				      foreign, sizeof(foreign)),
			  CUDA_ERROR_INVALID_HANDLE);
	ck_assert_int_eq(copy_out(&one, base, 4, 0, kit.stream), 0);
	ck_assert_uint_eq(*out, 2);
}
END_TEST

START_TEST(chunk_is_freed_after_its_work)
{
	Mps__WorkerChunkFree m = MPS__WORKER_CHUNK_FREE__INIT;
	Mps__Control q = MPS__CONTROL__INIT;
	struct kit kit;

	make_kit(&one, &kit);
	fill(&one, base, 0, 1, kit.stream);
	for (int i = 0; i < 500; i++)
		bump(&one, &kit, kit.stream);
	m.client = 1;
	m.chunk = 1;
	q.body_case = MPS__CONTROL__BODY_WORKER_CHUNK_FREE;
	q.worker_chunk_free = &m;
	ck_assert_uint_eq(rig_done(&rig, &q, NULL, 0, NULL), 0);
	/* All of the launches have retired, or the device would be lost. */
	ck_assert_uint_eq(atomic_load(&one.channel.page->retired), one.seq);
	ck_assert_uint_eq(rig_done(&rig, &q, NULL, 0, NULL),
			  CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(rig_chunk(&one, 2, base, 2 * MIB), 0);
}
END_TEST

START_TEST(chunk_is_exported_and_imported)
{
	uint32_t *out = (uint32_t *)one.staging;
	int fd = -1, none = -1;
	struct kit kit;

	make_kit(&one, &kit);
	ck_assert_uint_eq(rig_chunk_fd(&one, 7, base + 4 * MIB, 2 * MIB, &fd),
			  0);
	fill(&one, base + 4 * MIB, 77, 1, kit.stream);
	ck_assert_int_eq(sync_stream(&one, kit.stream), 0);
	none = fd;
	ck_assert_uint_eq(rig_chunk_fd(&one, 8, base + 8 * MIB, 2 * MIB, &none),
			  0);
	ck_assert_int_eq(none, -1);
	ck_assert_int_eq(copy_out(&one, base + 8 * MIB, 4, 0, kit.stream), 0);
	ck_assert_uint_eq(*out, 77);
	close(fd);
}
END_TEST

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

START_TEST(loading_code_does_not_stall_a_third_client)
{
	static struct function_info info;
	uint64_t id, image_size = sizeof(printing_ptx), hash_size = 32, spin;
	uint64_t options_size = 0, flag = rig.host_base;
	const uint64_t *p = &id;
	uint32_t kind = 0, cap = 0, kernels, *k = &kernels;
	struct rig_client busy, loader;
	const void *options = NULL;
	void *none = NULL, *map;
	uint8_t hash[32];
	const void *h = hash;
	void *argv[] = {&p,    &h,	 &hash_size,	&image_size,
			&kind, &options, &options_size, &k,
			&none, &cap,	 &none,		&cap};
	struct kit kit, mine;
	double start;

	rig_client_start(&rig, &busy, 2, false);
	rig_client_start(&rig, &loader, 3, false);
	ck_assert_uint_eq(rig_host(&busy, 1, flag, 4096, &map), 0);
	make_kit(&one, &mine);
	make_kit(&busy, &kit);
	ck_assert_int_eq(get_function(&busy, kit.module, "spin", &spin, &info),
			 0);
	ck_assert_uint_eq(
		rig_image(&rig, printing_ptx, sizeof(printing_ptx), hash), 0);
	rig_launch(&busy, spin, kit.stream, 1, 1, &flag, 8);
	usleep(50000);
	id = rig_mint(&loader, HANDLE_MODULE);
	rig_call_begin(&loader, API_mpsModuleLoad, argv);
	/* Were the load in the driver, it would hold these up until the
	 * neighbour's kernel ends, which it does only afterwards: however
	 * long the load has waited. */
	for (start = now_ms(); now_ms() - start < 3000;) {
		bump(&one, &mine, mine.stream);
		ck_assert_int_eq(sync_stream(&one, mine.stream), 0);
	}
	ck_assert_uint_lt(atomic_load(&busy.channel.page->retired), busy.seq);
	atomic_store((_Atomic uint32_t *)map, 1);
	ck_assert_int_eq(rig_call_end(&loader, API_mpsModuleLoad, argv), 0);
	ck_assert_int_eq(sync_stream(&busy, kit.stream), 0);
	munmap(map, 4096);
}
END_TEST

START_TEST(chunks_outside_the_window_are_refused)
{
	ck_assert_uint_ne(rig_chunk(&one, 5, 0x10000, 2 * MIB), 0);
	ck_assert_uint_ne(rig_chunk(&one, 5, rig.host_base, 2 * MIB), 0);
	ck_assert_uint_ne(rig_chunk(&one, 5, base + 4096, 2 * MIB), 0);
	ck_assert_uint_ne(rig_chunk(&one, 5, base, 2 * MIB), 0);
	ck_assert_uint_eq(rig_chunk(&one, 5, base + 2 * MIB, 2 * MIB), 0);
}
END_TEST

struct counts {
	uint64_t descriptors, mappings, handles, clients;
};

static void
count(struct counts *out)
{
	Mps__Control *hold;
	Mps__WorkerStatsReply *stats = rig_stats(&rig, &hold);

	out->descriptors = stats->worker->descriptors;
	out->mappings = stats->worker->mappings;
	out->handles = stats->worker->handles;
	out->clients = stats->n_clients;
	mps__control__free_unpacked(hold, NULL);
}

static void
live_and_die(uint64_t id)
{
	uint64_t start, at = base + 2 * MIB;
	struct rig_client c;
	struct kit kit;
	const uint64_t *p = &start;
	uint32_t flags = 0;
	void *map;

	rig_client_start(&rig, &c, id, false);
	ck_assert_uint_eq(rig_chunk(&c, 1, at, 2 * MIB), 0);
	ck_assert_uint_eq(rig_host(&c, 2, rig.host_base, 8192, &map), 0);
	make_kit(&c, &kit);
	start = rig_mint(&c, HANDLE_EVENT);
	rig_post(&c, API_mpsEventCreate, (void *[]){&p, &flags});
	for (int i = 0; i < 300; i++)
		rig_launch(&c, kit.bump, kit.stream, 1, 1, &at, 8);
	munmap(map, 8192);
	ck_assert_uint_eq(rig_client_end(&c), 0);
}

START_TEST(end_of_client_gives_everything_back)
{
	struct counts before, after;

	live_and_die(20);
	count(&before);
	for (uint64_t id = 21; id < 26; id++)
		live_and_die(id);
	count(&after);
	ck_assert_uint_eq(after.clients, before.clients);
	ck_assert_uint_eq(after.descriptors, before.descriptors);
	ck_assert_uint_eq(after.handles, before.handles);
#ifndef MPSSHIM_SANITIZED
	/* malloc's own come and go; what a client maps does not stay. */
	ck_assert_uint_le(after.mappings, before.mappings + 4);
#endif
	ck_assert_int_eq(rig_call(&one, API_mpsFence, NULL), 0);
}
END_TEST

START_TEST(fault_names_the_sole_suspect)
{
	static struct function_info info;
	struct rig_client two;
	Mps__Control *m;
	struct kit kit;
	uint64_t wild;

	rig_client_start(&rig, &two, 2, false);
	make_kit(&one, &kit);
	ck_assert_int_eq(get_function(&one, kit.module, "wild", &wild, &info),
			 0);
	rig_launch(&one, wild, kit.stream, 1, 1, NULL, 0);
	ck_assert(rig_is_dropped(&one));
	ck_assert_uint_eq(atomic_load(&one.channel.page->dead),
			  CUDA_ERROR_ILLEGAL_ADDRESS);
	/* The other lost nothing, and the broker has another worker for it. */
	ck_assert_uint_eq(atomic_load(&two.channel.page->dead), 0);
	ck_assert_uint_le(atomic_load(&two.channel.page->kept),
			  atomic_load(&two.channel.page->done));
	ck_assert_int_eq(sock_recv_control(rig.control, &m, NULL, NULL, 5000),
			 0);
	ck_assert_int_eq(m->body_case, MPS__CONTROL__BODY_WORKER_FAULT);
	ck_assert_uint_eq(m->worker_fault->client, 1);
	ck_assert_uint_eq(m->worker_fault->status, CUDA_ERROR_ILLEGAL_ADDRESS);
	mps__control__free_unpacked(m, NULL);
}
END_TEST

/* A client with a kernel that prints its own letter. */
static uint64_t
make_printer(struct rig_client *c, uint64_t *stream)
{
	static struct function_info info;
	uint64_t module, say;
	uint32_t kernels;

	make_stream(c, stream, 1);
	ck_assert_int_eq(
		load(c, printing_ptx, sizeof(printing_ptx), &module, &kernels),
		0);
	ck_assert_int_eq(get_function(c, module, "say", &say, &info), 0);
	return say;
}

START_TEST(each_client_gets_its_own_text)
{
	uint32_t letters[2] = {'A', 'B'};
	uint64_t say[2], stream[2];
	struct rig_client two, *c[2] = {&one, &two};

	rig_client_start(&rig, &two, 2, false);
	for (int i = 0; i < 2; i++)
		say[i] = make_printer(c[i], &stream[i]);
	for (int n = 0; n < 50; n++)
		for (int i = 0; i < 2; i++)
			rig_launch(c[i], say[i], stream[i], 1, 1, &letters[i],
				   4);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(sync_stream(c[i], stream[i]), 0);
		ck_assert_uint_eq(strlen(c[i]->text), 100);
		ck_assert_uint_eq(strspn(c[i]->text, i ? "B\n" : "A\n"), 100);
	}
}
END_TEST

START_TEST(text_longer_than_a_reply_comes_in_parts)
{
	uint64_t stream, say = make_printer(&one, &stream);
	uint32_t letter = 'C';

	rig_launch(&one, say, stream, 20, 256, &letter, 4);
	ck_assert_int_eq(sync_stream(&one, stream), 0);
	ck_assert_uint_eq(one.text_left, 2 * 20 * 256 - strlen(one.text));
	ck_assert_uint_gt(one.text_left, 0);
	while (one.text_left)
		ck_assert_int_eq(rig_call(&one, API_mpsFence, NULL), 0);
	ck_assert_uint_eq(strlen(one.text), 2 * 20 * 256);
}
END_TEST

static void
launch_maybe(struct rig_client *c, uint64_t maybe, uint64_t stream,
	     uint64_t gate, uint32_t letter)
{
	struct {
		uint64_t gate;
		uint32_t letter;
	} params = {gate, letter};

	rig_launch(c, maybe, stream, 1, 1, &params, 12);
}

START_TEST(kernels_that_never_printed_wait_for_nobody)
{
	static struct function_info info;
	uint64_t gate = rig.host_base, module, maybe[2], stream[2];
	struct rig_client two, *c[2] = {&one, &two};
	uint32_t kernels;
	void *map;

	rig_client_start(&rig, &two, 2, false);
	ck_assert_uint_eq(rig_host(&one, 1, gate, 4096, &map), 0);
	((uint32_t *)map)[1] = 1;
	for (int i = 0; i < 2; i++) {
		make_stream(c[i], &stream[i], 1);
		ck_assert_int_eq(load(c[i], maybe_ptx, sizeof(maybe_ptx),
				      &module, &kernels), 0);
		ck_assert_int_eq(get_function(c[i], module, "maybe", &maybe[i],
					      &info), 0);
	}
	for (int n = 0; n < 100; n++)
		launch_maybe(&one, maybe[0], stream[0], gate + 4, 0);
	ck_assert_int_eq(sync_stream(&one, stream[0]), 0);
	/* While one of these runs, the neighbour's is done. */
	launch_maybe(&one, maybe[0], stream[0], gate, 0);
	launch_maybe(&two, maybe[1], stream[1], gate + 4, 0);
	ck_assert_int_eq(sync_stream(&two, stream[1]), 0);
	ck_assert_uint_lt(atomic_load(&one.channel.page->retired), one.seq);
	atomic_store((_Atomic uint32_t *)map, 1);
	ck_assert_int_eq(sync_stream(&one, stream[0]), 0);
	/* Text of a silent kernel is whose it is, and one at a time from then
	 * on. */
	launch_maybe(&two, maybe[1], stream[1], gate, 'T');
	ck_assert_int_eq(sync_stream(&two, stream[1]), 0);
	ck_assert_str_eq(two.text, "T");
	ck_assert_str_eq(one.text, "");
	for (int n = 0; n < 20; n++) {
		launch_maybe(&one, maybe[0], stream[0], gate, 'a');
		launch_maybe(&two, maybe[1], stream[1], gate, 'b');
	}
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(sync_stream(c[i], stream[i]), 0);
	ck_assert_str_eq(one.text, "aaaaaaaaaaaaaaaaaaaa");
	ck_assert_str_eq(two.text, "Tbbbbbbbbbbbbbbbbbbbb");
	munmap(map, 4096);
}
END_TEST

START_TEST(clients_beyond_the_hardware_queues_are_served)
{
	static struct rig_client many[8];
	uint64_t stream[8][8];
	struct kit kit[8];
	uint32_t *out = (uint32_t *)one.staging;
	struct kit mine;

	for (int i = 0; i < 8; i++) {
		rig_client_start(&rig, &many[i], 10 + (uint64_t)i, false);
		make_kit(&many[i], &kit[i]);
		ck_assert_uint_eq(rig_chunk(&many[i], 1,
					    base + (uint64_t)(i + 1) * 2 * MIB,
					    2 * MIB),
				  0);
		for (int s = 0; s < 8; s++)
			make_stream(&many[i], &stream[i][s], 1);
	}
	for (int n = 0; n < 40; n++) {
		for (int i = 0; i < 64; i++) {
			struct rig_client *c = &many[i / 8];
			uint64_t at = base + (uint64_t)(i / 8 + 1) * 2 * MIB +
				      (uint64_t)(i % 8) * 4;

			rig_launch(c, kit[i / 8].bump, stream[i / 8][i % 8], 1,
				   1, &at, 8);
		}
	}
	make_kit(&one, &mine);
	fill(&one, base, 5, 1, mine.stream);
	ck_assert_int_eq(copy_out(&one, base, 4, 0, mine.stream), 0);
	ck_assert_uint_eq(*out, 5);
	for (int i = 0; i < 8; i++) {
		uint32_t *got = (uint32_t *)many[i].staging;

		ck_assert_int_eq(rig_call(&many[i], API_mpsFence, NULL), 0);
		ck_assert_int_eq(copy_out(&many[i],
					  base + (uint64_t)(i + 1) * 2 * MIB,
					  32, 0, kit[i].stream),
				 0);
		for (int s = 0; s < 8; s++)
			ck_assert_uint_eq(got[s], 40);
	}
}
END_TEST

/* Processor time that the worker has used, in ticks of 10 ms. */
static unsigned long
worker_ticks(void)
{
	char path[64], line[512] = "";
	unsigned long user, system;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)rig.pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	fclose(f);
	ck_assert_int_eq(sscanf(strrchr(line, ')') + 2,
				"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
				"%lu %lu",
				&user, &system),
			 2);
	return user + system;
}

START_TEST(idle_worker_comes_to_use_no_time)
{
	unsigned long before, after = worker_ticks();

	ck_assert_int_eq(rig_call(&one, API_mpsFence, NULL), 0);
	do {
		before = after;
		sleep(4);
		after = worker_ticks();
	} while (after - before > 1);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		ready_describes_the_device,
		vectors_are_added,
		vectors_are_added_without_a_ring,
		pinned_memory_is_seen_by_copies,
		foreign_addresses_are_refused,
		foreign_handles_are_refused,
		more_launches_than_credits_all_run,
		legacy_stream_orders_blocking_streams,
		events_order_streams_and_measure,
		destroyed_stream_finishes_its_work,
		module_global_is_the_clients_own,
		kernels_are_listed,
		bad_image_answers_its_code_and_log,
		occupancy_is_answered,
		fills_have_their_shapes,
		launch_attributes_are_translated_one_by_one,
		chunk_is_freed_after_its_work,
		chunk_is_exported_and_imported,
		loading_code_does_not_stall_a_third_client,
		chunks_outside_the_window_are_refused,
		end_of_client_gives_everything_back,
		each_client_gets_its_own_text,
		text_longer_than_a_reply_comes_in_parts,
		kernels_that_never_printed_wait_for_nobody,
		clients_beyond_the_hardware_queues_are_served,
		fault_names_the_sole_suspect,
		idle_worker_comes_to_use_no_time,
	};

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker", tests, sizeof(tests) / sizeof(tests[0]),
			 setup, teardown);
}
