/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory words by which the GPU tells how far a stream is.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_WORD_H
#define SERVER_WORKER_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wkr_driver.h"

/* Taken for a stream's life, given back when the stream has no work. Values
 * go on growing from one owner to the next. */
struct wkr_word {
	_Atomic uint64_t *at; /* written by the GPU */
	CUdeviceptr device;   /* the same for the driver */
	uint64_t last;	      /* that a stream was told to write */
	uint64_t seen;
	struct wkr_word *next;
};

/* Relaxed: whoever acts on it reads the word itself. */
static inline bool
wkr_word_has_come(const struct wkr_word *word)
{
	return word && word->seen != word->last &&
	       atomic_load_explicit(word->at, memory_order_relaxed) !=
		       word->seen;
}

void wkr_words_start(void);
/* Is the GPU to write words for clients to see, too? */
bool wkr_words_tell(void);
/* NULL: there is none, ask the driver. */
struct wkr_word *wkr_word_take(void);
void wkr_word_give(struct wkr_word *word);

#endif
