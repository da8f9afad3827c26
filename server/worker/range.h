/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses a client may have the driver read and write.
 * Callers hold the client's lock.
 */
#ifndef SERVER_WORKER_RANGE_H
#define SERVER_WORKER_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "wkr_driver.h"

enum wkr_range_kind {
	WKR_CHUNK,
	WKR_HOST,
	WKR_GLOBAL,
	WKR_MAPPING, /* of a WKR_MEMORY */
	/* These two have no address and are in a list of their own. */
	WKR_MEMORY,
	WKR_ARRAY,
};

struct wkr_range {
	uint64_t base, size;
	enum wkr_range_kind kind;
	uint64_t id;			     /* the broker's */
	CUmemGenericAllocationHandle memory; /* WKR_CHUNK, WKR_MEMORY */
	/* WKR_ARRAY: struct wkr_array, while the table does not have it. */
	void *object;
	bool mipmap;
	uint64_t handle;		     /* the client's, while it has one */
	bool closed;			     /* WKR_MAPPING: no access yet */
	struct wkr_range *next;		     /* without an address */
	const void *owner;		     /* WKR_GLOBAL: the module */
	bool leaving;			     /* the broker has asked it back */
};

/* Sorted by address, without overlaps. */
struct wkr_ranges {
	struct wkr_range **items;
	uint32_t count, room;
	uint64_t changes; /* grows with each of them */
};

/* 0; -EEXIST when it overlaps another; -ENOMEM. */
int wkr_ranges_add(struct wkr_ranges *ranges, struct wkr_range *range);
/* Take one out by kind and id, or by owner; NULL when there is none. */
struct wkr_range *wkr_ranges_take(struct wkr_ranges *ranges,
				  enum wkr_range_kind kind, uint64_t id);
struct wkr_range *wkr_ranges_take_owned(struct wkr_ranges *ranges,
					const void *owner);
struct wkr_range *wkr_ranges_find(const struct wkr_ranges *ranges,
				  enum wkr_range_kind kind, uint64_t id);
/* Do ranges cover [address, address + size), next to each other or one? */
bool wkr_ranges_cover(const struct wkr_ranges *ranges, uint64_t address,
		      uint64_t size);
/* Is any of it memory that the host may write? */
bool wkr_ranges_touch_host(const struct wkr_ranges *ranges, uint64_t address,
			   uint64_t size);
void wkr_ranges_remove(struct wkr_ranges *ranges, struct wkr_range *range);

#endif
