/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that lie. Each loses its own connection, or gets an error; the
 * worker and an honest neighbour go on.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api_cuda.h"
#include "proto/handle.h"
#include "tests/unit/suite.h"
#include "tests/unit/worker_rig.h"

static struct rig rig;
static struct rig_client honest, liar;
static uint8_t frame[FRAME_MAX];

static void
setup(void)
{
	rig_start(&rig, NULL);
	rig_client_start(&rig, &honest, 1, false);
	rig_client_start(&rig, &liar, 2, false);
}

/* Whatever the test did, the neighbour is served and the liar's end is like
 * any other's. */
static void
teardown(void)
{
	ck_assert_int_eq(rig_call(&honest, API_mpsFence, NULL), 0);
	ck_assert_uint_eq(atomic_load(&honest.channel.page->dead), 0);
	ck_assert_uint_eq(rig_client_end(&liar), 0);
	rig_stop(&rig);
}

static uint32_t
finish(uint8_t type, size_t size)
{
	struct frame_header header = {
		.size = (uint32_t)size,
		.type = type,
	};

	memcpy(frame, &header, sizeof(header));
	return (uint32_t)(size + sizeof(header));
}

static uint32_t
make_call(uint64_t seq, uint32_t fn, uint32_t slot, const void *args,
	  size_t size)
{
	Mps__Call m = MPS__CALL__INIT;

	m.seq = seq;
	m.fn = fn;
	m.slot = slot;
	m.args.data = (uint8_t *)args;
	m.args.len = size;
	return finish(FRAME_CALL,
		      mps__call__pack(&m, frame + sizeof(struct frame_header)));
}

static uint32_t
make_launch(uint64_t seq, const struct launch_head *head, size_t head_size,
	    size_t params, size_t attrs)
{
	static uint8_t zeroes[40000];
	Mps__Launch m = MPS__LAUNCH__INIT;

	m.seq = seq;
	m.head.data = (uint8_t *)head;
	m.head.len = head_size;
	m.params.data = zeroes;
	m.params.len = params;
	m.attrs.data = zeroes;
	m.attrs.len = attrs;
	return finish(
		FRAME_LAUNCH,
		mps__launch__pack(&m, frame + sizeof(struct frame_header)));
}

START_TEST(junk_instead_of_a_message_drops_the_liar)
{
	memset(frame, 0xff, 64);
	rig_push(&liar, frame, finish(FRAME_CALL, 48), true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(reply_or_control_frame_in_a_ring_drops_the_liar)
{
	rig_push(&liar, frame, finish(FRAME_REPLY, 0), true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(nudge_in_a_ring_drops_the_liar)
{
	rig_push(&liar, frame, finish(FRAME_NUDGE, 0), true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(tail_beyond_the_ring_drops_the_liar)
{
	rig_push(&liar, frame,
		 make_call(1, API_mpsFence, CHANNEL_NO_SLOT, NULL, 0), true);
	atomic_store(&liar.channel.page->ordered.tail, 1u << 30);
	/* The worker may have read the frame already, and sleep. */
	rig_nudge(&liar);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(sequence_that_goes_back_drops_the_liar)
{
	rig_push(&liar, frame,
		 make_call(5, API_mpsFence, CHANNEL_NO_SLOT, NULL, 0), true);
	rig_push(&liar, frame,
		 make_call(5, API_mpsFence, CHANNEL_NO_SLOT, NULL, 0), true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(slot_out_of_range_drops_the_liar)
{
	rig_push(&liar, frame,
		 make_call(1, API_mpsFence, CHANNEL_SLOTS, NULL, 0), true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(ordered_call_in_the_unordered_ring_drops_the_liar)
{
	rig_push(&liar, frame, make_call(1, API_mpsFence, 0, NULL, 0), false);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(unordered_call_in_the_ordered_ring_keeps_its_place)
{
	uint8_t args[9] = {[0] = 7, [8] = 1};

	atomic_store(&liar.channel.slots[0].state, SLOT_PENDING);
	rig_push(&liar, frame,
		 make_call(3, API_mpsPing, 0, args, sizeof(args)), true);
	while (atomic_load(&liar.channel.slots[0].state) != SLOT_DONE)
		usleep(100);
	rig_push(&liar, frame,
		 make_call(3, API_mpsFence, CHANNEL_NO_SLOT, NULL, 0), true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(arguments_of_another_length_drop_the_liar)
{
	rig_push(&liar, frame, make_call(1, API_mpsStreamSync, 0, "1234567", 7),
		 true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(capacity_of_gigabytes_drops_the_liar)
{
	uint8_t args[256] = {0};
	uint32_t huge = 0x7fffffff;
	size_t at = 0;

	/* module, first, total wanted, names capacity, names_cap. */
	at += 16;
	args[at++] = 1;
	memcpy(args + at, &huge, 4);
	at += 4 + 8;
	rig_push(&liar, frame, make_call(1, API_mpsModuleKernels, 0, args, at),
		 false);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(unknown_function_is_refused)
{
	for (uint32_t fn = 0; fn < 3; fn++) {
		static const uint32_t ids[] = {API_cuInit, 100000, 0};
		static const uint8_t args[200];

		atomic_store(&liar.channel.slots[0].state, SLOT_PENDING);
		rig_push(&liar, frame,
			 make_call(++liar.seq, ids[fn], 0, args, sizeof(args)),
			 true);
		while (atomic_load(&liar.channel.slots[0].state) != SLOT_DONE)
			usleep(100);
	}
	ck_assert_uint_eq(atomic_load(&liar.channel.page->dead), 0);
	ck_assert_int_eq(rig_call(&liar, API_mpsFence, NULL), 0);
}
END_TEST

static void
launch_is_late(const struct launch_head *head, size_t params, size_t attrs)
{
	rig_push(&liar, frame,
		 make_launch(++liar.seq, head, sizeof(*head), params, attrs),
		 true);
	ck_assert_int_eq(rig_call(&liar, API_mpsFence, NULL), 0);
	ck_assert_uint_ne(atomic_exchange(&liar.channel.page->late_error, 0),
			  0);
}

START_TEST(launches_of_nothing_fail_late)
{
	struct launch_head head = {
		.version = LAUNCH_HEAD_VERSION,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
	};

	launch_is_late(&head, 0, 0);
	head.function = handle_make(HANDLE_FUNCTION, 99, 1);
	head.stream = handle_make(HANDLE_STREAM, 0xffffff, 1);
	launch_is_late(&head, 0, 0);
	head.nattrs = LAUNCH_ATTRS_MAX + 1;
	launch_is_late(&head, 0, head.nattrs * sizeof(struct launch_attr));
	head.nattrs = 3;
	launch_is_late(&head, 0, 1);
	head.nattrs = 0;
	head.version = 9;
	launch_is_late(&head, 0, 0);
	head.version = LAUNCH_HEAD_VERSION;
	head.flags = 0x8000;
	launch_is_late(&head, 0, 0);
}
END_TEST

START_TEST(head_of_another_size_drops_the_liar)
{
	struct launch_head head = {.version = LAUNCH_HEAD_VERSION};

	rig_push(&liar, frame, make_launch(1, &head, sizeof(head) - 1, 0, 0),
		 true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

/* The lane reads what our packer writes by hand; the rest goes to the one who
 * knows all of the format, a field of a later wire too. */
START_TEST(launch_with_a_field_of_a_later_wire_is_read)
{
	static const uint8_t later[] = { 15 << 3, 1 }; /* a number */
	struct launch_head head = {
		.version = LAUNCH_HEAD_VERSION,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.function = 12345,
	};
	uint32_t size = make_launch(++liar.seq, &head, sizeof(head), 8, 0);

	memcpy(frame + size, later, sizeof(later));
	rig_push(&liar, frame,
		 finish(FRAME_LAUNCH, size + sizeof(later) -
			sizeof(struct frame_header)), true);
	ck_assert_int_eq(rig_call(&liar, API_mpsFence, NULL), 0);
	ck_assert_uint_eq(atomic_load(&liar.channel.page->late_error),
			  CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(parameters_beyond_the_limit_drop_the_liar)
{
	struct launch_head head = {.version = LAUNCH_HEAD_VERSION};

	rig_push(&liar, frame,
		 make_launch(1, &head, sizeof(head), LAUNCH_PARAMS_MAX + 1, 0),
		 true);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

static uint64_t
stream_at(uint64_t handle)
{
	const uint64_t *p = &handle;
	uint64_t context = 1;
	uint32_t kind = 1;
	int32_t priority = 0;

	rig_post(&liar, API_mpsStreamCreate,
		 (void *[]){&p, &context, &kind, &priority});
	ck_assert_int_eq(rig_call(&liar, API_mpsFence, NULL), 0);
	return atomic_exchange(&liar.channel.page->late_error, 0);
}

START_TEST(handles_that_are_none_are_refused)
{
	ck_assert_uint_ne(stream_at(0), 0);
	ck_assert_uint_ne(stream_at(UINT64_MAX), 0);
	ck_assert_uint_ne(stream_at(handle_make(HANDLE_EVENT, 1, 1)), 0);
	ck_assert_uint_ne(stream_at(handle_make(HANDLE_STREAM, 0xffffff, 1)),
			  0);
	ck_assert_uint_eq(stream_at(handle_make(HANDLE_STREAM, 5, 1)), 0);
	ck_assert_uint_ne(stream_at(handle_make(HANDLE_STREAM, 5, 2)), 0);
}
END_TEST

START_TEST(flood_of_unordered_calls_is_bounded)
{
	/* Slot 1 again and again: an honest client waits for each. */
	for (uint64_t i = 1; i < 3000; i++) {
		uint64_t args[1] = {i};
		uint8_t bytes[9];

		memcpy(bytes, args, 8);
		bytes[8] = 1;
		rig_push(&liar, frame, make_call(i, API_mpsPing, 1, bytes, 9),
			 false);
	}
	ck_assert_int_eq(rig_call(&liar, API_mpsFence, NULL), 0);
}
END_TEST

START_TEST(words_that_the_worker_writes_are_not_believed)
{
	atomic_store(&liar.channel.page->retired, UINT64_MAX);
	atomic_store(&liar.channel.page->issued, UINT64_MAX);
	atomic_store(&liar.channel.page->ordered.head, 12345);
	atomic_store(&liar.channel.page->ordered.naps, 7);
	rig_push(&liar, frame,
		 make_call(1, API_mpsFence, CHANNEL_NO_SLOT, NULL, 0), true);
	ck_assert_int_eq(rig_call(&honest, API_mpsFence, NULL), 0);
}
END_TEST

START_TEST(junk_on_the_data_socket_drops_the_liar)
{
	memset(frame, 0xee, 100);
	ck_assert_int_eq(sock_write(liar.data, frame, 100, 1000), 0);
	ck_assert(rig_is_dropped(&liar));
}
END_TEST

START_TEST(mutated_frames_never_hurt_the_worker)
{
	struct launch_head head = {
		.version = LAUNCH_HEAD_VERSION,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
	};
	uint32_t random = 12345;

	for (uint64_t id = 100; id < 160; id++) {
		struct rig_client c;

		rig_client_start(&rig, &c, id, id & 1);
		for (uint64_t seq = 1; seq < 40; seq++) {
			uint8_t args[64] = {0};
			uint32_t size;

			random = random * 1664525 + 1013904223;
			memset(args, (int)(random >> 16), random % 64);
			if (random & 0x10000)
				size = make_launch(seq, &head, sizeof(head),
						   random % 64, 0);
			else
				size = make_call(seq, 700 + random / 7 % 45,
						 0xffffffff, args,
						 random / 11 % 64);
			if (!(random & 0x700000))
				frame[8 + random / 13 % (size - 8)] ^=
					(uint8_t)(1u << (random >> 29));
			if (atomic_load(&c.channel.page->dead))
				break;
			rig_push(&c, frame, size, random & 0x20000);
		}
		ck_assert_uint_eq(rig_client_end(&c), 0);
	}
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		junk_instead_of_a_message_drops_the_liar,
		reply_or_control_frame_in_a_ring_drops_the_liar,
		nudge_in_a_ring_drops_the_liar,
		tail_beyond_the_ring_drops_the_liar,
		sequence_that_goes_back_drops_the_liar,
		slot_out_of_range_drops_the_liar,
		ordered_call_in_the_unordered_ring_drops_the_liar,
		unordered_call_in_the_ordered_ring_keeps_its_place,
		arguments_of_another_length_drop_the_liar,
		capacity_of_gigabytes_drops_the_liar,
		unknown_function_is_refused,
		launches_of_nothing_fail_late,
		head_of_another_size_drops_the_liar,
		launch_with_a_field_of_a_later_wire_is_read,
		parameters_beyond_the_limit_drop_the_liar,
		handles_that_are_none_are_refused,
		flood_of_unordered_calls_is_bounded,
		words_that_the_worker_writes_are_not_believed,
		junk_on_the_data_socket_drops_the_liar,
		mutated_frames_never_hurt_the_worker,
	};

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker_hostile", tests,
			 sizeof(tests) / sizeof(tests[0]), setup, teardown);
}
