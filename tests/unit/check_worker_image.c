/* SPDX-License-Identifier: Apache-2.0 */
/* Code images in a worker: from the broker's giving to its taking back. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
static struct rig_client one, two;

static void
setup(void)
{
	rig_start(&rig, NULL);
	rig_client_start(&rig, &one, 1, false);
	rig_client_start(&rig, &two, 2, false);
}

static void
teardown(void)
{
	ck_assert_uint_eq(rig_client_end(&one), 0);
	ck_assert_uint_eq(rig_client_end(&two), 0);
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
	uint64_t images, loads, mappings, descriptors;
};

static struct figures
look(void)
{
	Mps__Control *hold;
	const Mps__WorkerStat *s = rig_stats(&rig, &hold)->worker;
	struct figures f = {s->images, s->image_loads, s->mappings,
			    s->descriptors};

	mps__control__free_unpacked(hold, NULL);
	return f;
}

static int
load_as(struct rig_client *client, const uint8_t *hash, uint64_t size,
	uint32_t kind, uint64_t *out)
{
	uint64_t id = rig_mint(client, HANDLE_MODULE);
	uint64_t hash_size = 32, options_size = 0;
	uint32_t no_cap = 0, cap = 256, count, *kernels = &count;
	const uint64_t *p = &id;
	const void *options = NULL, *h = hash;
	char error[256];
	void *i = NULL, *e = error;

	*out = id;
	return rig_call(client, API_mpsModuleLoad,
			(void *[]){&p, &h, &hash_size, &size, &kind, &options,
				   &options_size, &kernels, &i, &no_cap, &e,
				   &cap});
}

static int
load(const uint8_t *hash, uint64_t *out)
{
	return load_as(&one, hash, sizeof(ptx), MODULE_BARE, out);
}

/* A module of text, loaded by a client. */
static uint64_t
load_text(struct rig_client *client, const char *text, uint32_t kind)
{
	uint8_t hash[32];
	uint64_t module;

	ck_assert_uint_eq(rig_image(&rig, text, strlen(text) + 1, hash), 0);
	ck_assert_int_eq(load_as(client, hash, strlen(text) + 1, kind, &module),
			 0);
	return module;
}

static int
global(struct rig_client *client, uint64_t module, const char *name,
       uint64_t *out)
{
	uint64_t size, *a = out, *s = &size;

	return rig_call(client, API_mpsModuleGlobal,
			(void *[]){&module, &name, &a, &s});
}

static int
function(struct rig_client *client, uint64_t module, const char *name)
{
	uint64_t id = rig_mint(client, HANDLE_FUNCTION);
	const uint64_t *p = &id;
	struct function_info room, *info = &room;
	uint32_t cap = sizeof(room);

	return rig_call(client, API_mpsModuleFunction,
			(void *[]){&module, &name, &p, &info, &cap});
}

static int
unload(struct rig_client *client, uint64_t module)
{
	rig_post(client, API_mpsModuleUnload, (void *[]){&module});
	return rig_call(client, API_mpsFence, NULL);
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

#define CODE ".version 8.0\n.target sm_90\n.address_size 64\n"
static const char with_idle_variable[] =
	CODE ".visible .global .align 4 .u32 idle;\n"
	     ".visible .entry nothing()\n{\n ret;\n}\n";
static const char with_variable[] =
	CODE ".visible .global .align 4 .u32 count;\n"
	     ".visible .entry add()\n{\n .reg .u32 %r;\n"
	     " atom.global.add.u32 %r, [count], 1;\n ret;\n}\n";

START_TEST(clients_share_a_load_and_it_stays_for_the_next)
{
	uint64_t before = look().loads;
	uint64_t a = load_text(&one, ptx, MODULE_BARE);
	uint64_t b = load_text(&two, ptx, MODULE_BARE);

	ck_assert_uint_eq(look().loads, before + 1);
	ck_assert_int_eq(function(&one, a, "nothing"), 0);
	ck_assert_int_eq(function(&two, b, "nothing"), 0);
	ck_assert_int_eq(function(&two, b, "something"),
			 CUDA_ERROR_NOT_FOUND);
	ck_assert_int_eq(unload(&one, a), 0);
	ck_assert_int_eq(function(&two, b, "nothing"), 0);
	ck_assert_int_eq(unload(&two, b), 0);
	load_text(&two, ptx, MODULE_BARE);
	ck_assert_uint_eq(look().loads, before + 1);
}
END_TEST

START_TEST(code_with_variables_is_each_clients_own)
{
	uint64_t before = look().loads, first, second;
	uint64_t a = load_text(&one, with_variable, MODULE_BARE);
	uint64_t b = load_text(&two, with_variable, MODULE_BARE);

	ck_assert_uint_eq(look().loads, before + 2);
	ck_assert_int_eq(global(&one, a, "count", &first), 0);
	ck_assert_int_eq(global(&two, b, "count", &second), 0);
	ck_assert_uint_ne(first, second);
}
END_TEST

START_TEST(an_address_taken_of_shared_code_is_of_ones_own)
{
	uint64_t before = look().loads, first, second, again;
	uint64_t a = load_text(&one, with_idle_variable, MODULE_BARE);
	uint64_t b = load_text(&two, with_idle_variable, MODULE_BARE);

	ck_assert_uint_eq(look().loads, before + 1);
	ck_assert_int_eq(global(&one, a, "absent", &first),
			 CUDA_ERROR_NOT_FOUND);
	ck_assert_uint_eq(look().loads, before + 1);
	ck_assert_int_eq(global(&one, a, "idle", &first), 0);
	ck_assert_int_eq(global(&two, b, "idle", &second), 0);
	ck_assert_int_eq(global(&one, a, "idle", &again), 0);
	ck_assert_uint_ne(first, second);
	ck_assert_uint_eq(first, again);
	ck_assert_uint_eq(look().loads, before + 3);
}
END_TEST

START_TEST(who_asks_to_be_alone_is)
{
	uint64_t before = look().loads;

	load_text(&one, ptx, MODULE_ALONE);
	load_text(&two, ptx, MODULE_ALONE);
	load_text(&two, ptx, MODULE_BARE);
	ck_assert_uint_eq(look().loads, before + 3);
}
END_TEST

START_TEST(a_shared_load_ends_with_its_image)
{
	uint64_t before = look().loads, module;
	uint8_t hash[32];

	ck_assert_uint_eq(rig_image(&rig, ptx, sizeof(ptx), hash), 0);
	ck_assert_int_eq(load(hash, &module), 0);
	ck_assert_int_eq(unload(&one, module), 0);
	ck_assert_uint_eq(take_back(hash, 32), 0);
	ck_assert_uint_eq(look().images, 0);
	ck_assert_uint_eq(rig_image(&rig, ptx, sizeof(ptx), hash), 0);
	ck_assert_int_eq(load(hash, &module), 0);
	ck_assert_uint_eq(look().loads, before + 2);
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

/* As the broker writes it. */
static void
write_record(struct rig *in, const uint8_t *hash, enum risk_call call,
	     enum risk_verdict verdict)
{
	struct risk_record *record = &in->risks->records[RISK_RECORDS - 1];

	record->call = call;
	memcpy(record->key, hash, 32);
	atomic_store(&record->outcome, RISK_OPEN);
	atomic_store(&record->verdict, verdict);
}

static uint32_t
outcome(void)
{
	return atomic_load(&rig.risks->records[RISK_RECORDS - 1].outcome);
}

START_TEST(an_image_that_has_ended_two_workers_is_refused)
{
	uint64_t before = look().loads, module, other;
	uint8_t hash[32];

	ck_assert_uint_eq(rig_image(&rig, ptx, sizeof(ptx), hash), 0);
	ck_assert_int_eq(load(hash, &module), 0);
	write_record(&rig, hash, RISK_LOAD, RISK_REFUSED);
	/* What is loaded is loaded; a kernel that nobody has used is not. */
	ck_assert_int_eq(load(hash, &other), 0);
	ck_assert_int_eq(function(&one, module, "nothing"),
			 CUDA_ERROR_INVALID_IMAGE);
	ck_assert_int_eq(load_as(&one, hash, sizeof(ptx), MODULE_ALONE,
				 &other), CUDA_ERROR_INVALID_IMAGE);
	ck_assert_uint_eq(look().loads, before + 1);
	ck_assert_uint_eq(outcome(), RISK_OPEN);
	/* Others are none of it. */
	load_text(&two, with_variable, MODULE_BARE);
}
END_TEST

#define BAD CODE ".visible .entry bad()\n{\n ret;\n}\n"

/* A load with an error log, in a worker of its own that ends at BAD. */
struct crash {
	struct rig rig;
	struct rig_client client;
	uint8_t hash[32];
	uint64_t handle, hash_size, size, no_options;
	uint32_t kind, no_cap, cap;
	const uint64_t *handle_at;
	const void *options, *hash_at;
	void *nothing, *error_at;
	char error[256];
	void *argv[12];
};

static void
crash_setup(struct crash *c, const char *text)
{
	const char *fault[] = {"SOFTCUDA_FAULT=load:bad", NULL};

	memset(c, 0, sizeof(*c));
	rig_start(&c->rig, fault);
	rig_client_start(&c->rig, &c->client, 5, false);
	c->size = strlen(text) + 1;
	ck_assert_uint_eq(rig_image(&c->rig, text, c->size, c->hash), 0);
	c->handle = rig_mint(&c->client, HANDLE_MODULE);
	c->handle_at = &c->handle;
	c->hash_at = c->hash;
	c->hash_size = 32;
	c->cap = sizeof(c->error) - 1;
	c->error_at = c->error;
	memcpy(c->argv, (void *[]){
		&c->handle_at, &c->hash_at, &c->hash_size, &c->size, &c->kind,
		&c->options, &c->no_options, &c->nothing, &c->nothing,
		&c->no_cap, &c->error_at, &c->cap,
	}, sizeof(c->argv));
}

START_TEST(who_ends_a_worker_can_be_read)
{
	const struct risk_now *now = NULL;
	struct crash c;
	siginfo_t info;

	crash_setup(&c, BAD);
	rig_call_begin(&c.client, API_mpsModuleLoad, c.argv);
	ck_assert_int_eq(waitid(P_PID, (id_t)c.rig.pid, &info,
				WEXITED | WNOWAIT), 0);
	for (unsigned i = 0; i < RISK_THREADS; i++)
		if (atomic_load(&c.rig.risks->now[i].call))
			now = &c.rig.risks->now[i];
	ck_assert_ptr_nonnull(now);
	ck_assert_uint_eq(atomic_load(&now->call), RISK_LOAD);
	ck_assert_uint_eq(now->client, 5);
	ck_assert_mem_eq(now->key, c.hash, 32);
	close(c.client.data);
	rig_stop(&c.rig);
}
END_TEST

START_TEST(text_that_has_ended_a_worker_ends_a_compiler_next)
{
	const struct risk_record *record;
	struct crash c;

	crash_setup(&c, BAD);
	write_record(&c.rig, c.hash, RISK_LOAD, RISK_SUSPECT);
	record = &c.rig.risks->records[RISK_RECORDS - 1];
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rig_call(&c.client, API_mpsModuleLoad, c.argv),
				 CUDA_ERROR_INVALID_IMAGE);
		ck_assert_ptr_nonnull(strstr(c.error, "it has ended"));
		ck_assert_uint_eq(atomic_load(&record->outcome), RISK_FAILED);
	}
	ck_assert_uint_eq(rig_client_end(&c.client), 0);
	rig_stop(&c.rig);
}
END_TEST

START_TEST(a_compiler_of_its_own_has_the_drivers_answer)
{
	struct crash c;

	crash_setup(&c, CODE ".visible .entry f()\n{\n nonsense;\n}\n");
	write_record(&c.rig, c.hash, RISK_LOAD, RISK_SUSPECT);
	ck_assert_int_eq(rig_call(&c.client, API_mpsModuleLoad, c.argv),
			 CUDA_ERROR_INVALID_PTX);
	ck_assert_ptr_nonnull(strstr(c.error, "nonsense"));
	ck_assert_uint_eq(rig_client_end(&c.client), 0);
	rig_stop(&c.rig);
}
END_TEST

START_TEST(a_suspected_call_that_goes_well_says_so)
{
	uint64_t module;
	uint8_t hash[32];

	ck_assert_uint_eq(rig_image(&rig, ptx, sizeof(ptx), hash), 0);
	write_record(&rig, hash, RISK_NAMES, RISK_SUSPECT);
	ck_assert_int_eq(load(hash, &module), 0);
	/* It was not the load that the worker ended in. */
	ck_assert_uint_eq(outcome(), RISK_OPEN);
	write_record(&rig, hash, RISK_LOAD, RISK_SUSPECT);
	ck_assert_int_eq(load_as(&one, hash, sizeof(ptx), MODULE_ALONE,
				 &module), 0);
	ck_assert_uint_eq(outcome(), RISK_PASSED);
	ck_assert_int_eq(function(&one, module, "nothing"), 0);
	for (unsigned i = 0; i < RISK_THREADS; i++)
		ck_assert_uint_eq(atomic_load(&rig.risks->now[i].call),
				  RISK_NONE);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		images_taken_back_leave_nothing_mapped,
		a_module_outlives_its_image,
		taking_back_what_is_not_there_is_no_error,
		clients_share_a_load_and_it_stays_for_the_next,
		code_with_variables_is_each_clients_own,
		an_address_taken_of_shared_code_is_of_ones_own,
		who_asks_to_be_alone_is,
		a_shared_load_ends_with_its_image,
		an_image_that_has_ended_two_workers_is_refused,
		a_suspected_call_that_goes_well_says_so,
		/* The software device's alone. */
		a_compiler_of_its_own_has_the_drivers_answer,
		text_that_has_ended_a_worker_ends_a_compiler_next,
		who_ends_a_worker_can_be_read,
	};
	size_t count = sizeof(tests) / sizeof(tests[0]);

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	if (getenv("MPSSHIM_TEST_DRIVER"))
		count -= 3;
	return suite_run("worker_image", tests, count, setup, teardown);
}
