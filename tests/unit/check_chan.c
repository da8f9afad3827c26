/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's channel against a worker made of one thread, which parses every
 * frame with protobuf-c and proto/marshal.c as the real one does.
 */
#include "shim/chan_own.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api_sigs.h"
#include "proto/data.h"
#include "proto/log.h"
#include "proto/shmem.h"
#include "proto/wire.pb-c.h"
#include "shim/ctx.h"
#include "shim/event.h"
#include "shim/process.h"
#include "shim_calls.h"
#include "shim_impl.h"
#include "tests/unit/suite.h"

#define MAX_FRAMES 60000

/* What the worker saw, in order. */
struct seen {
	uint64_t seq;
	uint32_t fn;        /* 0: a launch */
	uint8_t lane;
};

static struct worker {
	struct channel channel;
	struct ring ordered, unordered;
	struct sock_reader reader;
	int data;
	bool no_ring;
	pthread_t thread;
	_Atomic bool stop, paused, mute, garble;
	_Atomic uint32_t delay_ms, nudges, nseen;
	_Atomic uint64_t retired_seen;
	struct seen seen[MAX_FRAMES];
	uint8_t last[FRAME_MAX];     /* the last frame, header first */
	uint32_t last_size;
	const char *_Atomic text;    /* to go with the next fence or sync */
	uint8_t *staging;
	_Atomic bool told;           /* the line says it, the reply is kept */
	_Atomic uint32_t slot;       /* of the last call */
} worker;

static struct shim_chan *chan;
static int broker_end = -1;

static void
nap_ms(unsigned ms)
{
	usleep(ms * 1000);
}

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

static void
put_reply(uint32_t slot, const Mps__Reply *m, uint8_t lane)
{
	struct frame_header header = {
		.size = (uint32_t)mps__reply__get_packed_size(m),
		.type = FRAME_REPLY, .lane = lane,
	};
	uint8_t frame[20000];
	struct reply_slot *s;

	if (atomic_load(&worker.garble))
		header.type = 77;
	memcpy(frame, &header, sizeof(header));
	mps__reply__pack(m, frame + sizeof(header));
	if (worker.no_ring) {
		ck_assert_int_eq(sock_write(worker.data, frame,
					    sizeof(header) + header.size,
					    1000), 0);
		return;
	}
	ck_assert_uint_lt(slot, CHANNEL_SLOTS);
	s = &worker.channel.slots[slot];
	/* The test answers as well; both sides map the slot at an address of
	 * their own, which hides from ThreadSanitizer who has it. */
	pthread_mutex_lock(&slots_lock);
	memcpy(s->data, frame, sizeof(header) + header.size);
	s->size = (uint32_t)sizeof(header) + header.size;
	pthread_mutex_unlock(&slots_lock);
	if (atomic_exchange(&s->state, SLOT_DONE) == SLOT_WAITING)
		syscall(SYS_futex, &s->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void
put_line(uint32_t slot, uint64_t value)
{
	uint8_t *line = worker.staging + CHANNEL_STAGING + slot * CHANNEL_LINE;

	atomic_store((_Atomic uint64_t *)(void *)line, value);
}

/* As much of the text as a reply of this worker takes: eight bytes. */
static void
add_text(Mps__Reply *reply)
{
	const char *text = atomic_load(&worker.text);
	size_t left = text ? strlen(text) : 0, now = left < 8 ? left : 8;

	reply->text.data = (uint8_t *)(uintptr_t)text;
	reply->text.len = now;
	reply->text_left = (uint32_t)(left - now);
	if (text)
		atomic_store(&worker.text, text + now);
}

static void
answer(const Mps__Call *call, uint8_t lane)
{
	const struct wire_sig *sig = &api_sigs[call->fn];
	struct wire_arg args[WIRE_MAX_PARAMS];
	uint8_t memory[80000], outs[16000];
	struct wire_arena arena = { memory, sizeof(memory), 0 };
	Mps__Reply reply = MPS__REPLY__INIT;
	long size;

	ck_assert_int_eq(wire_unpack_call(sig, call->args.data, call->args.len,
					  args, &arena), 0);
	if (call->slot == CHANNEL_NO_SLOT || atomic_load(&worker.mute))
		return;
	if (call->fn == API_mpsPing)
		memcpy(args[1].out, &args[0].value, 8);
	if (call->fn == API_mpsFence || call->fn == API_mpsStreamSync)
		add_text(&reply);
	size = wire_pack_reply(sig, args, outs, sizeof(outs));
	ck_assert_int_ge(size, 0);
	reply.seq = call->seq;
	reply.result = call->fn == API_mpsStreamQuery ? CUDA_ERROR_NOT_READY
						      : CUDA_SUCCESS;
	reply.outs.data = outs;
	reply.outs.len = (size_t)size;
	nap_ms(atomic_load(&worker.delay_ms));
	atomic_store(&worker.slot, call->slot);
	if (atomic_load(&worker.told)) {
		put_line(call->slot, call->seq);
		return;
	}
	put_reply(call->slot, &reply, lane);
}

static void
take_frame(const uint8_t *frame, uint32_t size, uint8_t lane)
{
	const uint8_t *body = frame + sizeof(struct frame_header);
	uint32_t n = atomic_load(&worker.nseen);
	struct frame_header header;

	memcpy(&header, frame, sizeof(header));
	ck_assert_int_eq(frame_header_check(&header), 0);
	if (header.type == FRAME_NUDGE) {
		atomic_fetch_add(&worker.nudges, 1);
		return;
	}
	ck_assert_uint_lt(n, MAX_FRAMES);
	memcpy(worker.last, frame, size);
	worker.last_size = size;
	if (header.type == FRAME_LAUNCH) {
		Mps__Launch *launch = mps__launch__unpack(NULL, header.size,
							  body);

		ck_assert_ptr_nonnull(launch);
		worker.seen[n] = (struct seen){ launch->seq, 0, lane };
		atomic_store(&worker.nseen, n + 1);
		mps__launch__free_unpacked(launch, NULL);
	} else {
		Mps__Call *call = mps__call__unpack(NULL, header.size, body);

		ck_assert_ptr_nonnull(call);
		ck_assert_uint_lt(call->fn, API_COUNT);
		worker.seen[n] = (struct seen){ call->seq, call->fn, lane };
		atomic_store(&worker.nseen, n + 1);
		answer(call, lane);
		mps__call__free_unpacked(call, NULL);
	}
	if (!lane)
		atomic_store(&worker.channel.page->retired,
			     worker.seen[n].seq);
}

static void
read_socket(int timeout_ms)
{
	struct pollfd p = { .fd = worker.data, .events = POLLIN };
	struct frame_header header;
	const uint8_t *payload;
	uint8_t frame[FRAME_MAX + 8];

	if (poll(&p, 1, timeout_ms) <= 0 ||
	    sock_reader_fill(&worker.reader) < 0)
		return;
	while (!sock_reader_next(&worker.reader, &header, &payload)) {
		memcpy(frame, &header, sizeof(header));
		memcpy(frame + sizeof(header), payload, header.size);
		take_frame(frame, (uint32_t)sizeof(header) + header.size,
			   header.lane);
	}
}

static void *
work(void *arg)
{
	static uint8_t buf[FRAME_MAX];
	uint32_t size;

	(void)arg;
	while (!atomic_load(&worker.stop)) {
		bool idle = true;

		if (worker.no_ring) {
			read_socket(20);
			continue;
		}
		if (!atomic_load(&worker.paused) &&
		    !ring_pop(&worker.ordered, buf, sizeof(buf), &size)) {
			take_frame(buf, size, 0);
			idle = false;
		}
		if (!ring_pop(&worker.unordered, buf, sizeof(buf), &size)) {
			take_frame(buf, size, 1);
			idle = false;
		}
		if (!idle)
			continue;
		if (atomic_load(&worker.paused) || (ring_nap(&worker.ordered) &&
		    ring_nap(&worker.unordered)))
			read_socket(atomic_load(&worker.paused) ? 1 : 500);
		ring_wake(&worker.ordered);
		ring_wake(&worker.unordered);
	}
	return NULL;
}

static void
start(bool no_ring)
{
	int data[2], control[2], fds[SHIM_CHAN_FDS];

	memset(&worker, 0, sizeof(worker));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    data), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    control), 0);
	ck_assert_int_eq(shim_fd_init(&shim_process.control, control[0]), 0);
	broker_end = control[1];
	shim_process.spin_ns = 20000;
	fds[0] = data[0];
	fds[1] = shmem_create("channel", CHANNEL_SIZE);
	fds[2] = shmem_create("staging", CHANNEL_STAGING_SIZE);
	ck_assert_int_ge(fds[1], 0);
	worker.staging = shmem_map(fds[2], CHANNEL_STAGING_SIZE);
	ck_assert_ptr_nonnull(worker.staging);
	worker.data = data[1];
	worker.no_ring = no_ring;
	ck_assert_int_eq(channel_map(&worker.channel, fds[1]), 0);
	ring_init(&worker.ordered, &worker.channel.page->ordered,
		  worker.channel.ordered, RING_ORDERED);
	ring_init(&worker.unordered, &worker.channel.page->unordered,
		  worker.channel.unordered, RING_UNORDERED);
	sock_reader_init(&worker.reader, worker.data);
	ck_assert_int_eq(shim_chan_open(0, no_ring, fds, &chan), 0);
	close(fds[1]);
	close(fds[2]);
	ck_assert_int_eq(pthread_create(&worker.thread, NULL, work, NULL), 0);
}

static void
setup(void)
{
	start(false);
}

static void
teardown(void)
{
	atomic_store(&worker.stop, true);
	pthread_join(worker.thread, NULL);
	sock_reader_fini(&worker.reader);
	channel_unmap(&worker.channel);
	munmap(worker.staging, CHANNEL_STAGING_SIZE);
	shim_chan_close(chan);
	close(worker.data);
	close(broker_end);
	close(shim_process.control.fd);
}

static void
ping(uint64_t value)
{
	uint64_t echo = 0;

	ck_assert_int_eq(call_mpsPing(chan, value, &echo), CUDA_SUCCESS);
	ck_assert_uint_eq(echo, value);
}

static void
wait_seen(uint32_t n)
{
	for (int i = 0; i < 20000 && atomic_load(&worker.nseen) < n; i++)
		nap_ms(1);
	ck_assert_uint_ge(atomic_load(&worker.nseen), n);
}

START_TEST(chan_call_brings_its_result_back)
{
	for (uint64_t i = 0; i < 1000; i++)
		ping(i * 0x123456789);
}
END_TEST

/* Whoever sends something now must wake it. */
static void
wait_nap(void)
{
	const struct ring_words *words = &worker.channel.page->unordered;

	while (!(atomic_load(&words->naps) & 1))
		nap_ms(1);
}

START_TEST(chan_call_wakes_a_worker_that_naps)
{
	ping(1);
	wait_nap();
	ping(2);
	ck_assert_uint_gt(atomic_load(&worker.nudges), 0);
}
END_TEST

START_TEST(chan_call_sleeps_when_the_answer_takes_long)
{
	atomic_store(&worker.delay_ms, 250);
	ping(5);
}
END_TEST

START_TEST(chan_post_arrives_as_protobuf_reads_it)
{
	struct wire_arg args[WIRE_MAX_PARAMS];
	uint8_t memory[4096];
	struct wire_arena arena = { memory, sizeof(memory), 0 };
	Mps__Call *call;

	ck_assert_int_eq(call_mpsCopyIn(chan, 0x7e8000001000, 77, 4096,
					UINT64_C(1) << 55), 0);
	wait_seen(1);
	call = mps__call__unpack(NULL, worker.last_size - 8, worker.last + 8);
	ck_assert_ptr_nonnull(call);
	ck_assert_uint_eq(call->seq, 1);
	ck_assert_uint_eq(call->fn, API_mpsCopyIn);
	ck_assert_uint_eq(call->slot, CHANNEL_NO_SLOT);
	ck_assert_int_eq(wire_unpack_call(&api_sigs[call->fn],
					  call->args.data, call->args.len,
					  args, &arena), 0);
	ck_assert_uint_eq(args[0].value, 0x7e8000001000);
	ck_assert_uint_eq(args[1].value, 77);
	ck_assert_uint_eq(args[2].value, 4096);
	ck_assert_uint_eq(args[3].value, UINT64_C(1) << 55);
	mps__call__free_unpacked(call, NULL);
	ck_assert_uint_eq(shim_chan_seq(chan), 1);
	ck_assert_int_eq(shim_chan_wait(chan, 1), CUDA_SUCCESS);
}
END_TEST

START_TEST(chan_launch_arrives_as_protobuf_reads_it)
{
	struct launch_head head = {
		.version = LAUNCH_HEAD_VERSION, .nattrs = 2, .function = 3,
		.stream = 4, .grid = { 5, 6, 7 }, .block = { 8, 9, 10 },
		.shared = 11,
	};
	struct launch_attr attrs[2] = { { .id = 1 }, { .id = 9 } };
	static uint8_t block[DATA_LAUNCH_ROOM + LAUNCH_PARAMS_MAX];
	uint8_t *params = block + DATA_LAUNCH_ROOM;
	Mps__Launch *launch;
	size_t sizes[] = { 0, 1, 127, 128, 16383, 16384, LAUNCH_PARAMS_MAX };

	for (size_t i = 0; i < LAUNCH_PARAMS_MAX; i++)
		params[i] = (uint8_t)(i * 7);
	for (uint32_t i = 0; i < 7; i++) {
		head.nattrs = i % 3;
		ck_assert_int_eq(shim_chan_launch(chan, &head, params,
						  sizes[i], attrs), 0);
		wait_seen(i + 1);
		ck_assert_int_eq(shim_chan_wait(chan, i + 1), CUDA_SUCCESS);
		launch = mps__launch__unpack(NULL, worker.last_size - 8,
					     worker.last + 8);
		ck_assert_ptr_nonnull(launch);
		ck_assert_uint_eq(launch->seq, i + 1);
		ck_assert_uint_eq(launch->head.len, sizeof(head));
		ck_assert_mem_eq(launch->head.data, &head, sizeof(head));
		ck_assert_uint_eq(launch->params.len, sizes[i]);
		if (sizes[i])
			ck_assert_mem_eq(launch->params.data, params,
					 sizes[i]);
		ck_assert_uint_eq(launch->attrs.len,
				  head.nattrs * sizeof(attrs[0]));
		if (head.nattrs)
			ck_assert_mem_eq(launch->attrs.data, attrs,
					 launch->attrs.len);
		mps__launch__free_unpacked(launch, NULL);
	}
	ck_assert_int_eq(shim_chan_launch(chan, &head, params,
					  LAUNCH_PARAMS_MAX + 1, attrs),
			 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(chan_call_with_large_arguments_goes_through)
{
	static char name[40000];
	uint64_t address, size;

	memset(name, 'x', sizeof(name) - 1);
	ck_assert_int_eq(call_mpsModuleGlobal(chan, UINT64_C(1) << 55, name,
					      &address, &size), CUDA_SUCCESS);
	ck_assert_uint_gt(worker.last_size, 40000);
}
END_TEST

START_TEST(chan_call_too_large_for_a_frame_is_refused)
{
	static char name[FRAME_MAX + 10];
	uint64_t address, size;

	memset(name, 'x', sizeof(name) - 1);
	ck_assert_int_eq(call_mpsModuleGlobal(chan, UINT64_C(1) << 55, name,
					      &address, &size),
			 CUDA_ERROR_INVALID_VALUE);
	ping(1);
}
END_TEST

static void *
ping_much(void *arg)
{
	for (uint64_t i = 0; i < 2000; i++) {
		ping((uintptr_t)arg << 32 | i);
		if (i % 10 == 0)
			ck_assert_int_eq(call_mpsStreamDestroy(chan, i), 0);
	}
	return NULL;
}

static void
ping_from_threads(unsigned n)
{
	pthread_t threads[80];

	for (uintptr_t i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ping_much,
						(void *)(i + 1)), 0);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Ordered frames in the order of their numbers, unordered in theirs. */
static void
check_order(bool gaps)
{
	uint64_t last[2] = { 0, 0 };

	for (uint32_t i = 0; i < atomic_load(&worker.nseen); i++) {
		const struct seen *s = &worker.seen[i];

		if (gaps)
			ck_assert_uint_gt(s->seq, last[s->lane]);
		else
			ck_assert_uint_eq(s->seq, last[s->lane] + 1);
		last[s->lane] = s->seq;
	}
}

START_TEST(chan_serves_several_threads)
{
	ping_from_threads(4);
	wait_seen(4 * 2200);
	check_order(false);
}
END_TEST

static void *
ping_once(void *arg)
{
	ping((uintptr_t)arg);
	return NULL;
}

START_TEST(chan_serves_more_waiting_threads_than_it_has_slots)
{
	pthread_t threads[80];

	atomic_store(&worker.delay_ms, 3);
	for (uintptr_t i = 0; i < 80; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ping_once,
						(void *)i), 0);
	for (unsigned i = 0; i < 80; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(atomic_load(&chan->free_slots), UINT64_MAX);
}
END_TEST

static void *
post_much(void *arg)
{
	for (uint64_t i = 0; i < 5000; i++)
		ck_assert_int_eq(call_mpsStreamDestroy(chan, (uintptr_t)arg),
				 0);
	return NULL;
}

START_TEST(chan_full_ring_makes_posts_wait_and_lets_others_by)
{
	pthread_t threads[3];
	uint64_t before;

	atomic_store(&worker.paused, true);
	for (uintptr_t i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, post_much,
						(void *)i), 0);
	/* Until the ring is full: nothing moves any more. */
	do {
		before = shim_chan_seq(chan);
		nap_ms(50);
	} while (shim_chan_seq(chan) != before);
	ck_assert_uint_gt(before, 1000);
	ck_assert_uint_lt(before, 15000);
	/* Unordered calls do not queue behind them. */
	ping(3);
	atomic_store(&worker.paused, false);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	wait_seen(15001);
	check_order(false);
}
END_TEST

START_TEST(chan_wait_ends_with_the_code_of_a_dying_worker)
{
	uint64_t echo, begin = shim_now_ns();

	atomic_store(&worker.mute, true);
	atomic_store(&worker.channel.page->dead, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(call_mpsPing(chan, 1, &echo),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_uint_lt(shim_now_ns() - begin, 10000000000);
	atomic_store(&worker.mute, false);
	/* For good. */
	ck_assert_int_eq(call_mpsPing(chan, 1, &echo),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(call_mpsStreamDestroy(chan, 1),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(shim_chan_sticky(chan), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(chan_wait_ends_when_the_worker_hangs_up)
{
	uint64_t echo;

	atomic_store(&worker.mute, true);
	ck_assert_int_eq(shutdown(worker.data, SHUT_RDWR), 0);
	ck_assert_int_eq(call_mpsPing(chan, 1, &echo),
			 CUDA_ERROR_LAUNCH_FAILED);
}
END_TEST

START_TEST(chan_wait_ends_when_the_broker_is_gone)
{
	static _Atomic uint32_t live;
	uint64_t echo;

	atomic_store(&shim_process.live, &live);
	atomic_store(&worker.mute, true);
	shutdown(broker_end, SHUT_RDWR);
	ck_assert_int_eq(call_mpsPing(chan, 1, &echo),
			 CUDA_ERROR_MPS_RPC_FAILURE);
	ck_assert_uint_eq(atomic_load(&live), SHIM_FAILED);
	ck_assert_int_eq(call_mpsStreamDestroy(chan, 1),
			 CUDA_ERROR_MPS_RPC_FAILURE);
}
END_TEST

START_TEST(chan_full_ring_of_a_dead_worker_ends_posts)
{
	CUresult r = CUDA_SUCCESS;

	atomic_store(&worker.paused, true);
	atomic_store(&worker.channel.page->dead, CUDA_ERROR_UNKNOWN);
	for (int i = 0; i < 20000 && r == CUDA_SUCCESS; i++)
		r = call_mpsStreamDestroy(chan, 1);
	ck_assert_int_eq(r, CUDA_ERROR_UNKNOWN);
}
END_TEST

START_TEST(chan_never_writes_to_a_file_of_the_host)
{
	static _Atomic uint32_t live;
	char path[] = "/tmp/check_chanXXXXXX";
	int fd = mkstemp(path), ours = chan->data.fd;
	struct stat st;

	ck_assert_int_ge(fd, 0);
	unlink(path);
	atomic_store(&shim_process.live, &live);
	ping(1);
	wait_nap();
	/* The host closes what it did not open, and reuses the number. */
	ck_assert_int_eq(dup2(fd, ours), ours);
	for (int i = 0; i < 3; i++) {
		call_mpsStreamDestroy(chan, 1);
		nap_ms(30);
	}
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	ck_assert_int_eq(shim_chan_sticky(chan), CUDA_ERROR_MPS_RPC_FAILURE);
	close(fd);
}
END_TEST

START_TEST(chan_malformed_reply_is_an_error_and_no_more)
{
	uint64_t echo = 42;

	atomic_store(&worker.garble, true);
	ck_assert_int_eq(call_mpsPing(chan, 1, &echo),
			 CUDA_ERROR_MPS_RPC_FAILURE);
	ck_assert_uint_eq(echo, 42);
	atomic_store(&worker.garble, false);
	ping(7);
}
END_TEST

START_TEST(chan_late_error_is_reported_once_by_a_synchronising_call)
{
	atomic_store(&worker.channel.page->late_error,
		     CUDA_ERROR_INVALID_VALUE);
	ping(1);
	ck_assert_int_eq(shim_chan_fence(chan), CUDA_SUCCESS);
	ck_assert_int_eq(call_mpsStreamSync(chan, 1),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(call_mpsStreamSync(chan, 1), CUDA_SUCCESS);
}
END_TEST

/* What a wait says on stderr while the page says `gate`; NULL: nothing. */
static char *
said_in_a_wait(uint64_t gate, uint64_t warn_ns)
{
	static char got[4096];
	char path[] = "/tmp/check_chanXXXXXX";
	int fd = mkstemp(path), saved = dup(2);
	ssize_t n;

	unlink(path);
	strcpy(worker.channel.page->gate_program, "a\x1b[2J\n%s");
	atomic_store(&worker.channel.page->gate, gate);
	shim_process.wait_warn_ns = warn_ns;
	log_init("mpsshim", LOG_WARN);
	dup2(fd, 2);
	/* As a wait does after each slice. */
	for (int i = 0; i < 50; i++) {
		ck_assert_int_eq(shim_chan_health(chan), CUDA_SUCCESS);
		shim_nap(1000);
	}
	dup2(saved, 2);
	close(saved);
	n = pread(fd, got, sizeof(got) - 1, 0);
	got[n > 0 ? n : 0] = 0;
	close(fd);
	return n > 0 ? got : NULL;
}

START_TEST(chan_wait_for_anothers_kernel_is_told_once)
{
	char *line;

	ck_assert_ptr_null(said_in_a_wait(0, 1));
	ck_assert_ptr_null(said_in_a_wait(CHANNEL_GATE(1, 77), 0));
	ck_assert_ptr_null(said_in_a_wait(CHANNEL_GATE(1, 77), UINT64_MAX));
	line = said_in_a_wait(CHANNEL_GATE(1, 77), 1);
	ck_assert_ptr_nonnull(line);
	ck_assert_ptr_nonnull(strstr(line, "pid 77 (a?[2J?%s)"));
	ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
	ck_assert_ptr_null(said_in_a_wait(CHANNEL_GATE(1, 77), 1));
	/* Whomever it is for by now. */
	ck_assert_ptr_null(said_in_a_wait(CHANNEL_GATE(1, 78), 1));
	for (unsigned i = 2; i <= 8; i++)
		ck_assert_ptr_nonnull(said_in_a_wait(CHANNEL_GATE(i, 77), 1));
	ck_assert_ptr_null(said_in_a_wait(CHANNEL_GATE(9, 77), 1));
}
END_TEST

/* Run `sync` with this process's stdout going to a file. */
static void
print_through(bool no_ring)
{
	char got[64] = "", path[] = "/tmp/check_chanXXXXXX";
	int fd = mkstemp(path), saved = dup(1);
	ssize_t n;

	ck_assert_int_eq(worker.no_ring, no_ring);
	unlink(path);
	fflush(stdout);
	dup2(fd, 1);
	printf("[");
	atomic_store(&worker.text, "printed by a kernel, in pieces");
	ck_assert_int_eq(call_mpsStreamSync(chan, 1), CUDA_SUCCESS);
	printf("]");
	fflush(stdout);
	dup2(saved, 1);
	close(saved);
	n = pread(fd, got, sizeof(got) - 1, 0);
	ck_assert_int_gt(n, 0);
	ck_assert_str_eq(got, "[printed by a kernel, in pieces]");
	close(fd);
}

START_TEST(chan_kernel_text_is_out_before_the_call_returns)
{
	print_through(false);
}
END_TEST

START_TEST(chan_no_post_makes_every_post_a_call)
{
	struct launch_head head = { .version = LAUNCH_HEAD_VERSION };
	uint8_t block[DATA_LAUNCH_ROOM];

	shim_process.perf = SHIM_NO_POST;
	ck_assert_int_eq(call_mpsStreamDestroy(chan, 1), CUDA_SUCCESS);
	/* No waiting: it has been replayed when the call returns. */
	ck_assert_uint_eq(atomic_load(&worker.nseen), 1);
	ck_assert_int_eq(shim_chan_launch(chan, &head,
					  block + sizeof(block), 0, NULL),
			 CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&worker.nseen), 3);
	ck_assert_uint_eq(worker.seen[2].fn, API_mpsStreamQuery);
}
END_TEST

/* How many frames one question about the event makes. */
static uint32_t
asked(CUevent event)
{
	uint32_t before = atomic_load(&worker.nseen);

	ck_assert_int_eq(shim_cuEventQuery(event), CUDA_SUCCESS);
	return atomic_load(&worker.nseen) - before;
}

START_TEST(chan_knows_which_events_have_retired)
{
	static struct shim_context ctx;
	CUevent event;

	ctx.chan = chan;
	shim_current = &ctx;
	ck_assert_int_eq(shim_cuEventCreate(&event, 0), CUDA_SUCCESS);
	ck_assert_uint_eq(asked(event), 0);
	ck_assert_int_eq(shim_cuEventRecord(event, NULL), CUDA_SUCCESS);
	ck_assert_int_eq(shim_chan_wait(chan, shim_chan_seq(chan)),
			 CUDA_SUCCESS);
	ck_assert_uint_eq(asked(event), 0);
	ck_assert_int_eq(shim_cuStreamQuery(NULL), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&worker.nseen), 3);
	shim_process.perf = SHIM_NO_WORD;
	ck_assert_uint_eq(asked(event), 1);
	/* This worker's answer. */
	ck_assert_int_eq(shim_cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	shim_process.perf = 0;
	/* Short of its record. */
	atomic_store(&worker.channel.page->retired, 2);
	ck_assert_uint_eq(asked(event), 1);
	/* By a graph, or as a launch begins: nobody here knows when. */
	shim_event_recorded(shim_object_get(HANDLE_EVENT, (uintptr_t)event));
	ck_assert_uint_eq(asked(event), 1);
	/* A lost worker is heard of. */
	shim_chan_fail(chan, CUDA_ERROR_LAUNCH_FAILED);
	ck_assert_int_eq(shim_cuEventQuery(event), CUDA_ERROR_LAUNCH_FAILED);
}
END_TEST

START_TEST(chan_without_ring_serves_several_threads)
{
	teardown();
	start(true);
	ping_from_threads(4);
	wait_seen(4 * 2200);
	check_order(true);
	/* The rings were not used. */
	ck_assert_uint_eq(atomic_load(&worker.channel.page->ordered.tail), 0);
	ck_assert_uint_eq(atomic_load(&worker.channel.page->unordered.tail),
			  0);
	ck_assert_ptr_null(chan->waits);
}
END_TEST

START_TEST(chan_without_ring_prints_and_posts)
{
	teardown();
	start(true);
	print_through(true);
	ck_assert_int_eq(call_mpsStreamDestroy(chan, 1), CUDA_SUCCESS);
	ck_assert_int_eq(shim_chan_wait(chan, shim_chan_seq(chan)),
			 CUDA_SUCCESS);
}
END_TEST

static void *
ping_into_death(void *arg)
{
	uint64_t echo;

	(void)arg;
	ck_assert_int_ne(call_mpsPing(chan, 1, &echo), CUDA_SUCCESS);
	return NULL;
}

START_TEST(chan_without_ring_wait_ends_when_the_worker_hangs_up)
{
	pthread_t threads[4];

	teardown();
	start(true);
	atomic_store(&worker.mute, true);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						ping_into_death, NULL), 0);
	nap_ms(50);
	shutdown(worker.data, SHUT_RDWR);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_ne(shim_chan_sticky(chan), CUDA_SUCCESS);
}
END_TEST

static void
put_late_reply(uint32_t slot)
{
	Mps__Reply reply = MPS__REPLY__INIT;

	put_reply(slot, &reply, 0);
}

/* Until the reply has come, too, nobody else gets the slot: it would be taken
 * for that one's. */
START_TEST(chan_line_is_an_answer_and_the_slot_waits_for_the_reply)
{
	bool used[CHANNEL_SLOTS] = {false};

	atomic_store(&worker.told, true);
	for (unsigned i = 0; i < CHANNEL_SLOTS; i++) {
		uint32_t slot;

		ck_assert_int_eq(call_mpsStreamSync(chan, 1), CUDA_SUCCESS);
		slot = atomic_load(&worker.slot);
		ck_assert(!used[slot]);
		used[slot] = true;
	}
	atomic_store(&worker.told, false);
	for (uint32_t slot = 0; slot < CHANNEL_SLOTS; slot += 7) {
		put_late_reply(slot);
		for (int i = 0; i < 3; i++) {
			ck_assert_int_eq(call_mpsStreamSync(chan, 1),
					 CUDA_SUCCESS);
			ck_assert_uint_le(atomic_load(&worker.slot), slot);
			ck_assert_uint_eq(atomic_load(&worker.slot) % 7, 0);
		}
	}
}
END_TEST

/* Numbers of the two rings have nothing to do with each other. */
START_TEST(chan_line_is_no_answer_to_an_unordered_call)
{
	for (uint32_t slot = 0; slot < CHANNEL_SLOTS; slot++)
		put_line(slot, 1);
	atomic_store(&worker.delay_ms, 20);
	ping(0x1234);
}
END_TEST

/* A line that was written while its caller sleeps, and later the answer. */
START_TEST(chan_line_with_a_late_answer_ends_a_sleep)
{
	atomic_store(&worker.delay_ms, 200);
	atomic_store(&worker.told, true);
	ck_assert_int_eq(call_mpsStreamSync(chan, 1), CUDA_SUCCESS);
}
END_TEST

SUITE_FIXTURE("chan", setup, teardown,
	chan_line_is_an_answer_and_the_slot_waits_for_the_reply,
	chan_line_is_no_answer_to_an_unordered_call,
	chan_line_with_a_late_answer_ends_a_sleep,
	chan_call_brings_its_result_back,
	chan_call_wakes_a_worker_that_naps,
	chan_call_sleeps_when_the_answer_takes_long,
	chan_post_arrives_as_protobuf_reads_it,
	chan_launch_arrives_as_protobuf_reads_it,
	chan_call_with_large_arguments_goes_through,
	chan_call_too_large_for_a_frame_is_refused,
	chan_serves_several_threads,
	chan_serves_more_waiting_threads_than_it_has_slots,
	chan_full_ring_makes_posts_wait_and_lets_others_by,
	chan_wait_ends_with_the_code_of_a_dying_worker,
	chan_wait_ends_when_the_worker_hangs_up,
	chan_wait_ends_when_the_broker_is_gone,
	chan_full_ring_of_a_dead_worker_ends_posts,
	chan_never_writes_to_a_file_of_the_host,
	chan_malformed_reply_is_an_error_and_no_more,
	chan_late_error_is_reported_once_by_a_synchronising_call,
	chan_wait_for_anothers_kernel_is_told_once,
	chan_kernel_text_is_out_before_the_call_returns,
	chan_no_post_makes_every_post_a_call,
	chan_knows_which_events_have_retired,
	chan_without_ring_serves_several_threads,
	chan_without_ring_prints_and_posts,
	chan_without_ring_wait_ends_when_the_worker_hangs_up)
