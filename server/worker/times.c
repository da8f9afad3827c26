/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over intervals in which clients had a kernel running. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/worker/overlap.h"

/* Room for one more item of that size. */
static int
grow(void **items, size_t count, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : 64;
	void *grown;

	if (count < *room)
		return 0;
	grown = realloc(*items, more * size);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	*room = more;
	return 0;
}

int
wkr_times_add(struct wkr_times *times, uint64_t client, uint64_t begin,
	      uint64_t end)
{
	if (begin >= end)
		return 0;
	if (grow((void **)&times->items, times->count, &times->room,
		 sizeof(*times->items)) < 0)
		return -ENOMEM;
	times->items[times->count++] =
		(struct wkr_interval){client, begin, end};
	return 0;
}

uint64_t
wkr_times_end(const struct wkr_times *times)
{
	uint64_t end = 0;

	for (size_t i = 0; i < times->count; i++)
		if (times->items[i].end > end)
			end = times->items[i].end;
	return end;
}

static int
by_client(const void *left, const void *right)
{
	const struct wkr_interval *a = left, *b = right;

	if (a->client != b->client)
		return a->client < b->client ? -1 : 1;
	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Each client's intervals become disjoint: its kernels beside its own count
 * once. */
static void
merge(struct wkr_times *times)
{
	struct wkr_interval *out = times->items;

	qsort(times->items, times->count, sizeof(*times->items), by_client);
	for (size_t i = 1; i < times->count; i++) {
		const struct wkr_interval *next = &times->items[i];

		if (next->client != out->client || next->begin > out->end)
			*++out = *next;
		else if (next->end > out->end)
			out->end = next->end;
	}
	times->count = (size_t)(out - times->items) + 1;
}

static int
book_busy(struct wkr_times *times, const struct wkr_interval *interval)
{
	uint64_t ns = interval->end - interval->begin;

	for (size_t i = 0; i < times->nbusy; i++)
		if (times->busy[i].client == interval->client) {
			times->busy[i].ns += ns;
			return 0;
		}
	if (grow((void **)&times->busy, times->nbusy, &times->busy_room,
		 sizeof(*times->busy)) < 0)
		return -ENOMEM;
	times->busy[times->nbusy++] = (struct wkr_busy){interval->client, ns};
	return 0;
}

struct edge {
	uint64_t at;
	int step; /* 1: a client's interval begins, -1: ends */
};

static int
by_time(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	/* One that ends as another begins is not beside it. */
	return a->step - b->step;
}

static void
sweep(struct wkr_times *times, struct edge *edges)
{
	size_t n = 2 * times->count;
	int running = 0;

	qsort(edges, n, sizeof(*edges), by_time);
	for (size_t i = 0; i < n; i++) {
		uint64_t passed = i ? edges[i].at - edges[i - 1].at : 0;

		if (running >= 1)
			times->any_ns += passed;
		if (running >= 2)
			times->both_ns += passed;
		running += edges[i].step;
	}
}

int
wkr_times_fold(struct wkr_times *times)
{
	_cleanup_free_ struct edge *edges = NULL;
	int r = 0;

	if (!times->count)
		return 0;
	merge(times);
	edges = calloc(2 * times->count, sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	for (size_t i = 0; i < times->count && r == 0; i++) {
		edges[2 * i] = (struct edge){times->items[i].begin, 1};
		edges[2 * i + 1] = (struct edge){times->items[i].end, -1};
		r = book_busy(times, &times->items[i]);
	}
	sweep(times, edges);
	times->count = 0;
	return r;
}

void
wkr_times_forget(struct wkr_times *times, uint64_t client)
{
	for (size_t i = 0; i < times->nbusy; i++)
		if (times->busy[i].client == client) {
			times->busy[i] = times->busy[--times->nbusy];
			return;
		}
}
