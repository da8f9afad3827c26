/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting without harm to the host: bounded spins, short sleeps, an end.
 * Used by everything in shim/ that waits for the worker.
 */
#ifndef SHIM_RELAX_H
#define SHIM_RELAX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"

struct shim_chan;

/* One wait's state; zero-initialise. */
struct shim_relax {
	uint32_t turn;
	uint64_t check_ns;          /* next look at who is alive */
	uint64_t begin_ns;
};
/* Burn or sleep a little, longer with each turn. Not CUDA_SUCCESS: what is
 * waited for will not come. */
CUresult shim_relax(struct shim_chan *chan, struct shim_relax *relax);
/* Is everybody there whom a wait on this channel needs? Makes the error
 * sticky if not. */
CUresult shim_chan_health(struct shim_chan *chan);

uint64_t shim_now_ns(void);
/* Sleep. No cancellation point. */
void shim_nap(uint64_t ns);
/* Spin while *word is `value`, up to the process's budget. True: changed. */
bool shim_spin(_Atomic uint32_t *word, uint32_t value);
/* The same, or until the other word is `come`. */
bool shim_spin_either(_Atomic uint32_t *word, uint32_t value,
		      _Atomic uint64_t *other, uint64_t come);
/* futex, at most 100 ms; `shared`: another process wakes it. No cancellation
 * point. */
void shim_futex_wait(_Atomic uint32_t *word, uint32_t value, bool shared);
void shim_futex_wake(_Atomic uint32_t *word, int count, bool shared);

#endif
