/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The range table: every address that a kernel or a copy may touch, sorted.
 *
 * A mapping is taken away in this order: out of the table, new generation,
 * wait for slices that may still use it, unmap. So a grid that runs on
 * finds nothing there and faults, as on a GPU; this process does not.
 */
#include "server/soft/soft_mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

_Atomic uint64_t soft_mem_generation = 1;

/* Guards the table. Innermost: nothing is called under it. */
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct soft_range **table;
static size_t count, room;

/* Index of the first range that ends behind addr. */
static size_t
lower_locked(uint64_t addr)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table[middle]->end > addr)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct soft_range *
find_locked(uint64_t addr)
{
	size_t i = lower_locked(addr);

	return i < count && table[i]->base <= addr ? table[i] : NULL;
}

bool
soft_range_add(struct soft_range *range)
{
	bool ok = false;
	size_t i;

	pthread_rwlock_wrlock(&table_lock);
	if (count == room) {
		size_t more = room ? room * 2 : 64;
		struct soft_range **grown;

		grown = realloc(table, more * sizeof(*table));
		if (!grown)
			goto out_unlock;
		table = grown;
		room = more;
	}
	i = lower_locked(range->base);
	if (i < count && table[i]->base < range->end)
		goto out_unlock;
	memmove(table + i + 1, table + i, (count - i) * sizeof(*table));
	table[i] = range;
	count++;
	atomic_fetch_add(&soft_mem_generation, 1);
	ok = true;
out_unlock:
	pthread_rwlock_unlock(&table_lock);
	return ok;
}

bool
soft_range_find(uint64_t addr, struct soft_range *out_range)
{
	struct soft_range *range;

	pthread_rwlock_rdlock(&table_lock);
	range = find_locked(addr);
	if (range)
		*out_range = *range;
	pthread_rwlock_unlock(&table_lock);
	return range;
}

bool
soft_range_overlaps(uint64_t base, uint64_t end)
{
	bool hit;
	size_t i;

	pthread_rwlock_rdlock(&table_lock);
	i = lower_locked(base);
	hit = i < count && table[i]->base < end;
	pthread_rwlock_unlock(&table_lock);
	return hit;
}

struct soft_range *
soft_range_take(uint64_t base, enum soft_range_kind kind)
{
	struct soft_range *range;

	pthread_rwlock_wrlock(&table_lock);
	range = find_locked(base);
	if (range && (range->base != base || range->kind != kind))
		range = NULL;
	if (range) {
		size_t i = lower_locked(base);

		count--;
		memmove(table + i, table + i + 1, (count - i) * sizeof(*table));
		atomic_fetch_add(&soft_mem_generation, 1);
	}
	pthread_rwlock_unlock(&table_lock);
	if (range)
		soft_pool_quiesce();
	return range;
}

void
soft_range_free(struct soft_range *range)
{
	if (!range)
		return;
	if (range->map)
		munmap(range->map, range->map_size);
	if (range->charged)
		soft_mem_uncharge(range->device, range->charged);
	free(range);
}

bool
soft_mem_check(uint64_t addr, size_t size, bool write)
{
	uint64_t end = addr + size;
	bool ok = end >= addr;

	pthread_rwlock_rdlock(&table_lock);
	while (ok && addr < end) {
		const struct soft_range *range = find_locked(addr);

		ok = range && (range->writable || !write);
		if (ok)
			addr = range->end;
	}
	pthread_rwlock_unlock(&table_lock);
	return ok;
}

bool
soft_mem_lookup(void *ctx, uint64_t addr, uint64_t *out_base,
		uint64_t *out_end, bool *out_writable)
{
	const struct soft_range *range;

	(void)ctx;
	pthread_rwlock_rdlock(&table_lock);
	range = find_locked(addr);
	if (range) {
		*out_base = range->base;
		*out_end = range->end;
		*out_writable = range->writable;
	}
	pthread_rwlock_unlock(&table_lock);
	return range;
}

void
soft_range_each(bool (*use)(struct soft_range *range, void *arg), void *arg)
{
	pthread_rwlock_wrlock(&table_lock);
	for (size_t i = 0; i < count; i++)
		if (!use(table[i], arg))
			break;
	pthread_rwlock_unlock(&table_lock);
}

struct victim {
	struct soft_ctx *ctx;
	uint64_t base;
	enum soft_range_kind kind;
	bool found;
};

static bool
is_victim(struct soft_range *range, void *arg)
{
	struct victim *victim = arg;

	if (range->ctx != victim->ctx)
		return true;
	victim->base = range->base;
	victim->kind = range->kind;
	victim->found = true;
	return false;
}

void
soft_mem_destroy(struct soft_ctx *ctx)
{
	for (;;) {
		struct victim victim = { .ctx = ctx };
		struct soft_range *range;

		soft_range_each(is_victim, &victim);
		if (!victim.found)
			return;
		range = soft_range_take(victim.base, victim.kind);
		if (range && range->pool)
			soft_mempool_range_gone(range);
		soft_range_free(range);
	}
}
