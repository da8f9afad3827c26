/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker starts, and what it says when it cannot. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api_cuda.h"
#include "tests/unit/suite.h"
#include "tests/unit/worker_rig.h"

static struct rig rig;

static const Mps__WorkerReady *
start(const char *variable)
{
	const char *const environment[] = {variable, NULL};

	rig_start(&rig, environment);
	return rig.ready->worker_ready;
}

START_TEST(absent_driver_is_one_clear_line)
{
	const Mps__WorkerReady *m =
		start("MPSSHIM_TEST_DRIVER=/nonexistent/libcuda.so.1");

	ck_assert_uint_ne(m->status, 0);
	ck_assert_ptr_nonnull(strstr(m->message, "/nonexistent/libcuda.so.1"));
	ck_assert_ptr_null(strchr(m->message, '\n'));
	rig_stop(&rig);
}
END_TEST

START_TEST(relative_path_is_refused)
{
	const Mps__WorkerReady *m = start("MPSSHIM_TEST_DRIVER=libcuda.so.1");

	ck_assert_uint_ne(m->status, 0);
	ck_assert_ptr_nonnull(strstr(m->message, "absolute"));
	rig_stop(&rig);
}
END_TEST

START_TEST(library_without_the_api_is_refused)
{
	const Mps__WorkerReady *m =
		start("MPSSHIM_TEST_DRIVER=/lib/x86_64-linux-gnu/libm.so.6");

	ck_assert_uint_ne(m->status, 0);
	ck_assert_str_ne(m->message, "");
	rig_stop(&rig);
}
END_TEST

START_TEST(our_own_shim_is_no_driver)
{
	static char variable[4096];
	const char *build = getenv("MPSSHIM_BUILD");
	const Mps__WorkerReady *m;

	snprintf(variable, sizeof(variable),
		 "MPSSHIM_TEST_DRIVER=%s/lib/libmpsshim.so",
		 build ? build : "build");
	if (access(strchr(variable, '=') + 1, R_OK) < 0)
		return;
	if (strchr(variable, '=')[1] != '/')
		return;
	m = start(variable);
	ck_assert_uint_eq(m->status, CUDA_ERROR_STUB_LIBRARY);
	ck_assert_ptr_nonnull(strstr(m->message, "shim"));
	rig_stop(&rig);
}
END_TEST

START_TEST(failing_cuinit_answers_its_code)
{
	const Mps__WorkerReady *m = start("SOFTCUDA_FAULT=init=999");

	ck_assert_uint_eq(m->status, 999);
	ck_assert_ptr_nonnull(strstr(m->message, "cuInit"));
	rig_stop(&rig);
}
END_TEST

START_TEST(no_device_answers_its_code)
{
	const Mps__WorkerReady *m = start("SOFTCUDA_DEVICES=0");

	ck_assert_uint_eq(m->status, CUDA_ERROR_NO_DEVICE);
	rig_stop(&rig);
}
END_TEST

START_TEST(all_devices_are_described)
{
	const Mps__WorkerReady *m = start("SOFTCUDA_DEVICES=3");

	ck_assert_uint_eq(m->status, 0);
	ck_assert_uint_eq(m->n_devices, 3);
	ck_assert_int_eq(m->devices[2]->ordinal, 2);
	ck_assert(memcmp(m->devices[0]->uuid.data, m->devices[2]->uuid.data,
			 16) != 0);
	ck_assert_uint_gt(m->devices[2]->n_attributes, 80);
	rig_stop(&rig);
}
END_TEST

static uint64_t
memory_left(void)
{
	Mps__WorkerMemory body = MPS__WORKER_MEMORY__INIT;
	Mps__Control q = MPS__CONTROL__INIT, *answer;
	uint64_t left;

	q.body_case = MPS__CONTROL__BODY_WORKER_MEMORY;
	q.worker_memory = &body;
	answer = rig_ask(&rig, &q, NULL, 0, NULL);
	ck_assert_int_eq(answer->body_case, MPS__CONTROL__BODY_DONE);
	ck_assert_uint_eq(answer->done->status, 0);
	left = answer->done->value;
	mps__control__free_unpacked(answer, NULL);
	return left;
}

static uint32_t
make_array(uint64_t size)
{
	Mps__ArrayShape shape = MPS__ARRAY_SHAPE__INIT;
	Mps__WorkerArray m = MPS__WORKER_ARRAY__INIT;
	Mps__Control q = MPS__CONTROL__INIT;

	shape.width = 64;
	shape.format = CU_AD_FORMAT_FLOAT;
	shape.channels = 1;
	m.client = 1;
	m.id = 100;
	m.shape = &shape;
	m.size = size;
	q.body_case = MPS__CONTROL__BODY_WORKER_ARRAY;
	q.worker_array = &m;
	return rig_done(&rig, &q, NULL, 0, NULL);
}

/* Of 64 MiB, with that setting. */
static void
take_all(const char *setting, uint64_t usable)
{
	const char *const environment[] = {
		"SOFTCUDA_MEMORY=64M", "SOFTCUDA_ACCOUNT=private", setting,
		NULL,
	};
	uint64_t two = 2 << 20, kept;
	struct rig_client client;
	int fd = -1, imported;

	rig_start(&rig, environment);
	rig_client_start(&rig, &client, 1, false);
	ck_assert_uint_eq(rig.ready->worker_ready->total, 64 << 20);
	ck_assert_uint_eq(memory_left(), usable);
	ck_assert_uint_eq(rig_chunk(&client, 9, rig.device_base, usable + two),
			  CUDA_ERROR_OUT_OF_MEMORY);
	if (usable)
		ck_assert_uint_eq(rig_chunk_fd(&client, 1, rig.device_base,
					       usable, &fd), 0);
	ck_assert_uint_eq(memory_left(), 0);
	kept = rig.device_base + usable;
	ck_assert_uint_eq(rig_chunk(&client, 2, kept, two),
			  CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(make_array(1), CUDA_ERROR_OUT_OF_MEMORY);
	/* What is there already takes nothing. */
	imported = fd;
	if (usable)
		ck_assert_uint_eq(rig_chunk_fd(&client, 3, kept, usable,
					       &imported), 0);
	close(fd);
	close(client.data);
	rig_stop(&rig);
}

START_TEST(clients_get_all_memory_but_the_ballast)
{
	take_all("MPSSHIM_BALLAST_MB=", 60 << 20);
	take_all("MPSSHIM_BALLAST_MB=0", 64 << 20);
	take_all("MPSSHIM_BALLAST_MB=16", 48 << 20);
	take_all("MPSSHIM_BALLAST_MB=65", 0);
}
END_TEST

START_TEST(windows_are_those_asked_for)
{
	const Mps__WorkerReady *m = start(
		"MPSSHIM_WINDOWS=0x7e8000000000:4G,0x7e9000000000:0x40000000");

	ck_assert_uint_eq(m->n_windows, 8);
	ck_assert_uint_eq(m->windows[0], 0x7e8000000000);
	ck_assert_uint_eq(m->windows[1], UINT64_C(3) << 30);
	ck_assert_uint_eq(m->windows[2], 0x7e8000000000 + (UINT64_C(3) << 30));
	ck_assert_uint_eq(m->windows[3], UINT64_C(1) << 30);
	ck_assert_uint_eq(m->windows[4], 0x7e9000000000);
	rig_stop(&rig);
}
END_TEST

/* Not aligned; but where sanitizers allow it, one that no process has. */
#ifdef MPSSHIM_SANITIZED
#define NO_WINDOW "0x1000:1G"
#else
#define NO_WINDOW "0xfff000000000000:1G"
#endif

START_TEST(windows_that_cannot_be_had_are_left_out)
{
	const Mps__WorkerReady *m =
		start("MPSSHIM_WINDOWS=" NO_WINDOW ",0x7e8000000000:1G,12,7");

	ck_assert_uint_eq(m->n_windows, 4);
	ck_assert_uint_eq(m->windows[0], 0x7e8000000000);
	rig_stop(&rig);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		absent_driver_is_one_clear_line,
		relative_path_is_refused,
		library_without_the_api_is_refused,
		our_own_shim_is_no_driver,
		failing_cuinit_answers_its_code,
		no_device_answers_its_code,
		all_devices_are_described,
		clients_get_all_memory_but_the_ballast,
		windows_are_those_asked_for,
		windows_that_cannot_be_had_are_left_out,
	};

	if (!rig_is_possible() || getenv("MPSSHIM_TEST_DRIVER")) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker_start", tests,
			 sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}
