/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that streams write. A lane that waits for a stream reads one in its
 * own memory, which costs nothing while nothing has happened; asking the
 * driver costs 0.7 us each time, and holds up others that launch.
 *
 * Nobody but this process maps them: frees and credits go by them. One
 * word a line, 64 bits, only ever growing, written behind what the
 * stream did before (tests/contract/completion_word_follows_the_data.c).
 * What a client waits for is written to a line of its own as well, which it
 * sees without our help (pending.c, proto/channel.h).
 *
 * MPSSHIM_PERF=no_word in the worker's environment: there are none; no_line:
 * none for clients.
 */
#include "server/worker/word.h"

#include <stdlib.h>
#include <string.h>

#include "server/worker/worker.h"

/* Streams with a word; those beyond are asked. */
#define WORDS 4096u
#define LINE 64u

static struct {
	pthread_mutex_t lock; /* guards what follows */
	struct wkr_word *free;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool
wkr_is_off(const char *word)
{
	const char *perf = getenv("MPSSHIM_PERF");

	for (; perf && *perf; perf += *perf == ',') {
		size_t size = strcspn(perf, ",");

		if (size == strlen(word) && !memcmp(perf, word, size))
			return true;
		perf += size;
	}
	return false;
}

static bool
driver_writes_words(void)
{
	int yes = 0;

	return wkr.drv.cuDeviceGetAttribute(
		       &yes, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
		       wkr.device) == CUDA_SUCCESS &&
	       yes;
}

/* Without memory for them there are none, and all goes on. */
void
wkr_words_start(void)
{
	struct wkr_word *words;
	CUdeviceptr device;
	void *lines;

	if (wkr_is_off("no_word") || !driver_writes_words() ||
	    wkr.drv.cuMemHostAlloc(&lines, WORDS * LINE,
				   CU_MEMHOSTALLOC_PORTABLE |
					   CU_MEMHOSTALLOC_DEVICEMAP) !=
		    CUDA_SUCCESS)
		return;
	words = calloc(WORDS, sizeof(*words));
	if (!words || wkr.drv.cuMemHostGetDevicePointer_v2(&device, lines, 0) !=
			      CUDA_SUCCESS) {
		free(words);
		return;
	}
	memset(lines, 0, WORDS * LINE);
	for (unsigned i = 0; i < WORDS; i++) {
		words[i].at = (void *)((uint8_t *)lines + i * LINE);
		words[i].device = device + i * LINE;
		wkr_word_give(&words[i]);
	}
}

bool
wkr_words_tell(void)
{
	return pool.free && !wkr_is_off("no_line");
}

struct wkr_word *
wkr_word_take(void)
{
	struct wkr_word *word;

	pthread_mutex_lock(&pool.lock);
	word = pool.free;
	if (word)
		pool.free = word->next;
	pthread_mutex_unlock(&pool.lock);
	return word;
}

void
wkr_word_give(struct wkr_word *word)
{
	if (!word)
		return;
	pthread_mutex_lock(&pool.lock);
	word->next = pool.free;
	pool.free = word;
	pthread_mutex_unlock(&pool.lock);
}
