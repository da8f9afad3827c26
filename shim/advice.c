/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice, as a sorted list of ranges that something has been said of.
 * Programs say little, and of whole blocks.
 */
#include "shim/advice.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"

struct span {
	struct span *next;
	uint64_t start, end;
	struct shim_advice advice;
};

/* Guards the list. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct span *spans;

static struct span *
span_new(uint64_t start, uint64_t end, struct span *next)
{
	struct span *span = calloc(1, sizeof(*span));

	if (span) {
		span->start = start;
		span->end = end;
		span->next = next;
	}
	return span;
}

/* Spans begin at `at` or lie on one side of it. */
static int
cut_locked(uint64_t at)
{
	struct span *span = spans, *rest;

	while (span && span->end <= at)
		span = span->next;
	if (!span || span->start >= at)
		return 0;
	rest = span_new(at, span->end, span->next);
	if (!rest)
		return err_origin(-ENOMEM);
	rest->advice = span->advice;
	span->end = at;
	span->next = rest;
	return 0;
}

/* Every byte of the range is in a span, and no span is partly outside. */
static int
cover_locked(uint64_t start, uint64_t end)
{
	struct span **link = &spans;

	if (cut_locked(start) || cut_locked(end))
		return err_origin(-ENOMEM);
	while (*link && (*link)->end <= start)
		link = &(*link)->next;
	while (start < end) {
		struct span *next = *link;
		uint64_t until = next && next->start < end ? next->start : end;

		if (start < until) {
			*link = span_new(start, until, next);
			if (!*link) {
				*link = next;
				return err_origin(-ENOMEM);
			}
			next = *link;
		}
		start = next->end;
		link = &next->next;
	}
	return 0;
}

static uint64_t
bit_of(CUmemLocation place)
{
	return UINT64_C(1) << (place.type == CU_MEM_LOCATION_TYPE_DEVICE ?
			       (unsigned int)place.id : ADVICE_HOST);
}

static void
say(struct shim_advice *advice, enum shim_advice_word word,
    CUmemLocation place)
{
	const CUmemLocation nowhere = { .type = CU_MEM_LOCATION_TYPE_INVALID };

	switch (word) {
	case ADVICE_READ_MOSTLY:
	case ADVICE_NOT_READ_MOSTLY:
		advice->read_mostly = word == ADVICE_READ_MOSTLY;
		return;
	case ADVICE_PREFERRED:
		advice->preferred = place;
		return;
	case ADVICE_NOT_PREFERRED:
		advice->preferred = nowhere;
		return;
	case ADVICE_ACCESSED:
		advice->accessed |= bit_of(place);
		return;
	case ADVICE_NOT_ACCESSED:
		advice->accessed &= ~bit_of(place);
		return;
	case ADVICE_PREFETCHED:
		advice->prefetched = place;
		return;
	}
}

int
shim_advice_say(uint64_t start, uint64_t size, enum shim_advice_word word,
		CUmemLocation place)
{
	uint64_t end = start + size;
	int r;

	pthread_mutex_lock(&lock);
	r = cover_locked(start, end);
	for (struct span *span = spans; span && !r; span = span->next)
		if (span->start >= start && span->end <= end)
			say(&span->advice, word, place);
	pthread_mutex_unlock(&lock);
	return r;
}

static void
both(struct shim_advice *sum, const struct shim_advice *other)
{
	const CUmemLocation nowhere = { .type = CU_MEM_LOCATION_TYPE_INVALID };

	sum->read_mostly &= other->read_mostly;
	sum->accessed &= other->accessed;
	if (memcmp(&sum->preferred, &other->preferred, sizeof(nowhere)))
		sum->preferred = nowhere;
	if (memcmp(&sum->prefetched, &other->prefetched, sizeof(nowhere)))
		sum->prefetched = nowhere;
}

struct shim_advice
shim_advice_of(uint64_t start, uint64_t size)
{
	struct shim_advice sum = {0};
	uint64_t end = start + size, at = start;
	bool first = true;

	pthread_mutex_lock(&lock);
	for (struct span *span = spans; span; span = span->next) {
		if (span->end <= at || span->start > at || at >= end)
			continue;
		if (first)
			sum = span->advice;
		else
			both(&sum, &span->advice);
		first = false;
		at = span->end;
	}
	pthread_mutex_unlock(&lock);
	/* Of some of it, nothing. */
	if (at < end)
		memset(&sum, 0, sizeof(sum));
	return sum;
}

void
shim_advice_forget(uint64_t start, uint64_t size)
{
	struct span **link = &spans, *span;
	uint64_t end = start + size;

	pthread_mutex_lock(&lock);
	while ((span = *link)) {
		if (span->start >= start && span->end <= end) {
			*link = span->next;
			free(span);
		} else {
			link = &span->next;
		}
	}
	pthread_mutex_unlock(&lock);
}
