/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Natively the driver takes the addresses of device memory from the process,
 * so that an address is the host's or the device's. What the worker's driver
 * chooses is free in the worker and may be anything here: a library, a stack,
 * a heap. Pages are taken once and for good: the driver chooses the same
 * addresses again and again, and a page without access costs nothing.
 */
#include "shim/claim.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "proto/err.h"
#include "shim/va.h"

#define PAGE UINT64_C(4096)

/* Taken; sorted by address, never overlapping. */
struct claim {
	struct claim *next;
	uint64_t start, end;
};

/* Guards all claims. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct claim *first;

/* Take [start, end), which no claim holds; at: where it belongs. */
static int
take_locked(struct claim **at, uint64_t start, uint64_t end)
{
	_cleanup_free_ struct claim *claim = malloc(sizeof(*claim));
	int r;

	if (!claim)
		return err_origin(-ENOMEM);
	r = shim_va_reserve(start, end - start);
	if (r == -EEXIST)
		return CLAIM_E_TAKEN;
	/* A sanitizer that lets no memory be there at all. */
	if (r && r != -EINVAL)
		return err_origin(-ENOMEM);
	*claim = (struct claim){ *at, start, end };
	*at = steal_ptr(&claim);
	return 0;
}

int
shim_claim(uint64_t address, uint64_t size)
{
	uint64_t start = address / PAGE * PAGE, end;
	struct claim **at = &first;
	int r = 0, state;

	if (__builtin_add_overflow(address, size + PAGE - 1, &end))
		return CLAIM_E_TAKEN;
	end = end / PAGE * PAGE;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&lock);
	while (start < end && !r) {
		const struct claim *next;
		uint64_t stop;

		while (*at && (*at)->end <= start)
			at = &(*at)->next;
		next = *at;
		if (next && next->start <= start) {
			start = next->end;
			continue;
		}
		stop = next && next->start < end ? next->start : end;
		r = take_locked(at, start, stop);
	}
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(state, NULL);
	return r;
}
