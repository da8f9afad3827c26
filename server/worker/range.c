/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses, sorted; few additions, many look-ups. */
#include "server/worker/range.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first range that ends after address. */
static uint32_t
position(const struct wkr_ranges *ranges, uint64_t address)
{
	uint32_t low = 0, high = ranges->count;

	while (low < high) {
		uint32_t mid = (low + high) / 2;
		const struct wkr_range *r = ranges->items[mid];

		if (r->base + r->size <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int
wkr_ranges_add(struct wkr_ranges *ranges, struct wkr_range *range)
{
	uint32_t at = position(ranges, range->base);

	if (at < ranges->count &&
	    ranges->items[at]->base < range->base + range->size)
		return -EEXIST;
	if (ranges->count == ranges->room) {
		uint32_t room = ranges->room ? 2 * ranges->room : 16;
		void *items =
			realloc(ranges->items, room * sizeof(*ranges->items));

		if (!items)
			return -ENOMEM;
		ranges->items = items;
		ranges->room = room;
	}
	memmove(ranges->items + at + 1, ranges->items + at,
		(ranges->count - at) * sizeof(*ranges->items));
	ranges->items[at] = range;
	ranges->count++;
	ranges->changes++;
	return 0;
}

static struct wkr_range *
take_at(struct wkr_ranges *ranges, uint32_t at)
{
	struct wkr_range *range = ranges->items[at];

	ranges->count--;
	ranges->changes++;
	memmove(ranges->items + at, ranges->items + at + 1,
		(ranges->count - at) * sizeof(*ranges->items));
	return range;
}

struct wkr_range *
wkr_ranges_find(const struct wkr_ranges *ranges, enum wkr_range_kind kind,
		uint64_t id)
{
	for (uint32_t i = 0; i < ranges->count; i++)
		if (ranges->items[i]->kind == kind &&
		    ranges->items[i]->id == id)
			return ranges->items[i];
	return NULL;
}

void
wkr_ranges_remove(struct wkr_ranges *ranges, struct wkr_range *range)
{
	for (uint32_t i = 0; i < ranges->count; i++) {
		if (ranges->items[i] == range) {
			take_at(ranges, i);
			return;
		}
	}
}

struct wkr_range *
wkr_ranges_take(struct wkr_ranges *ranges, enum wkr_range_kind kind,
		uint64_t id)
{
	struct wkr_range *range = wkr_ranges_find(ranges, kind, id);

	if (range)
		wkr_ranges_remove(ranges, range);
	return range;
}

struct wkr_range *
wkr_ranges_take_owned(struct wkr_ranges *ranges, const void *owner)
{
	for (uint32_t i = 0; i < ranges->count; i++)
		if (ranges->items[i]->kind == WKR_GLOBAL &&
		    ranges->items[i]->owner == owner)
			return take_at(ranges, i);
	return NULL;
}

bool
wkr_ranges_cover(const struct wkr_ranges *ranges, uint64_t address,
		 uint64_t size)
{
	uint64_t end;

	if (__builtin_add_overflow(address, size, &end))
		return false;
	for (uint32_t i = position(ranges, address); address < end; i++) {
		const struct wkr_range *r;

		if (i == ranges->count)
			return false;
		r = ranges->items[i];
		if (r->base > address || r->closed)
			return false;
		address = r->base + r->size;
	}
	return true;
}

bool
wkr_ranges_touch_host(const struct wkr_ranges *ranges, uint64_t address,
		      uint64_t size)
{
	for (uint32_t i = position(ranges, address); i < ranges->count; i++) {
		const struct wkr_range *r = ranges->items[i];

		if (r->base >= address && r->base - address >= size)
			return false;
		if (r->kind == WKR_HOST)
			return true;
	}
	return false;
}
