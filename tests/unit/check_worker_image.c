/* SPDX-License-Identifier: Apache-2.0 */
/* Code images in a worker: from the broker's giving to its taking back. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "api_cuda.h"
#include "proto/function.h"
#include "proto/handle.h"
#include "tests/unit/suite.h"
#include "tests/unit/worker_rig.h"

#define IMAGES 300

static const char ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry nothing()\n{\n ret;\n}\n";

static struct rig rig;
static struct rig_client one;

static void
setup(void)
{
	rig_start(&rig, NULL);
	rig_client_start(&rig, &one, 1, false);
}

static void
teardown(void)
{
	ck_assert_uint_eq(rig_client_end(&one), 0);
	rig_stop(&rig);
}

static uint32_t
take_back(const uint8_t *hash, size_t size)
{
	Mps__WorkerImageFree m = MPS__WORKER_IMAGE_FREE__INIT;
	Mps__Control q = MPS__CONTROL__INIT;

	m.hash.data = (uint8_t *)hash;
	m.hash.len = size;
	q.body_case = MPS__CONTROL__BODY_WORKER_IMAGE_FREE;
	q.worker_image_free = &m;
	return rig_done(&rig, &q, NULL, 0, NULL);
}

struct figures {
	uint64_t images, mappings, descriptors;
};

static struct figures
look(void)
{
	Mps__Control *hold;
	const Mps__WorkerStat *s = rig_stats(&rig, &hold)->worker;
	struct figures f = {s->images, s->mappings, s->descriptors};

	mps__control__free_unpacked(hold, NULL);
	return f;
}

static int
load(const uint8_t *hash, uint64_t *out)
{
	uint64_t id = rig_mint(&one, HANDLE_MODULE), image_size = sizeof(ptx);
	uint64_t hash_size = 32, options_size = 0;
	uint32_t kind = 0, cap = 256, count, *kernels = &count;
	const uint64_t *p = &id;
	const void *options = NULL, *h = hash;
	char info[256], error[256];
	void *i = info, *e = error;

	*out = id;
	return rig_call(&one, API_mpsModuleLoad,
			(void *[]){&p, &h, &hash_size, &image_size, &kind,
				   &options, &options_size, &kernels, &i, &cap,
				   &e, &cap});
}

START_TEST(images_taken_back_leave_nothing_mapped)
{
	static uint8_t hashes[IMAGES][32];
	struct figures before = look(), full, after;
	char code[64];

	for (int i = 0; i < IMAGES; i++) {
		snprintf(code, sizeof(code), "image number %d", i);
		ck_assert_uint_eq(rig_image(&rig, code, sizeof(code),
					    hashes[i]), 0);
	}
	full = look();
	ck_assert_uint_eq(full.images, IMAGES);
	ck_assert_uint_ge(full.mappings, before.mappings + IMAGES);
	ck_assert_uint_eq(full.descriptors, before.descriptors);
	for (int i = 0; i < IMAGES; i++)
		ck_assert_uint_eq(take_back(hashes[i], 32), 0);
	after = look();
	ck_assert_uint_eq(after.images, 0);
	/* Memory of the allocator's may have come. */
	ck_assert_uint_le(after.mappings, before.mappings + 8);
	ck_assert_uint_eq(after.descriptors, before.descriptors);
}
END_TEST

START_TEST(a_module_outlives_its_image)
{
	uint64_t module, other, context = 7;
	uint64_t function = rig_mint(&one, HANDLE_FUNCTION);
	uint64_t stream = rig_mint(&one, HANDLE_STREAM);
	const uint64_t *p = &function, *s = &stream;
	uint32_t stream_kind = 0;
	int32_t priority = 0;
	struct function_info room, *info = &room;
	uint32_t cap = sizeof(room);
	const char *name = "nothing";
	uint8_t hash[32];

	ck_assert_uint_eq(rig_image(&rig, ptx, sizeof(ptx), hash), 0);
	ck_assert_int_eq(load(hash, &module), 0);
	ck_assert_uint_eq(take_back(hash, 32), 0);
	ck_assert_uint_eq(look().images, 0);
	ck_assert_int_eq(load(hash, &other), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(rig_call(&one, API_mpsModuleFunction,
				  (void *[]){&module, &name, &p, &info, &cap}),
			 0);
	rig_post(&one, API_mpsStreamCreate,
		 (void *[]){&s, &context, &stream_kind, &priority});
	rig_launch(&one, function, stream, 1, 1, NULL, 0);
	ck_assert_int_eq(rig_call(&one, API_mpsFence, NULL), 0);
	/* Given again, it loads again. */
	ck_assert_uint_eq(rig_image(&rig, ptx, sizeof(ptx), hash), 0);
	ck_assert_uint_eq(look().images, 1);
	ck_assert_int_eq(load(hash, &other), 0);
}
END_TEST

START_TEST(taking_back_what_is_not_there_is_no_error)
{
	uint8_t hash[32] = {1};

	ck_assert_uint_eq(take_back(hash, 32), 0);
	ck_assert_uint_eq(take_back(hash, 31), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(look().images, 0);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		images_taken_back_leave_nothing_mapped,
		a_module_outlives_its_image,
		taking_back_what_is_not_there_is_no_error,
	};

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker_image", tests,
			 sizeof(tests) / sizeof(tests[0]), setup, teardown);
}
