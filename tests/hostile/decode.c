/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every decoder that sees bytes from outside, in this process, as fast as it
 * goes: for sanitizers, which want the crash where it happens.
 *
 *     decode frames|images SEED COUNT SESSION...
 *
 * frames: changed frames of recorded sessions through socket reader, ring,
 * messages and arguments, and through a connection of the broker. images:
 * changed code images through the software device's parsers. The number of
 * the input is printed when the process dies.
 */
#include <elf.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api_sigs.h"
#include "proto/launch.h"
#include "proto/marshal.h"
#include "proto/ring.h"
#include "proto/shmem.h"
#include "server/broker/conn.h"
#include "server/soft/ptx.h"
#include "server/soft/soft_image.h"
#include "tests/hostile/mutate.h"
#include "tests/hostile/session.h"
#include "tests/unit/soft_images.h"

enum {
	/* As the worker's lane has it. */
	ARENA = 4 * FRAME_MAX + 64 * 1024,
	/* An input may take so long; parsers must not be slow either. */
	SECONDS_MAX = 20,
};

struct bytes {
	const uint8_t *data;
	size_t size;
};

static struct bytes *seeds;
static size_t nseeds;
static uint64_t seed, input;
static const char *mode;
/* What came of the inputs: 0 refused, 1 taken. */
static uint64_t outcomes[2];

/* Also called by a sanitizer that ends the process. */
static void
say_where(void)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "decode %s: SEED=%" PRIu64
			 " input %" PRIu64 "\n", mode, seed, input);

	if (write(2, line, (size_t)n) < 0)
		_exit(1);
}

static void
on_signal(int number)
{
	say_where();
	signal(number, SIG_DFL);
	raise(number);
}

void __asan_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void
add_seed(const void *data, size_t size)
{
	seeds = reallocarray(seeds, nseeds + 1, sizeof(*seeds));
	if (!seeds)
		err(1, "seeds");
	seeds[nseeds++] = (struct bytes){data, size};
}

/* A changed copy of any seed, in memory that ends where it does. */
static uint8_t *
make_input(struct dice *dice, bool frame, size_t *out_size)
{
	const struct bytes *from = &seeds[dice_below(dice, nseeds)];
	size_t cap = from->size + 4096, size;
	uint8_t *room = malloc(cap), *exact;

	memcpy(room, from->data, from->size);
	size = frame ? mutate_frame(dice, room, from->size, cap)
		     : mutate_bytes(dice, room, from->size, cap);
	exact = malloc(size ? size : 1);
	memcpy(exact, room, size);
	free(room);
	*out_size = size;
	return exact;
}

/* ---- frames ---------------------------------------------------------------*/

static struct channel channel;
static struct ring producer, consumer;
static struct brk_loop loop;
static uint8_t *arena_bytes, *popped;

static void *
arena_alloc(void *data, size_t size)
{
	return wire_arena_alloc(data, size);
}

static void
arena_free(void *data, void *p)
{
	(void)data;
	(void)p;
}

/* What a worker does with a frame before a handler sees it. */
static bool
decode_data(const uint8_t *frame, size_t size)
{
	struct wire_arena arena = {.base = arena_bytes, .size = ARENA};
	ProtobufCAllocator alloc = {
		.alloc = arena_alloc, .free = arena_free,
		.allocator_data = &arena,
	};
	struct wire_arg args[WIRE_MAX_PARAMS];
	struct frame_header header;
	static uint8_t outs[FRAME_MAX];
	Mps__Call *m;

	memcpy(&header, frame, sizeof(header));
	size -= sizeof(header);
	if (header.type == FRAME_LAUNCH)
		return mps__launch__unpack(&alloc, size,
					   frame + sizeof(header)) != NULL;
	m = mps__call__unpack(&alloc, size, frame + sizeof(header));
	if (!m || m->fn >= API_COUNT || !api_sigs[m->fn].name)
		return false;
	if (wire_unpack_call(&api_sigs[m->fn], m->args.data, m->args.len,
			     args, &arena) < 0)
		return false;
	return wire_pack_reply(&api_sigs[m->fn], args, outs, sizeof(outs)) >=
	       0;
}

/* Through a ring, whose words may lie. */
static void
through_ring(struct dice *dice, const uint8_t *frame, size_t size)
{
	struct ring_words *words = &channel.page->ordered;
	uint32_t got;
	void *at;

	at = size && size <= FRAME_MAX ? ring_reserve(&producer,
						      (uint32_t)size) : NULL;
	if (at) {
		memcpy(at, frame, size);
		ring_commit(&producer, (uint32_t)size);
	}
	if (!dice_below(dice, 64))
		atomic_store(&words->tail, dice_roll(dice) >>
					   dice_below(dice, 64));
	if (!dice_below(dice, 64))
		words->naps ^= (uint32_t)dice_roll(dice);
	for (int i = 0; i < 64; i++) {
		int r = ring_pop(&consumer, popped, FRAME_MAX, &got);

		if (r == 0)
			outcomes[decode_data(popped, got)]++;
		if (r == RING_E_EMPTY) {
			ring_nap(&consumer);
			ring_wake(&consumer);
			return;
		}
		if (r < 0)
			break;
	}
	/* The client would be dropped: the next one's ring. */
	memset(words, 0, sizeof(*words));
	ring_init(&producer, words, channel.ordered, RING_ORDERED);
	ring_init(&consumer, words, channel.ordered, RING_ORDERED);
}

static bool ended;

static int
on_frame(struct brk_conn *conn, const Mps__Control *message)
{
	(void)conn;
	outcomes[message->body_case != MPS__CONTROL__BODY__NOT_SET]++;
	return 0;
}

static void
on_end(struct brk_conn *conn, int reason)
{
	(void)conn;
	(void)reason;
	ended = true;
}

/* Through a socket, to the broker's decoder or to the worker's reader. */
static void
through_socket(const uint8_t *frame, size_t size, bool control)
{
	struct frame_header header;
	struct sock_reader reader;
	struct brk_conn conn;
	const uint8_t *body;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		err(1, "socketpair");
	sock_write(pair[1], frame, size, 1000);
	close(pair[1]);
	if (control) {
		ended = false;
		if (brk_conn_init(&conn, &loop, pair[0], 65536) < 0)
			errx(1, "connection");
		conn.on_frame = on_frame;
		conn.on_end = on_end;
		while (!ended)
			conn.source.dispatch(&conn.source, EPOLLIN);
		brk_conn_fini(&conn);
		return;
	}
	sock_reader_init(&reader, pair[0]);
	while (sock_reader_fill(&reader) == 0)
		while (sock_reader_next(&reader, &header, &body) == 0)
			outcomes[decode_data(body - sizeof(header),
					     sizeof(header) + header.size)]++;
	sock_reader_fini(&reader);
	close(pair[0]);
}

static void
start_frames(void)
{
	int fd = shmem_create("channel", CHANNEL_SIZE);

	if (channel_map(&channel, fd) < 0 || brk_loop_init(&loop) < 0)
		err(1, "channel");
	close(fd);
	ring_init(&producer, &channel.page->ordered, channel.ordered,
		  RING_ORDERED);
	ring_init(&consumer, &channel.page->ordered, channel.ordered,
		  RING_ORDERED);
	arena_bytes = malloc(ARENA);
	popped = malloc(FRAME_MAX);
}

static void
do_frame(struct dice *dice)
{
	size_t size;
	uint8_t *frame = make_input(dice, true, &size);
	uint64_t way = dice_below(dice, 4);

	if (way < 2)
		through_ring(dice, frame, size);
	else
		through_socket(frame, size, way == 2);
	free(frame);
}

/* ---- images ---------------------------------------------------------------*/

static bool
parse_ptx(const char *text, size_t size)
{
	struct ptx_module *module;
	char log[256];
	int r = ptx_module_parse(&module, text, size, log, sizeof(log));

	if (!r)
		ptx_module_free(module);
	return !r;
}

static void
do_image(struct dice *dice)
{
	size_t size;
	uint8_t *bytes = make_input(dice, false, &size);
	struct soft_image image;
	struct soft_elf elf;
	bool taken = false;

	soft_image_length(bytes, size);
	if (!soft_image_open(&image, bytes, size)) {
		if (image.kind == SOFT_IMAGE_PTX)
			taken = parse_ptx(image.data, image.size);
		else if (!soft_elf_open(&elf, image.data, image.size)) {
			soft_elf_close(&elf);
			taken = true;
		}
		soft_image_close(&image);
	}
	/* Text of exactly that size, without its NUL. */
	if (!dice_below(dice, 4))
		taken |= parse_ptx((const char *)bytes, size);
	outcomes[taken]++;
	free(bytes);
}

/* A fatbin of the image and an ELF, in every packing. */
static void
add_images(const uint8_t *data, size_t size)
{
	add_seed(data, size);
	for (int pack = IMG_PLAIN; pack <= IMG_ZSTD; pack++) {
		struct img fat = {0}, elf = {0};

		img_elf(&elf);
		img_fatbin_begin(&fat);
		img_fatbin_add(&fat, 1, 50, data, size, (enum img_pack)pack);
		img_fatbin_add(&fat, 2, 90, elf.data, elf.size,
			       (enum img_pack)pack);
		add_seed(fat.data, fat.size);
		if (pack == IMG_PLAIN)
			add_seed(elf.data, elf.size);
		else
			free(elf.data);
	}
}

static void
add_session(const char *path)
{
	static struct session kept[16];
	static int n;
	struct session *s = &kept[n++];

	if (n > 16)
		errx(2, "more than 16 sessions");
	session_read(s, path);
	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];

		if (*mode == 'i' && e->kind == ENTRY_IMAGE)
			add_images(e->bytes, e->size);
		if (*mode == 'f' && e->kind != ENTRY_IMAGE)
			add_seed(e->bytes, e->size);
	}
}

int
main(int argc, char **argv)
{
	static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE,
				     SIGILL, SIGALRM};
	uint64_t count;

	if (argc < 5 || (strcmp(argv[1], "frames") &&
			 strcmp(argv[1], "images")))
		errx(2, "usage: decode frames|images SEED COUNT SESSION...");
	mode = argv[1];
	seed = strtoull(argv[2], NULL, 0);
	count = strtoull(argv[3], NULL, 0);
	for (int i = 4; i < argc; i++)
		add_session(argv[i]);
	if (__asan_set_death_callback)
		__asan_set_death_callback(say_where);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		if (!__asan_set_death_callback || deadly[i] == SIGALRM)
			signal(deadly[i], on_signal);
	if (*mode == 'f')
		start_frames();
	for (input = 0; input < count; input++) {
		struct dice dice = {seed * 1000003 + input};

		alarm(SECONDS_MAX);
		if (*mode == 'f')
			do_frame(&dice);
		else
			do_image(&dice);
	}
	printf("%s: SEED=%" PRIu64 ": %" PRIu64 " inputs from %zu: %" PRIu64
	       " decoded, %" PRIu64 " refused on the way\n", mode, seed,
	       count, nseeds, outcomes[1], outcomes[0]);
	/* Changes that let nothing pass, or everything, test nothing. */
	return !outcomes[0] || !outcomes[1];
}
