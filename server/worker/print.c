/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device printf. The context has one FIFO for all clients and whoever
 * synchronises next makes the driver write it to this process's stdout. So
 * one client at a time may have printing kernels in flight, and descriptor 1
 * is a file of ours that is read whenever such a client is answered, or
 * another wants to print.
 *
 * Most kernels that could print never do: every attention kernel of PyTorch
 * can, in a branch that is not taken. One that was launched some times while
 * no text came counts as silent and waits for nobody; that ends for all of
 * them when text comes. Should it come while silent kernels of several
 * clients run, each of these clients gets it, and the log says so.
 *
 * The first kernel of a context that can print or assert waits for all that
 * runs there, while the driver finds room for the text (measured): beside one
 * that does not end, for ever. So ours comes first, when nothing runs yet.
 *
 * A memory file and not a pipe: nothing can block on it being full.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/worker/call.h"
#include "server/worker/lane.h"

/* Text that a client has not fetched: the FIFO's own size. */
#define TEXT_KEPT (1024u * 1024u)
/* What prints at all does so by then, or seldom. */
#define SILENT_LAUNCHES 64u

/* Guards what follows. Taken before a client's lock. */
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wkr_client *holder;
static off_t consumed; /* bytes of the file that were read */

static _Atomic uint32_t texts = 1; /* how often text has come, and 1 */

int
wkr_print_init(void)
{
	_cleanup_close_ int fd =
		memfd_create("mpsd-worker stdout", MFD_CLOEXEC);

	if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0 ||
	    dup2(fd, STDOUT_FILENO) < 0)
		return err_origin(-errno);
	return 0;
}

/* Says and asserts nothing when it is launched with 0. */
static const char first_text[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	".extern .func __assertfail(.param .b64 m, .param .b64 f,"
	" .param .b32 l, .param .b64 n, .param .b64 s);\n"
	".visible .entry says(.param .u32 yes)\n{\n"
	" .reg .pred %q; .reg .b64 %d<2>; .reg .b32 %r<3>;\n"
	" ld.param.u32 %r1, [yes]; setp.eq.u32 %q, %r1, 0; @%q bra E;\n"
	" mov.u64 %d1, 0; { .param .b64 f; .param .b64 a; .param .b32 r;\n"
	" st.param.b64 [f], %d1; st.param.b64 [a], %d1;\n"
	" call.uni (r), vprintf, (f, a); }\n"
	" { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n;"
	" .param .b64 s;\n st.param.b64 [m], %d1; st.param.b64 [f], %d1;"
	" st.param.b32 [l], 0;\n st.param.b64 [n], %d1;"
	" st.param.b64 [s], 1;\n"
	" call.uni __assertfail, (m, f, l, n, s); }\nE: ret;\n}\n";

void
wkr_print_first(void)
{
	uint32_t no = 0;
	void *args[] = {&no};
	CUfunction function;
	CUmodule module;
	CUresult r;

	r = wkr.drv.cuModuleLoadData(&module, first_text);
	if (r == CUDA_SUCCESS)
		r = wkr.drv.cuModuleGetFunction(&function, module, "says");
	if (r == CUDA_SUCCESS)
		r = wkr.drv.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
					   args, NULL);
	if (r == CUDA_SUCCESS)
		r = wkr.drv.cuCtxSynchronize();
	/* Then a client's is the first, which waits. */
	if (r != CUDA_SUCCESS)
		log_line(LOG_WARN, "no room for the text of kernels: %d",
			 (int)r);
}

static void
append_text(struct wkr_client *client, const char *text, size_t size)
{
	char *grown;

	pthread_mutex_lock(&client->lock);
	if (client->text_size + size > TEXT_KEPT) {
		log_once(LOG_WARN, "device printf: a client does not fetch "
				   "its text, some is lost");
		size = TEXT_KEPT - client->text_size;
	}
	grown = size ? realloc(client->text, client->text_size + size) : NULL;
	if (grown) {
		memcpy(grown + client->text_size, text, size);
		client->text = grown;
		client->text_size += size;
	}
	pthread_mutex_unlock(&client->lock);
}

static bool
has_unread(struct wkr_client *client)
{
	return atomic_load(&client->print_read) <
	       atomic_load(&client->print_seq);
}

/* To whoever can have printed it. */
static void
give_text_locked(const char *text, size_t size)
{
	unsigned given = 0;

	pthread_mutex_lock(&wkr.clients_lock);
	for (struct wkr_client *c = wkr.clients; c; c = c->next) {
		if (!has_unread(c))
			continue;
		append_text(c, text, size);
		given++;
	}
	pthread_mutex_unlock(&wkr.clients_lock);
	if (given > 1)
		log_once(LOG_WARN, "device printf: kernels of %u clients can "
				   "have printed a text; all get it", given);
	if (!given)
		log_line(LOG_WARN, "device printf of a client that has ended: "
			 "%.*s", (int)size, text);
}

/* What the driver has written since; its place in the file is given back
 * without moving anybody's end-of-file. */
static void
read_locked(void)
{
	char buf[4096];
	off_t from = consumed;
	ssize_t n;

	while ((n = pread(STDOUT_FILENO, buf, sizeof(buf), consumed)) > 0) {
		give_text_locked(buf, (size_t)n);
		consumed += n;
	}
	if (consumed == from)
		return;
	atomic_fetch_add(&texts, 1);
	fallocate(STDOUT_FILENO, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  from, consumed - from);
}

/* Of every client, up to where its kernels have ended. */
static void
settle_locked(bool done)
{
	pthread_mutex_lock(&wkr.clients_lock);
	for (struct wkr_client *c = wkr.clients; c; c = c->next) {
		uint64_t seq = atomic_load(&c->print_seq);

		if (done)
			atomic_store(&c->print_read, c->print_ended);
		else if (atomic_load(&c->retired) >= seq)
			c->print_ended = seq;
	}
	pthread_mutex_unlock(&wkr.clients_lock);
}

/* Synchronising a stream that has no work makes the driver write out the
 * FIFO and waits for nothing. */
static void
flush_locked(struct wkr_lane *lane)
{
	settle_locked(false);
	wkr_ok(wkr.drv.cuStreamSynchronize(lane->flush));
	fflush(stdout);
	read_locked();
	settle_locked(true);
}

static bool
is_silent(const struct wkr_printer *printer)
{
	return atomic_load(&printer->since) == atomic_load(&texts) &&
	       atomic_load(&printer->launches) >= SILENT_LAUNCHES;
}

static void
count_launch_locked(struct wkr_printer *printer)
{
	uint32_t now = atomic_load(&texts);

	if (atomic_load(&printer->since) != now) {
		atomic_store(&printer->launches, 0);
		atomic_store(&printer->since, now);
	}
	atomic_fetch_add(&printer->launches, 1);
}

/* Before the launch: another lane must not take the right away, nor believe
 * all text read, between the two. */
static void
note_launch(struct wkr_client *client, uint64_t seq)
{
	if (seq > atomic_load(&client->print_seq))
		atomic_store(&client->print_seq, seq);
	client->unread = true;
	/* Seen by who sees that the launch has retired: the lane publishes
	 * that later, with a release. */
	atomic_store_explicit(&client->channel.page->unread, 1,
			      memory_order_relaxed);
}

/* Whoever reads text for a client appends it before it counts as read: what
 * is neither unread nor there will not come. */
void
wkr_print_told(struct wkr_client *client)
{
	size_t left;

	if (!client->unread || has_unread(client))
		return;
	pthread_mutex_lock(&client->lock);
	left = client->text_size;
	pthread_mutex_unlock(&client->lock);
	if (left)
		return;
	client->unread = false;
	atomic_store_explicit(&client->channel.page->unread, 0,
			      memory_order_relaxed);
}

bool
wkr_print_acquire(struct wkr_client *client, uint64_t seq,
		  struct wkr_printer *printer)
{
	bool got = true;

	if (is_silent(printer)) {
		note_launch(client, seq);
		return true;
	}
	pthread_mutex_lock(&print_lock);
	if (holder && holder != client) {
		got = atomic_load(&holder->retired) >=
		      atomic_load(&holder->print_seq);
		if (got)
			flush_locked(client->lane);
	}
	if (got) {
		holder = client;
		note_launch(client, seq);
		count_launch_locked(printer);
	}
	pthread_mutex_unlock(&print_lock);
	return got;
}

void
wkr_print_collect(struct wkr_client *client)
{
	if (!has_unread(client))
		return;
	pthread_mutex_lock(&print_lock);
	flush_locked(client->lane);
	pthread_mutex_unlock(&print_lock);
}

void
wkr_print_release(struct wkr_client *client)
{
	pthread_mutex_lock(&print_lock);
	if (has_unread(client))
		flush_locked(client->lane);
	if (holder == client)
		holder = NULL;
	pthread_mutex_unlock(&print_lock);
}

void
wkr_print_last(void)
{
	char buf[4096];
	ssize_t n;

	/* Whoever holds the lock may be waiting in the driver for ever. */
	if (pthread_mutex_trylock(&print_lock) != 0)
		return;
	fflush(stdout);
	n = pread(STDOUT_FILENO, buf, sizeof(buf), consumed);
	pthread_mutex_unlock(&print_lock);
	/* The broker reads it, to the end of the last line. */
	if (n > 0 && write(STDERR_FILENO, buf, (size_t)n) == n &&
	    buf[n - 1] != '\n')
		n = write(STDERR_FILENO, "\n", 1);
}
