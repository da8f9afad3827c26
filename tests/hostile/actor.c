/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/actor.h"

#include <err.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api_ids.h"
#include "proto/launch.h"
#include "proto/shmem.h"
#include "tests/hostile/toys.h"

enum {
	ANSWER_MS = 20000,      /* a sound question; a loaded machine */
	MAYBE_MS = 20,          /* a changed one: it may lack its end */
	DRAIN_MS = 2000,
	/* Blocks of one launch: the software device runs each of them. */
	BLOCKS_MAX = 1024,
	/* Of mpsHostNext. */
	HOST_SLOT = CHANNEL_SLOTS - 1,
};

static bool
one_in(struct actor *a, unsigned n)
{
	return dice_below(&a->dice, n) == 0;
}

static bool
changes(struct actor *a)
{
	return a->every && one_in(a, a->every);
}

/* ---- names ----------------------------------------------------------------*/

static void
learn(struct actor_names *names, uint64_t old, uint64_t new_, uint64_t size)
{
	if (names->count < ACTOR_NAMES)
		names->names[names->count++] =
			(struct actor_name){old, new_, size};
}

static uint64_t
name_of(const struct actor_names *names, uint64_t old)
{
	/* The latest: addresses are given out again. */
	for (unsigned i = names->count; i-- > 0;)
		if (old - names->names[i].old < names->names[i].size)
			return old - names->names[i].old + names->names[i].new_;
	return old;
}

/* ---- control --------------------------------------------------------------*/

static Mps__Control *
unpack(const uint8_t *frame, size_t size)
{
	const size_t head = sizeof(struct frame_header);

	if (size < head)
		return NULL;
	return mps__control__unpack(NULL, size - head, frame + head);
}

/* Things that only a hostile client does with the memory it was given. */
static void
abuse_memory(struct actor *a, int fd)
{
	if (!a->every || !one_in(a, 8))
		return;
	toy_abuse(&a->dice, fd);
	a->counts->lies++;
}

static void
take_session(struct actor *a, int fds[3])
{
	abuse_memory(a, fds[1]);
	abuse_memory(a, fds[2]);
	a->data = fds[0];
	a->fds[0] = fds[1];
	a->fds[1] = fds[2];
	if (channel_map(&a->channel, a->fds[0]) < 0)
		return;
	ring_init(&a->ordered, &a->channel.page->ordered, a->channel.ordered,
		  RING_ORDERED);
	ring_init(&a->unordered, &a->channel.page->unordered,
		  a->channel.unordered, RING_UNORDERED);
}

static struct actor_code *
code_of(struct actor *a, const uint8_t *hash)
{
	const struct pool_image *image = pool_find(a->pool, hash);

	return image ? &a->codes[image - a->pool->images] : NULL;
}

static bool send_question(struct actor *a, Mps__Control *m,
			  const Mps__Control *recorded);

static void
upload(struct actor *a, const struct actor_code *code, int fd)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Ready ready = MPS__READY__INIT;
	struct stat st;
	uint8_t *map;

	abuse_memory(a, fd);
	if (!code || fstat(fd, &st) < 0 || (size_t)st.st_size != code->size)
		return;
	map = shmem_map(fd, code->size);
	if (map) {
		memcpy(map, code->bytes, code->size);
		if (changes(a))
			map[dice_below(&a->dice, code->size)] ^= 1;
		/* Else the broker cannot seal it. */
		if (!changes(a))
			munmap(map, code->size);
	}
	ready.what = MPS__READY__WHAT__IMAGE;
	question.id = 1u << 20;
	question.body_case = MPS__CONTROL__BODY_READY;
	question.ready = &ready;
	send_question(a, &question, NULL);
}

/* question and recorded: what was asked, and the answer that time. */
static void
take_answer(struct actor *a, const Mps__Control *question,
	    const Mps__Control *recorded, const Mps__Control *m, int *fds,
	    int *nfds)
{
	if (m->body_case == MPS__CONTROL__BODY_ATTACH_REPLY && *nfds == 3 &&
	    a->data < 0) {
		take_session(a, fds);
		*nfds = 0;
	}
	if (m->body_case == MPS__CONTROL__BODY_IMAGE_REPLY && *nfds == 1 &&
	    question->body_case == MPS__CONTROL__BODY_IMAGE) {
		for (size_t i = 0; i < a->pool->count; i++)
			if (question->image->hash.len == SHA256_SIZE &&
			    !memcmp(a->codes[i].hash,
				    question->image->hash.data, SHA256_SIZE))
				upload(a, &a->codes[i], fds[0]);
	}
	if (!recorded || recorded->body_case != m->body_case)
		return;
	if (m->body_case == MPS__CONTROL__BODY_PIECE_REPLY) {
		const Mps__PieceReply *was = recorded->piece_reply;

		learn(&a->ids, was->id, m->piece_reply->id, 1);
		learn(&a->addresses, was->address, m->piece_reply->address,
		      was->size);
	}
	if (m->body_case == MPS__CONTROL__BODY_CHUNK_REPLY)
		learn(&a->ids, recorded->chunk_reply->chunk,
		      m->chunk_reply->chunk, 1);
	if (m->body_case == MPS__CONTROL__BODY_HOST_MEMORY_REPLY)
		learn(&a->ids, recorded->host_memory_reply->id,
		      m->host_memory_reply->id, 1);
}

static bool
receive(struct actor *a, const Mps__Control *question,
	const Mps__Control *recorded, bool changed)
{
	int fds[SOCK_MAX_FDS], nfds = SOCK_MAX_FDS, r;
	bool sure = !changed && !a->confused;
	struct pollfd p = {.fd = a->control, .events = POLLIN};
	Mps__Control *m;

	if (poll(&p, 1, sure ? ANSWER_MS : MAYBE_MS) <= 0) {
		a->counts->hangs += sure;
		a->confused = true;
		return !sure;
	}
	r = sock_recv_control(a->control, &m, fds, &nfds, ANSWER_MS);
	if (r < 0)
		return false;
	take_answer(a, question, recorded, m, fds, &nfds);
	while (nfds)
		close(fds[--nfds]);
	mps__control__free_unpacked(m, NULL);
	return true;
}

/* Who may connect may end the broker and its clients, and say what they may
 * have: not the subject here. */
static bool
ends_the_broker(const uint8_t *frame, size_t size)
{
	Mps__Control *m = unpack(frame, size);
	bool quits = m && (m->body_case == MPS__CONTROL__BODY_QUIT ||
			   m->body_case == MPS__CONTROL__BODY_TERMINATE ||
			   m->body_case == MPS__CONTROL__BODY_LIMIT);

	if (m)
		mps__control__free_unpacked(m, NULL);
	return quits;
}

static bool
send_question(struct actor *a, Mps__Control *m, const Mps__Control *recorded)
{
	static uint8_t frame[2 * FRAME_MAX];
	struct frame_header header = {.type = FRAME_CONTROL};
	size_t size = mps__control__pack(m, frame + sizeof(header));
	bool changed = changes(a), toys = a->every && one_in(a, 400);

	header.size = (uint32_t)size;
	memcpy(frame, &header, sizeof(header));
	size += sizeof(header);
	if (changed)
		size = mutate_frame(&a->dice, frame, size, FRAME_MAX);
	if (changed && ends_the_broker(frame, size))
		return true;
	a->counts->frames++;
	a->counts->changed += changed;
	if (toys)
		a->counts->descriptors += toy_send(&a->dice, a->control, frame,
						   size);
	else if (sock_write(a->control, frame, size, DRAIN_MS) < 0)
		return false;
	return receive(a, m, recorded, changed || toys);
}

/* Today's names in yesterday's question. False: leave it out. */
static bool
translate(struct actor *a, Mps__Control *m)
{
	const struct actor_code *code;

	switch (m->body_case) {
	case MPS__CONTROL__BODY_ATTACH:
		m->attach->no_ring = !a->ring;
		return true;
	case MPS__CONTROL__BODY_READY:
		m->ready->object = name_of(&a->ids, m->ready->object);
		return m->ready->what != MPS__READY__WHAT__IMAGE;
	case MPS__CONTROL__BODY_CHUNK:
		m->chunk->piece = name_of(&a->ids, m->chunk->piece);
		m->chunk->address = name_of(&a->addresses, m->chunk->address);
		return true;
	case MPS__CONTROL__BODY_HOST_MEMORY:
		m->host_memory->piece = name_of(&a->ids, m->host_memory->piece);
		m->host_memory->address =
			name_of(&a->addresses, m->host_memory->address);
		return true;
	case MPS__CONTROL__BODY_CHUNK_FREE:
		m->chunk_free->chunk = name_of(&a->ids, m->chunk_free->chunk);
		return true;
	case MPS__CONTROL__BODY_HOST_FREE:
		m->host_free->id = name_of(&a->ids, m->host_free->id);
		return true;
	case MPS__CONTROL__BODY_IMAGE:
		code = code_of(a, m->image->hash.data);
		if (!code)
			return false;
		memcpy(m->image->hash.data, code->hash, SHA256_SIZE);
		m->image->size = code->size;
		a->counts->images += a->junk;
		return true;
	default:
		return true;
	}
}

static Mps__Control *
recorded_answer(const struct session *session, size_t i, uint64_t id)
{
	for (i++; i < session->count; i++) {
		const struct entry *entry = &session->entries[i];
		Mps__Control *m;

		if (entry->kind != ENTRY_ANSWER)
			continue;
		m = unpack(entry->bytes, entry->size);
		if (m && m->id == id)
			return m;
		mps__control__free_unpacked(m, NULL);
	}
	return NULL;
}

static bool
say_control(struct actor *a, size_t i)
{
	const struct entry *entry = &a->session->entries[i];
	Mps__Control *m = unpack(entry->bytes, entry->size), *recorded;
	bool good = true;

	if (!m)
		errx(1, "%s: entry %zu is no question", a->session->name, i);
	recorded = recorded_answer(a->session, i, m->id);
	if (translate(a, m))
		good = send_question(a, m, recorded);
	mps__control__free_unpacked(m, NULL);
	mps__control__free_unpacked(recorded, NULL);
	return good;
}

/* ---- data -----------------------------------------------------------------*/

/* Addresses and hashes of today. */
static void
rename_all(struct actor *a, uint8_t *frame, size_t size)
{
	for (size_t at = sizeof(struct frame_header); at + 8 <= size; at++) {
		uint64_t old, new_;

		memcpy(&old, frame + at, 8);
		/* Address windows lie high; this skips nearly everything. */
		if (old < UINT64_C(1) << 32 || old >> 47)
			continue;
		new_ = name_of(&a->addresses, old);
		memcpy(frame + at, &new_, 8);
	}
	for (size_t i = 0; i < a->pool->count; i++) {
		uint8_t *at = memmem(frame, size, a->pool->images[i].hash,
				     SHA256_SIZE);
		uint64_t length = a->codes[i].size;

		if (!at || (size_t)(frame + size - at) < SHA256_SIZE + 16)
			continue;
		/* mpsModuleLoad: the hash's own length and the image's size
		 * follow. */
		memcpy(at, a->codes[i].hash, SHA256_SIZE);
		memcpy(at + SHA256_SIZE + 8, &length, 8);
	}
}

/* Count anew, so that a frame left out or moved does not end the session:
 * seq is the first member of each message. */
static void
number_anew(struct actor *a, uint8_t *frame, size_t size)
{
	struct frame_header header;

	memcpy(&header, frame, sizeof(header));
	if (!a->renumber || header.lane || size < 17 || frame[8] != 0x09)
		return;
	a->seq++;
	memcpy(frame + 9, &a->seq, 8);
}

/* Sound launches stay small; in a session with junk code there are none,
 * since its kernels do anything. False: leave it out. */
static bool
restrain(struct actor *a, uint8_t *frame, size_t *size)
{
	struct frame_header header;
	struct launch_head head;
	Mps__Launch *m;
	bool keep = true;

	memcpy(&header, frame, sizeof(header));
	if (*size < sizeof(header) || header.type != FRAME_LAUNCH)
		return true;
	m = mps__launch__unpack(NULL, *size - sizeof(header),
				frame + sizeof(header));
	if (m && m->head.len == sizeof(head)) {
		memcpy(&head, m->head.data, sizeof(head));
		keep = !a->junk;
		for (int i = 0; i < 3; i++)
			if ((uint64_t)head.grid[0] * head.grid[1] >
				    BLOCKS_MAX ||
			    (uint64_t)head.grid[0] * head.grid[1] *
				    head.grid[2] > BLOCKS_MAX)
				head.grid[i] = 1;
		memcpy(m->head.data, &head, sizeof(head));
		if (mps__launch__get_packed_size(m) + sizeof(header) ==
		    *size)
			mps__launch__pack(m, frame + sizeof(header));
		else
			keep = false;
	}
	if (m)
		mps__launch__free_unpacked(m, NULL);
	return keep;
}

static void
lie_in_memory(struct actor *a)
{
	struct channel_page *page = a->channel.page;
	struct ring_words *words = one_in(a, 2) ? &page->ordered
						: &page->unordered;
	uint8_t *bytes = (uint8_t *)page;
	uint64_t n = dice_roll(&a->dice) >> dice_below(&a->dice, 64);

	a->counts->lies++;
	switch (dice_below(&a->dice, 6)) {
	case 0:
		atomic_fetch_add(&words->tail, n);
		break;
	case 1:
		atomic_store(&words->head, n);
		break;
	case 2:
		atomic_store(&words->naps, (uint32_t)n);
		break;
	case 3:
		bytes[dice_below(&a->dice, 4096)] = (uint8_t)n;
		break;
	case 4:
		memset(&a->channel.slots[n % CHANNEL_SLOTS], (int)n, 64);
		break;
	default:
		a->channel.ordered[dice_below(&a->dice, RING_ORDERED)] ^=
			(uint8_t)n;
		break;
	}
}

static void
read_replies(struct actor *a)
{
	static uint8_t waste[65536];

	while (recv(a->data, waste, sizeof(waste), MSG_DONTWAIT) > 0)
		continue;
}

static bool
is_dead(const struct actor *a)
{
	return a->channel.page && atomic_load(&a->channel.page->dead);
}

static bool
push(struct actor *a, struct ring *ring, const uint8_t *frame, size_t size)
{
	static const struct frame_header nudge = {.type = FRAME_NUDGE};
	void *at;

	if (!ring->words)
		return false;
	for (int ms = 0; !(at = ring_reserve(ring, (uint32_t)size)); ms++) {
		if (is_dead(a) || ms == DRAIN_MS)
			return false;
		usleep(1000);
	}
	memcpy(at, frame, size);
	if (ring_commit(ring, (uint32_t)size))
		sock_write(a->data, &nudge, sizeof(nudge), DRAIN_MS);
	return !is_dead(a);
}

static void
await_host_turn(struct actor *a)
{
	_Atomic uint32_t *state = &a->channel.slots[HOST_SLOT].state;
	int limit = a->every ? MAYBE_MS : ANSWER_MS;

	for (int ms = 0; ms < limit && atomic_load(state) != SLOT_DONE; ms++) {
		if (is_dead(a))
			return;
		usleep(1000);
	}
	a->counts->hangs += !a->every && atomic_load(state) != SLOT_DONE;
}

/*
 * That a host function has run is said only after the worker has told whose
 * turn it is: mpsHostNext gets a slot in the ring for that, which no call of
 * the recording has; those do not wait for their answers here. On the
 * socket, whose answers nobody reads, it may be said too early and the stream
 * is then held to the end. The size of the frame.
 */
static size_t
keep_host_turn(struct actor *a, uint8_t *frame, size_t size)
{
	const size_t head = sizeof(struct frame_header);
	struct frame_header header;
	Mps__Call *m;

	memcpy(&header, frame, head);
	if (!a->ring || !a->channel.page || header.type != FRAME_CALL)
		return size;
	m = mps__call__unpack(NULL, size - head, frame + head);
	if (m && m->fn == API_mpsHostNext && m->args.len >= 8) {
		if (memcmp(m->args.data, "\0\0\0\0\0\0\0", 8))
			await_host_turn(a);
		atomic_store(&a->channel.slots[HOST_SLOT].state, SLOT_PENDING);
		m->slot = HOST_SLOT;
		header.size = (uint32_t)mps__call__pack(m, frame + head);
		size = head + header.size;
		memcpy(frame, &header, head);
	}
	if (m)
		mps__call__free_unpacked(m, NULL);
	return size;
}

static bool
say_data(struct actor *a, size_t i)
{
	static uint8_t frame[2 * FRAME_MAX];
	const struct entry *entry = &a->session->entries[i];
	size_t size = entry->size;
	bool changed = changes(a);
	struct frame_header header;

	if (a->data < 0)
		return false;
	memcpy(frame, entry->bytes, size);
	size = keep_host_turn(a, frame, size);
	rename_all(a, frame, size);
	number_anew(a, frame, size);
	memcpy(&header, frame, sizeof(header));
	if (changed)
		size = mutate_frame(&a->dice, frame, size, FRAME_MAX);
	if (!size || !restrain(a, frame, &size))
		return true;
	a->counts->frames++;
	a->counts->changed += changed;
	if (a->every && a->channel.page && one_in(a, 40 * a->every))
		lie_in_memory(a);
	if (a->ring)
		return push(a, header.lane ? &a->unordered : &a->ordered,
			    frame, size);
	read_replies(a);
	if (a->every && one_in(a, 2000)) {
		a->counts->descriptors += toy_send(&a->dice, a->data, frame,
						   size);
		return true;
	}
	return !is_dead(a) && sock_write(a->data, frame, size, DRAIN_MS) == 0;
}

/* ---- the whole ------------------------------------------------------------*/

/* What is uploaded: the tame code, or junk. */
static void
prepare_codes(struct actor *a)
{
	for (size_t i = 0; i < a->pool->count && i < ACTOR_CODES; i++) {
		const struct pool_image *image = &a->pool->images[i];
		struct actor_code *code = &a->codes[i];
		bool raw = a->junk && one_in(a, 2);
		size_t cap;

		code->size = raw ? image->size : image->tame_size;
		cap = code->size + 4096;
		code->bytes = malloc(cap);
		if (!code->bytes)
			err(1, "code");
		memcpy(code->bytes, raw ? image->bytes : image->tame,
		       code->size);
		memcpy(code->hash, image->tame_hash, SHA256_SIZE);
		if (!a->junk)
			continue;
		code->size = mutate_bytes(&a->dice, code->bytes, code->size,
					  cap);
		pool_hash(code->bytes, code->size, code->hash);
	}
}

/* The order of what is said: as recorded, but for a few. */
static size_t *
make_order(struct actor *a, size_t *out_count)
{
	const struct session *s = a->session;
	size_t *order = calloc(s->count, sizeof(*order)), n = 0;
	size_t moves = a->every ? s->count / a->every / 4 : 0;

	if (!order)
		err(1, "order");
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].kind == ENTRY_CONTROL ||
		    s->entries[i].kind == ENTRY_DATA)
			order[n++] = i;
	if (a->every && one_in(a, 3))
		moves++;
	while (moves-- && n > 12) {
		size_t at = dice_below(&a->dice, n - 8);
		size_t other = at + 1 + dice_below(&a->dice, 7), kept;

		kept = order[at];
		switch (dice_below(&a->dice, 3)) {
		case 0:                         /* later */
			order[at] = order[other];
			order[other] = kept;
			break;
		case 1:                         /* twice, another never */
			order[other] = kept;
			break;
		default:                        /* never */
			n--;
			memmove(order + at, order + at + 1,
				(n - at) * sizeof(*order));
			break;
		}
	}
	*out_count = n;
	return order;
}

/* Has the worker taken all of it? */
static bool
is_taken(struct actor *a)
{
	int left = 0;

	if (!a->ring)
		return ioctl(a->data, SIOCOUTQ, &left) < 0 || !left;
	return ring_is_empty_for_producer(&a->ordered) &&
	       ring_is_empty_for_producer(&a->unordered);
}

static void
drain(struct actor *a)
{
	/* Who has lied about its ring may wait for ever. */
	int limit = 10 * (a->every ? MAYBE_MS : DRAIN_MS);

	if (a->data < 0 || !a->channel.page)
		return;
	for (int i = 0; i < limit && !is_dead(a) && !is_taken(a); i++) {
		read_replies(a);
		usleep(100);
	}
}

static void
leave(struct actor *a)
{
	close(a->control);
	if (a->data >= 0) {
		close(a->data);
		close(a->fds[0]);
		close(a->fds[1]);
	}
	channel_unmap(&a->channel);
	for (size_t i = 0; i < ACTOR_CODES; i++)
		free(a->codes[i].bytes);
}

void
actor_play(struct actor *a)
{
	size_t count, i;
	size_t *order = make_order(a, &count);
	bool good = true;

	a->data = -1;
	a->control = sock_connect(a->socket);
	if (a->control < 0)
		errx(1, "no broker at %s", a->socket);
	prepare_codes(a);
	for (i = 0; i < count && good; i++)
		good = a->session->entries[order[i]].kind == ENTRY_DATA ?
			say_data(a, order[i]) : say_control(a, order[i]);
	drain(a);
	a->counts->sessions++;
	a->counts->whole += good && a->data >= 0 && !is_dead(a);
	leave(a);
	free(order);
}

int
actor_cut_hello(const char *socket, const struct session *session)
{
	const struct entry *hello = session->entries;
	struct timeval limit = {.tv_sec = ANSWER_MS / 1000};
	char byte;

	for (size_t n = 0; n < hello->size; n++) {
		int fd = sock_connect(socket);
		ssize_t got;

		if (fd < 0)
			return -1;
		sock_write(fd, hello->bytes, n, DRAIN_MS);
		shutdown(fd, SHUT_WR);
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		got = recv(fd, &byte, 1, 0);
		close(fd);
		if (got > 0 || (got < 0 && errno != ECONNRESET))
			return -1;
	}
	return (int)hello->size;
}
