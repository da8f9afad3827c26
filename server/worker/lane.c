/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane's loop. It takes frames of its clients in turn, sees what the GPU
 * has finished, and sleeps when there is nothing of either. Nothing here
 * waits for the GPU, for a client or for another thread's driver call.
 */
#include "server/worker/lane.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "server/worker/backlog.h"
#include "server/worker/call.h"
#include "server/worker/crash.h"
#include "server/worker/memory.h"
#include "server/worker/restore.h"

/* Frames of one client before the next one's turn. */
#define BATCH 64
/* A lane that always has something to do sees to sockets and notes as often
 * as this. */
#define LOOK_EVERY 16
/* How long a lane looks before it sleeps; with few cores it would take them
 * from those it waits for. */
#define SPIN_NS 40000u
#define SPIN_FEW_CORES_NS 4000u
#define FEW_CORES 2u
/* Turns between two offers of the core to others: an offer takes as long as a
 * dozen glances. */
#define YIELD_EVERY 8u
/* Naps while the GPU works: somebody waits for it, or nobody does. Half a nap
 * is what a wait takes too long: a nap is a part of the time waited so far. */
#define NAP_PART 128u
#define NAP_PART_FEW_CORES 4u
#define NAP_MIN_NS 20000u
#define NAP_WAITED_NS 200000u
#define NAP_UNWAITED_NS 2000000u
#define TIMER_SLACK_NS 1000ul

void
wkr_lane_wake(struct wkr_lane *lane)
{
	uint64_t one = 1;

	/* Full means that it is about to wake anyway. */
	if (write(lane->wake, &one, sizeof(one)) < 0)
		return;
}

void
wkr_lane_note(struct wkr_lane *lane, struct wkr_note *note)
{
	note->next = NULL;
	pthread_mutex_lock(&lane->lock);
	*lane->notes_end = note;
	lane->notes_end = &note->next;
	pthread_mutex_unlock(&lane->lock);
	wkr_lane_wake(lane);
}

struct wkr_lane *
wkr_lane_choose(void)
{
	struct wkr_lane *best = wkr.lanes[0];

	for (unsigned i = 1; i < wkr.nlanes; i++)
		if (atomic_load(&wkr.lanes[i]->nclients) <
		    atomic_load(&best->nclients))
			best = wkr.lanes[i];
	return best;
}

static void
set_events(struct wkr_client *client, int op, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = client};

	epoll_ctl(client->lane->epoll, op, client->data, &e);
}

static void
add_client(struct wkr_lane *lane, struct wkr_client *client)
{
	client->lane_next = lane->clients;
	lane->clients = client;
	set_events(client, EPOLL_CTL_ADD, EPOLLIN);
	client->polled = true;
}

void
wkr_client_close(struct wkr_client *client)
{
	if (client->closed)
		return;
	client->closed = true;
	if (client->polled)
		set_events(client, EPOLL_CTL_DEL, 0);
	client->polled = false;
	pthread_mutex_lock(&client->out_lock);
	close(client->data);
	client->data = -1;
	pthread_mutex_unlock(&client->out_lock);
	free(client->held);
	client->held = NULL;
	client->parked = NULL;
	wkr_pending_drop(client);
	wkr_backlog_drop(client);
	wkr_hosts_drop(client);
}

static void
end_client(struct wkr_client *client, CUresult code, const char *why)
{
	if (client->closed)
		return;
	log_line(LOG_WARN, "client %llu (pid %d) is dropped: %s",
		 (unsigned long long)client->id, client->pid, why);
	wkr_client_tell(client, code, why);
	wkr_client_close(client);
}

void
wkr_client_drop(struct wkr_client *client, const char *why)
{
	end_client(client, CUDA_ERROR_MPS_RPC_FAILURE, why);
}

void
wkr_client_lose(struct wkr_client *client, const char *why)
{
	end_client(client, CUDA_ERROR_LAUNCH_FAILED, why);
}

static void
do_note(struct wkr_lane *lane, const struct wkr_note *note)
{
	struct wkr_client *client = note->client;

	switch (note->kind) {
	case WKR_NOTE_ADD:
		add_client(lane, client);
		return;
	case WKR_NOTE_GONE:
		client->gone = true;
		client->gone_id = note->control_id;
		wkr_client_close(client);
		return;
	case WKR_NOTE_FREE:
		wkr_grave_dig(client, note);
		return;
	}
}

static void
do_notes(struct wkr_lane *lane)
{
	struct wkr_note *note, *next;

	pthread_mutex_lock(&lane->lock);
	note = lane->notes;
	lane->notes = NULL;
	lane->notes_end = &lane->notes;
	pthread_mutex_unlock(&lane->lock);
	for (; note; note = next) {
		next = note->next;
		do_note(lane, note);
		free(note);
	}
}

/* Keep the frame until it can be done. */
static void
hold(struct wkr_client *client, const uint8_t *frame, uint32_t size,
     bool ordered)
{
	if (frame == client->held)
		return;
	client->held = malloc(size);
	if (!client->held) {
		wkr_client_drop(client, "out of memory");
		return;
	}
	memcpy(client->held, frame, size);
	client->held_size = size;
	client->held_ordered = ordered;
	if (client->no_ring && client->polled)
		set_events(client, EPOLL_CTL_MOD, 0);
}

static void
let_go(struct wkr_client *client)
{
	free(client->held);
	client->held = NULL;
	client->parked = NULL;
	if (client->no_ring && client->polled)
		set_events(client, EPOLL_CTL_MOD, EPOLLIN);
}

/* True: go on with this client's next frame. */
static bool
do_frame(struct wkr_client *client, const uint8_t *frame, uint32_t size,
	 bool ordered)
{
	int r = wkr_frame(client, frame, size, ordered);

	if (r == WKR_CALL_E_AGAIN) {
		hold(client, frame, size, ordered);
		return false;
	}
	if (r < 0) {
		wkr_client_drop(client, r == -ENOMEM
						? "out of memory"
						: "a frame breaks the rules");
		return false;
	}
	if (frame == client->held)
		let_go(client);
	return true;
}

static bool
retry_held(struct wkr_client *client)
{
	return do_frame(client, client->held, client->held_size,
			client->held_ordered);
}

static bool
serve_ring(struct wkr_client *client, struct ring *ring, bool ordered)
{
	struct wkr_lane *lane = client->lane;
	uint32_t size, n = 0;

	for (; n < BATCH && !client->closed; n++) {
		int r;

		lane->batch.left = ordered ? BATCH - 1 - n : 0;
		if (ordered ? client->held != NULL
			    : atomic_load(&client->jobs) >= WKR_JOBS_MAX)
			break;
		/* What is ordered gives its place back itself (keep.c). */
		r = (ordered ? ring_take : ring_pop)(ring, lane->frame,
						     FRAME_MAX, &size);
		if (r == RING_E_EMPTY)
			break;
		if (r < 0) {
			wkr_client_drop(client, "its ring makes no sense");
			break;
		}
		lane->batch.frame_size = size;
		if (!do_frame(client, lane->frame, size, ordered))
			break;
	}
	lane->batch.left = 0;
	wkr_batch_issue(client);
	wkr_count(&client->ring_frames, n);
	return n > 0;
}

/* Whole frames in the reader's buffer, up to one that must wait. */
static bool
serve_reader(struct wkr_client *client)
{
	uint32_t n = 0;

	while (!client->closed && !client->held) {
		struct frame_header header;
		const uint8_t *body;
		int r = sock_reader_next(&client->reader, &header, &body);

		if (r == SOCK_E_MORE)
			break;
		if (r < 0 || (!client->no_ring && header.type != FRAME_NUDGE)) {
			wkr_client_drop(client, "its socket makes no sense");
			break;
		}
		if (header.type == FRAME_NUDGE)
			continue;
		n++;
		do_frame(client, body - sizeof(header),
			 header.size + (uint32_t)sizeof(header),
			 header.lane == 0);
	}
	wkr_count(&client->socket_frames, n);
	return n > 0;
}

static void
on_readable(struct wkr_client *client, uint32_t events)
{
	int r, fd;

	if (client->closed)
		return;
	if (client->held && client->no_ring && !(events & EPOLLHUP))
		return;
	r = sock_reader_fill(&client->reader);
	/* Nobody sends descriptors here. */
	while ((fd = sock_reader_take_fd(&client->reader)) >= 0)
		close(fd);
	serve_reader(client);
	if (r < 0)
		wkr_client_close(client);
}

static const char *
waits_for(const struct wkr_client *client)
{
	if (client->parked)
		return client->parked;
	return client->pending ? api_names[client->pending->fn] : "";
}

/* Another worker may have it, when all that was begun is done. The job that
 * waits for that is the one that is left. */
static void
maybe_part(struct wkr_client *client)
{
	if (client->issued > client->done || client->kept > client->done ||
	    atomic_load(&client->jobs) != 1 || client->pending ||
	    client->backlog || client->hosts || client->graves ||
	    client->out_size)
		return;
	/* The bytes on its socket are for whoever reads its rings. */
	if (client->polled)
		set_events(client, EPOLL_CTL_DEL, 0);
	client->polled = false;
	atomic_store(&client->parted, true);
}

/* No other has it. */
static void
come_back(struct wkr_client *client)
{
	atomic_store(&client->parted, false);
	if (client->closed)
		return;
	set_events(client, EPOLL_CTL_ADD, EPOLLIN);
	client->polled = true;
}

/* One turn: what has retired, then what is new. True when anything moved. */
static bool
serve(struct wkr_client *client, bool resting)
{
	bool parting = atomic_load(&client->parting), any;

	if (atomic_load(&client->parted)) {
		if (parting || client->gone)
			return false;
		come_back(client);
	}
	wkr_at_work(client, "work that has been issued");
	any = wkr_client_poll(client);
	if (client->restore)
		return wkr_restore_step(client);
	any |= wkr_hosts_poll(client);
	if ((any || client->at_gate) && !resting)
		wkr_backlog_run(client);
	if (client->held && !resting && !parting)
		any |= retry_held(client);
	if (resting) {
		;       /* pause.c */
	} else if (client->no_ring) {
		any |= serve_reader(client);
	} else {
		any |= serve_ring(client, &client->unordered, false);
		if (!parting)
			any |= serve_ring(client, &client->ordered, true);
	}
	wkr_at_work(client, "work that has been issued");
	wkr_client_fence(client);
	wkr_client_publish(client);
	wkr_pending_poll(client);
	wkr_keep_settle(client);
	atomic_store_explicit(&client->waiting, waits_for(client),
			      memory_order_relaxed);
	wkr_graves_poll(client);
	wkr_streams_reap(client);
	wkr_kits_reap(client);
	if (client->out_size && !wkr_reply_flush(client))
		wkr_client_drop(client, "its socket is broken");
	if (parting && !resting)
		maybe_part(client);
	return any;
}

static bool
is_over(struct wkr_client *client)
{
	return client->gone && !client->restore && !atomic_load(&client->oldest_ns) &&
	       !client->graves && !atomic_load(&client->jobs);
}

static bool
serve_all(struct wkr_lane *lane)
{
	struct wkr_client **link = &lane->clients, *client;
	bool any = false, resting = atomic_load(&wkr.paused);
	uint64_t shuts = wkr_gate_shuts();

	atomic_store(&lane->resting, resting);

	while ((client = *link)) {
		any |= serve(client, resting);
		if (!is_over(client)) {
			link = &client->lane_next;
			continue;
		}
		*link = client->lane_next;
		atomic_fetch_sub(&lane->nclients, 1);
		wkr_client_bury(client);
	}
	atomic_store_explicit(&lane->shut_seen, shuts, memory_order_release);
	return any;
}

/* How long it may sleep: -1 for ever, else nanoseconds. */
static int64_t
nap_length(const struct wkr_lane *lane, uint64_t idle_ns)
{
	bool waited = false, busy = false;
	uint64_t part, most;

	for (struct wkr_client *c = lane->clients; c; c = c->lane_next) {
		waited |= c->pending || c->held || c->at_gate || c->out_size ||
			  c->restore || wkr_hosts_waiting(c);
		busy |= atomic_load(&c->oldest_ns) || c->graves || c->gone;
	}
	if (!waited && !busy)
		return -1;
	part = idle_ns / (waited && wkr.cores > FEW_CORES ? NAP_PART
							  : NAP_PART_FEW_CORES);
	most = waited ? NAP_WAITED_NS : NAP_UNWAITED_NS;
	if (part < NAP_MIN_NS)
		return NAP_MIN_NS;
	return (int64_t)(part < most ? part : most);
}

/* Rings that it will not read now need not wake it. */
static bool
nap_ring(struct wkr_client *client, bool ordered)
{
	if (client->closed || client->no_ring || client->restore ||
	    atomic_load(&client->parted))
		return true;
	if (ordered)
		return client->held || atomic_load(&client->parting) ||
		       ring_nap(&client->ordered);
	return atomic_load(&client->jobs) >= WKR_JOBS_MAX ||
	       ring_nap(&client->unordered);
}

static bool
nap_all(struct wkr_lane *lane)
{
	for (struct wkr_client *c = lane->clients; c; c = c->lane_next)
		if (!nap_ring(c, true) || !nap_ring(c, false))
			return false;
	return true;
}

static void
wake_all(struct wkr_lane *lane)
{
	for (struct wkr_client *c = lane->clients; c; c = c->lane_next) {
		if (c->no_ring || c->restore || atomic_load(&c->parted))
			continue;
		ring_wake(&c->ordered);
		ring_wake(&c->unordered);
	}
}

static bool
has_sockets(const struct wkr_lane *lane)
{
	for (struct wkr_client *c = lane->clients; c; c = c->lane_next)
		if (c->no_ring && !c->closed)
			return true;
	return false;
}

/* What the sockets say, after up to nap_ns. */
static bool
look(struct wkr_lane *lane, int64_t nap_ns)
{
	struct pollfd p = {.fd = lane->epoll, .events = POLLIN};
	struct timespec t = {.tv_nsec = nap_ns > 0 ? (long)nap_ns : 0};
	struct epoll_event events[16];
	int n;

	if (nap_ns && ppoll(&p, 1, nap_ns < 0 ? NULL : &t, NULL) <= 0)
		return false;
	n = epoll_wait(lane->epoll, events, 16, 0);
	for (int i = 0; i < n; i++) {
		uint64_t count;

		if (events[i].data.ptr)
			on_readable(events[i].data.ptr, events[i].events);
		else if (read(lane->wake, &count, sizeof(count)) < 0)
			continue;
	}
	do_notes(lane);
	return n > 0;
}

static void
breathe(struct wkr_lane *lane)
{
	if (wkr.cores <= FEW_CORES || ++lane->looks % YIELD_EVERY == 0)
		sched_yield();
	else
		wkr_lane_glance(lane);
}

static bool
rest(struct wkr_lane *lane, uint64_t idle_ns)
{
	uint32_t spin = wkr.cores > FEW_CORES ? SPIN_NS : SPIN_FEW_CORES_NS;
	bool any = false;

	if (idle_ns < spin) {
		breathe(lane);
		return has_sockets(lane) && look(lane, 0);
	}
	if (nap_all(lane))
		any = look(lane, nap_length(lane, idle_ns));
	wake_all(lane);
	return any;
}

static void *
lane_thread(void *arg)
{
	struct wkr_lane *lane = arg;
	uint64_t last;

	pthread_setname_np(pthread_self(), "wkr_lane");
	/* The system would make each nap 50 us longer. */
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
	wkr_thread_begin();
	wkr_ok(wkr.drv.cuStreamCreate(&lane->flush, CU_STREAM_NON_BLOCKING));
	last = lane->now_ns = wkr_now_ns();
	for (uint32_t turn = 0;; turn++) {
		bool any = serve_all(lane);

		lane->now_ns = wkr_now_ns();
		if (!any)
			any = rest(lane, lane->now_ns - last);
		else if (turn % LOOK_EVERY == 0)
			look(lane, 0);
		if (any)
			last = lane->now_ns;
	}
	return NULL;
}

static int
lane_create(unsigned index, struct wkr_lane **out)
{
	struct wkr_lane *lane = calloc(1, sizeof(*lane));
	struct epoll_event e = {.events = EPOLLIN};
	int r;

	if (!lane)
		return err_origin(-ENOMEM);
	lane->index = index;
	lane->notes_end = &lane->notes;
	pthread_mutex_init(&lane->lock, NULL);
	lane->frame = malloc(FRAME_MAX);
	lane->arena = malloc(WKR_ARENA_SIZE);
	lane->epoll = epoll_create1(EPOLL_CLOEXEC);
	lane->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* Lanes are made once, at start; the process ends when that fails. */
	if (!lane->frame || !lane->arena || lane->epoll < 0 || lane->wake < 0 ||
	    epoll_ctl(lane->epoll, EPOLL_CTL_ADD, lane->wake, &e) < 0)
		return err_origin(-ENOMEM);
	*out = lane;
	r = pthread_create(&lane->thread, NULL, lane_thread, lane);
	return r ? err_origin(-r) : 0;
}

int
wkr_lanes_start(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		int r = lane_create(i, &wkr.lanes[i]);

		if (r < 0)
			return err_trace(r);
		wkr.nlanes++;
	}
	return 0;
}
