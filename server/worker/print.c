/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device printf. The context has one FIFO for all clients and whoever
 * synchronises next makes the driver write it to this process's stdout. So
 * one client at a time may have printing kernels in flight, and descriptor 1
 * is a file of ours that is read whenever such a client is answered, or
 * another wants to print (R7).
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

/* Guards what follows. Taken before a client's lock. */
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wkr_client *holder;
static off_t consumed; /* bytes of the file that were read */

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

/* What the driver has written since goes to the holder; its place in the
 * file is given back without moving anybody's end-of-file. */
static void
read_locked(void)
{
	char buf[4096];
	off_t from = consumed;
	ssize_t n;

	while ((n = pread(STDOUT_FILENO, buf, sizeof(buf), consumed)) > 0) {
		if (holder)
			append_text(holder, buf, (size_t)n);
		consumed += n;
	}
	if (consumed > from)
		fallocate(STDOUT_FILENO,
			  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
			  consumed - from);
}

/* Synchronising a stream that has no work makes the driver write out the
 * FIFO and waits for nothing. */
static void
flush_locked(struct wkr_lane *lane)
{
	wkr_ok(wkr.drv.cuStreamSynchronize(lane->flush));
	fflush(stdout);
	read_locked();
}

bool
wkr_print_acquire(struct wkr_client *client, uint64_t seq)
{
	bool got = true;

	pthread_mutex_lock(&print_lock);
	if (holder && holder != client) {
		got = atomic_load(&holder->retired) >=
		      atomic_load(&holder->print_seq);
		if (got)
			flush_locked(client->lane);
	}
	if (got) {
		holder = client;
		/* Before the launch: another lane must not take the right
		 * away between the two. */
		if (seq > atomic_load(&client->print_seq))
			atomic_store(&client->print_seq, seq);
	}
	pthread_mutex_unlock(&print_lock);
	return got;
}

void
wkr_print_collect(struct wkr_client *client)
{
	pthread_mutex_lock(&print_lock);
	if (holder == client)
		flush_locked(client->lane);
	pthread_mutex_unlock(&print_lock);
}

void
wkr_print_release(struct wkr_client *client)
{
	pthread_mutex_lock(&print_lock);
	if (holder == client) {
		flush_locked(client->lane);
		holder = NULL;
	}
	pthread_mutex_unlock(&print_lock);
}

void
wkr_print_last(void)
{
	char buf[2048], *line, *rest = buf;
	ssize_t n;

	/* Whoever holds the lock may be waiting in the driver for ever. */
	if (pthread_mutex_trylock(&print_lock) != 0)
		return;
	fflush(stdout);
	n = pread(STDOUT_FILENO, buf, sizeof(buf) - 1, consumed);
	pthread_mutex_unlock(&print_lock);
	if (n <= 0)
		return;
	buf[n] = 0;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (*line)
			log_line(LOG_ERROR, "device: %s", line);
}
