/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device printf: one FIFO for the process, as in the real driver. Text of
 * all clients goes through it; it is written to stdout at launches and at
 * synchronising calls, by whoever makes them. When it is full the oldest
 * text is lost.
 */
#include "server/soft/soft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Guards the FIFO. Never held while writing to stdout. */
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;
/* Keeps two flushes from swapping their texts; taken before print_lock. */
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;
static char *fifo;
static size_t fifo_used, fifo_room;
/* CU_LIMIT_PRINTF_FIFO_SIZE of a fresh context on an H200. */
static size_t fifo_limit = 8650752;

static void
drop_oldest_locked(size_t need)
{
	const char *cut;
	size_t drop;

	if (fifo_used + need <= fifo_limit)
		return;
	drop = fifo_used + need - fifo_limit;
	if (drop > fifo_used)
		drop = fifo_used;
	cut = memchr(fifo + drop, '\n', fifo_used - drop);
	if (cut)
		drop = (size_t)(cut + 1 - fifo);
	memmove(fifo, fifo + drop, fifo_used - drop);
	fifo_used -= drop;
}

void
soft_print(void *ctx, const char *text, size_t size)
{
	(void)ctx;
	pthread_mutex_lock(&print_lock);
	if (size > fifo_limit)
		size = fifo_limit;
	drop_oldest_locked(size);
	if (fifo_used + size > fifo_room) {
		size_t room = fifo_room ? fifo_room * 2 : 4096;
		char *grown;

		while (room < fifo_used + size)
			room *= 2;
		grown = realloc(fifo, room);
		if (!grown) {
			pthread_mutex_unlock(&print_lock);
			return;
		}
		fifo = grown;
		fifo_room = room;
	}
	memcpy(fifo + fifo_used, text, size);
	fifo_used += size;
	pthread_mutex_unlock(&print_lock);
}

void
soft_print_error(void *ctx, const char *text, size_t size)
{
	(void)ctx;
	fwrite(text, 1, size, stderr);
}

void
soft_print_flush(void)
{
	char *text;
	size_t size;

	pthread_mutex_lock(&print_lock);
	size = fifo_used;
	pthread_mutex_unlock(&print_lock);
	if (!size)
		return;
	pthread_mutex_lock(&flush_lock);
	pthread_mutex_lock(&print_lock);
	text = fifo;
	size = fifo_used;
	fifo = NULL;
	fifo_used = fifo_room = 0;
	pthread_mutex_unlock(&print_lock);
	if (size) {
		fwrite(text, 1, size, stdout);
		fflush(stdout);
	}
	free(text);
	pthread_mutex_unlock(&flush_lock);
}

void
soft_print_resize(size_t size)
{
	pthread_mutex_lock(&print_lock);
	/* The driver rounds small requests up; 4 KiB is what it leaves. */
	fifo_limit = size < 4096 ? 4096 : size;
	drop_oldest_locked(0);
	pthread_mutex_unlock(&print_lock);
}
