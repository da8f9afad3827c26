/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interval map: glibc's red-black tree (tsearch) with a comparison in
 * which overlapping intervals are equal. As stored ranges never overlap, that
 * is an order, and looking up [address, address + 1) finds what holds it.
 * A list through all ranges serves the walks that tsearch cannot be asked for.
 */
#include "shim/range.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

#include "proto/err.h"

struct node {
	struct shim_range range;    /* first: a key is only this */
	struct node *prev, *next;
};

/* Guards all below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *root;
static struct node *first;
static uint64_t last_id;

static int
compare(const void *a, const void *b)
{
	const struct shim_range *x = a, *y = b;

	if (x->start + x->size <= y->start)
		return -1;
	return y->start + y->size <= x->start ? 1 : 0;
}

static struct node *
find_locked(uint64_t address)
{
	struct shim_range key = { .start = address, .size = 1 };
	void *found;

	/* The last byte of the space has no end to compare with. */
	if (address == UINT64_MAX)
		return NULL;
	found = tfind(&key, &root, compare);
	return found ? *(struct node **)found : NULL;
}

static void
unlink_locked(struct node *node)
{
	tdelete(node, &root, compare);
	if (node->prev)
		node->prev->next = node->next;
	else
		first = node->next;
	if (node->next)
		node->next->prev = node->prev;
}

int
shim_range_add(const struct shim_range *range)
{
	struct node *node, **at;
	int r = 0;

	if (!range->size || range->start + range->size < range->start)
		return RANGE_E_OVERLAP;
	node = malloc(sizeof(*node));
	if (!node)
		return err_origin(-ENOMEM);
	node->range = *range;
	pthread_mutex_lock(&lock);
	at = tsearch(node, &root, compare);
	if (!at) {
		r = -ENOMEM;
	} else if (*at != node) {
		r = RANGE_E_OVERLAP;
	} else {
		node->range.buffer_id = ++last_id;
		node->prev = NULL;
		node->next = first;
		if (first)
			first->prev = node;
		first = node;
		node = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(node);
	return r;
}

int
shim_range_find(uint64_t address, struct shim_range *out_range)
{
	struct node *node;

	pthread_mutex_lock(&lock);
	node = find_locked(address);
	if (node)
		*out_range = node->range;
	pthread_mutex_unlock(&lock);
	return node ? 0 : RANGE_E_NONE;
}

int
shim_range_reach(uint64_t address, uint64_t size, struct shim_range *out_range,
		 uint64_t *out_left)
{
	struct node *node, *next;
	uint64_t left = 0;

	pthread_mutex_lock(&lock);
	node = find_locked(address);
	if (node) {
		*out_range = node->range;
		left = node->range.size - (address - node->range.start);
	}
	while (node && node->range.kind == RANGE_MAPPED && left < size) {
		next = find_locked(address + left);
		if (!next || next->range.kind != RANGE_MAPPED ||
		    next->range.closed ||
		    next->range.device != node->range.device)
			break;
		left += next->range.size;
	}
	pthread_mutex_unlock(&lock);
	*out_left = left;
	return node ? 0 : RANGE_E_NONE;
}

int
shim_range_open(uint64_t start)
{
	struct node *node;

	pthread_mutex_lock(&lock);
	node = find_locked(start);
	if (node)
		node->range.closed = false;
	pthread_mutex_unlock(&lock);
	return node ? 0 : RANGE_E_NONE;
}

/* Ends the lock. */
static int
take_and_unlock(struct node *node, struct shim_range *out_range)
{
	int r = RANGE_E_NONE;

	if (node) {
		unlink_locked(node);
		*out_range = node->range;
		r = 0;
	}
	pthread_mutex_unlock(&lock);
	free(node);
	return r;
}

int
shim_range_remove(uint64_t start, enum range_kind kind,
		  struct shim_range *out_range)
{
	struct node *node;

	pthread_mutex_lock(&lock);
	node = find_locked(start);
	if (node && (node->range.start != start || node->range.kind != kind))
		node = NULL;
	return take_and_unlock(node, out_range);
}

int
shim_range_remove_any(struct shim_context *ctx, enum range_kind kind,
		      uint64_t owner, struct shim_range *out_range)
{
	struct node *node;

	pthread_mutex_lock(&lock);
	for (node = first; node; node = node->next)
		if (node->range.ctx == ctx && node->range.kind == kind &&
		    (!owner || node->range.owner == owner))
			break;
	return take_and_unlock(node, out_range);
}

int
shim_range_set_sync_memops(uint64_t address, bool on)
{
	struct node *node;

	pthread_mutex_lock(&lock);
	node = find_locked(address);
	if (node)
		node->range.sync_memops = on;
	pthread_mutex_unlock(&lock);
	return node ? 0 : RANGE_E_NONE;
}

int
shim_range_set_alias(uint64_t start, uint64_t alias, void *block)
{
	struct node *node;

	pthread_mutex_lock(&lock);
	node = find_locked(start);
	if (node && (node->range.start != start ||
		     node->range.kind != RANGE_REGISTERED))
		node = NULL;
	if (node) {
		node->range.other = alias;
		node->range.block = block;
	}
	pthread_mutex_unlock(&lock);
	return node ? 0 : RANGE_E_NONE;
}
