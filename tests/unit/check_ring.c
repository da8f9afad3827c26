/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/ring.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/channel.h"
#include "proto/shmem.h"
#include "tests/unit/suite.h"

static struct channel channel;
static struct ring producer, consumer;
static uint8_t buf[FRAME_MAX];

static void
setup(void)
{
	int fd = shmem_create("check_ring", CHANNEL_SIZE);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(channel_map(&channel, fd), 0);
	close(fd);
	ring_init(&producer, &channel.page->ordered, channel.ordered,
		  RING_ORDERED);
	ring_init(&consumer, &channel.page->ordered, channel.ordered,
		  RING_ORDERED);
}

static void
teardown(void)
{
	channel_unmap(&channel);
}

/* One frame of `size` payload bytes, each the low byte of `mark`. */
static bool
push(uint32_t size, uint32_t mark)
{
	struct frame_header header = {.size = size, .type = FRAME_CALL};
	uint8_t *at = ring_reserve(&producer, size + sizeof(header));

	if (!at)
		return false;
	memcpy(at, &header, sizeof(header));
	memset(at + sizeof(header), (int)(mark & 0xff), size);
	ring_commit(&producer, size + sizeof(header));
	return true;
}

static int
pop(uint32_t *out_size, uint32_t *out_mark)
{
	uint32_t size;
	int r = ring_pop(&consumer, buf, sizeof(buf), &size);

	if (r)
		return r;
	*out_size = size - (uint32_t)sizeof(struct frame_header);
	*out_mark = *out_size ? buf[sizeof(struct frame_header)] : 0;
	for (uint32_t i = 0; i < *out_size; i++)
		if (buf[sizeof(struct frame_header) + i] != *out_mark)
			return -EILSEQ;
	return 0;
}

START_TEST(ring_gives_back_frames_in_order)
{
	uint32_t size, mark;

	ck_assert_int_eq(pop(&size, &mark), RING_E_EMPTY);
	for (uint32_t i = 0; i < 100; i++)
		ck_assert(push(i * 7, i));
	for (uint32_t i = 0; i < 100; i++) {
		ck_assert_int_eq(pop(&size, &mark), 0);
		ck_assert_uint_eq(size, i * 7);
		ck_assert(!size || mark == i);
	}
	ck_assert_int_eq(pop(&size, &mark), RING_E_EMPTY);
}
END_TEST

START_TEST(ring_keeps_a_frame_whole_across_the_wrap)
{
	uint32_t size, mark, n = RING_ORDERED / 1000 * 5;

	for (uint32_t i = 0; i < n; i++) {
		ck_assert(push(3001, i));
		ck_assert_int_eq(pop(&size, &mark), 0);
		ck_assert_uint_eq(size, 3001);
		ck_assert_uint_eq(mark, i & 0xff);
	}
}
END_TEST

START_TEST(ring_refuses_what_does_not_fit_and_recovers)
{
	uint32_t size, mark, n = 0;

	while (push(1000, n))
		n++;
	ck_assert_uint_eq(n, RING_ORDERED / 1008);
	ck_assert_int_eq(pop(&size, &mark), 0);
	ck_assert(push(1000, n));
	ck_assert(!push(1000, n));
}
END_TEST

START_TEST(ring_consumer_refuses_lies_of_the_producer)
{
	struct frame_header header = {.size = 8, .type = FRAME_CALL};
	uint32_t size;
	/* tail beyond the ring, tail below a header, a size beyond tail, a
	 * size beyond a frame, an unknown type, dirty reserved bytes */
	const struct {
		uint64_t tail;
		struct frame_header header;
	} lies[] = {
		{RING_ORDERED + 8, header},
		{4, header},
		{8, header},
		{16, {.size = 9, .type = FRAME_CALL}},
		{RING_ORDERED, {.size = FRAME_MAX, .type = FRAME_CALL}},
		{16, {.size = 8, .type = 0}},
		{16, {.size = 8, .type = 99}},
		{16, {.size = 8, .type = FRAME_CALL, .zero = 1}},
		{16, {.size = 8, .type = FRAME_NUDGE}},
		{UINT64_MAX, header},
	};

	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		ring_init(&consumer, &channel.page->ordered, channel.ordered,
			  RING_ORDERED);
		memcpy(channel.ordered, &lies[i].header, sizeof(header));
		atomic_store(&channel.page->ordered.tail, lies[i].tail);
		ring_prefetch(&consumer);
		ck_assert_int_eq(ring_pop(&consumer, buf, sizeof(buf), &size),
				 -EBADMSG);
	}
}
END_TEST

START_TEST(ring_nap_ends_when_a_frame_came_first)
{
	uint32_t size, mark;

	ck_assert(push(8, 1));
	ck_assert(!ring_nap(&consumer));
	ck_assert_int_eq(pop(&size, &mark), 0);
	ck_assert(ring_nap(&consumer));
	/* Asleep: the first commit asks for a nudge, the second does not. */
	ck_assert_ptr_nonnull(ring_reserve(&producer, 8));
	memcpy(ring_reserve(&producer, 8),
	       &(struct frame_header){.type = FRAME_CALL}, 8);
	ck_assert(ring_commit(&producer, 8));
	memcpy(ring_reserve(&producer, 8),
	       &(struct frame_header){.type = FRAME_CALL}, 8);
	ck_assert(!ring_commit(&producer, 8));
	ring_wake(&consumer);
	ck_assert_int_eq(pop(&size, &mark), 0);
}
END_TEST

enum { ROUNDS = 100000 };
static _Atomic int nudges;

static void *
produce(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct frame_header header = {
			.size = 4 + i % 61, .type = FRAME_CALL,
		};
		uint32_t size = header.size + (uint32_t)sizeof(header);
		uint8_t *at;

		while (!(at = ring_reserve(&producer, size)))
			sched_yield();
		memcpy(at, &header, sizeof(header));
		memcpy(at + sizeof(header), &i, 4);
		if (ring_commit(&producer, size))
			atomic_fetch_add(&nudges, 1);
	}
	return NULL;
}

/* Producer and consumer as threads on one mapping: what ThreadSanitizer can
 * see. No frame is lost and no sleep is left without a nudge. */
START_TEST(ring_orders_memory_between_two_threads)
{
	pthread_t thread;
	int seen = 0;

	ck_assert_int_eq(pthread_create(&thread, NULL, produce, NULL), 0);
	for (uint32_t i = 0; i < ROUNDS;) {
		uint32_t size, value;
		int r = ring_pop(&consumer, buf, sizeof(buf), &size);

		if (r == RING_E_EMPTY) {
			if (!ring_nap(&consumer))
				continue;
			/* The real consumer sleeps in poll; a nudge counts. */
			while (atomic_load(&nudges) == seen &&
			       ring_is_empty(&consumer))
				sched_yield();
			seen = atomic_load(&nudges);
			ring_wake(&consumer);
			continue;
		}
		ck_assert_int_eq(r, 0);
		memcpy(&value, buf + sizeof(struct frame_header), 4);
		ck_assert_uint_eq(value, i);
		ck_assert_uint_eq(size, 12 + i % 61);
		i++;
	}
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(channel_refuses_memory_of_another_size_or_without_seals)
{
	struct channel other;
	int fd = shmem_create("small", 4096), plain;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(channel_map(&other, fd), -EBADMSG);
	close(fd);
	plain = memfd_create("plain", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(plain, CHANNEL_SIZE), 0);
	ck_assert_int_lt(channel_map(&other, plain), 0);
	close(plain);
}
END_TEST

SUITE_FIXTURE("ring", setup, teardown,
	ring_gives_back_frames_in_order,
	ring_keeps_a_frame_whole_across_the_wrap,
	ring_refuses_what_does_not_fit_and_recovers,
	ring_consumer_refuses_lies_of_the_producer,
	ring_nap_ends_when_a_frame_came_first,
	ring_orders_memory_between_two_threads,
	channel_refuses_memory_of_another_size_or_without_seals)
