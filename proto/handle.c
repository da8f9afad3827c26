/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handle tables. Slots are published once and reused by generation; blocks
 * of them never move, so a reader needs no lock.
 */
#include "proto/handle.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "proto/err.h"

int
handle_table_create(struct handle_table **out_table)
{
	struct handle_table *table = calloc(1, sizeof(*table));

	if (!table)
		return err_origin(-ENOMEM);
	table->high = 1;   /* index 0 stays unused */
	*out_table = table;
	return 0;
}

struct handle_table *
handle_table_destroy(struct handle_table *table)
{
	if (table) {
		for (uint32_t i = 0; i < HANDLE_BLOCKS; i++)
			free(atomic_load_explicit(&table->blocks[i],
						  memory_order_relaxed));
		free(table);
	}
	return NULL;
}

static struct handle_slot *
make_slot(struct handle_table *table, uint32_t index)
{
	struct handle_slot *slot = handle_slot(table, index), *block;

	if (slot)
		return slot;
	block = calloc(HANDLE_BLOCK_SLOTS, sizeof(*block));
	if (!block)
		return NULL;
	atomic_store_explicit(&table->blocks[index >> HANDLE_BLOCK_BITS], block,
			      memory_order_release);
	return &block[index & (HANDLE_BLOCK_SLOTS - 1)];
}

static void
publish(struct handle_table *table, struct handle_slot *slot, uint64_t handle,
	void *object)
{
	/* Release: who sees this object sees that the handle before has gone
	 * (handle_get). */
	atomic_store_explicit(&slot->object, object, memory_order_release);
	/* Release: who sees the handle sees the object (handle_get). */
	atomic_store_explicit(&slot->handle, handle, memory_order_release);
	table->counts[handle_kind(handle)]++;
}

int
handle_add(struct handle_table *table, enum handle_kind kind, void *object,
	   uint64_t *out_handle)
{
	uint32_t index = table->free;
	struct handle_slot *slot;

	if (index) {
		slot = handle_slot(table, --index);
		table->free = slot->next_free;
	} else {
		index = table->high;
		if (index > HANDLE_INDEX_MAX)
			return err_origin(-ENFILE);
		slot = make_slot(table, index);
		if (!slot)
			return err_origin(-ENOMEM);
		table->high++;
	}
	slot->generation++;
	*out_handle = handle_make(kind, index, slot->generation);
	publish(table, slot, *out_handle, object);
	return 0;
}

int
handle_put(struct handle_table *table, enum handle_kind kind, uint64_t handle,
	   void *object)
{
	uint32_t index = handle_index(handle);
	struct handle_slot *slot;

	if (handle_kind(handle) != kind || kind == HANDLE_NONE || !index)
		return -EINVAL;
	slot = make_slot(table, index);
	if (!slot)
		return err_origin(-ENOMEM);
	if (atomic_load_explicit(&slot->handle, memory_order_relaxed))
		return -EEXIST;
	if (index >= table->high)
		table->high = index + 1;
	publish(table, slot, handle, object);
	return 0;
}

void *
handle_remove(struct handle_table *table, enum handle_kind kind,
	      uint64_t handle)
{
	void *object = handle_get(table, kind, handle);
	uint32_t index = handle_index(handle);
	struct handle_slot *slot;

	if (!object)
		return NULL;
	slot = handle_slot(table, index);
	atomic_store_explicit(&slot->handle, 0, memory_order_release);
	atomic_store_explicit(&slot->object, NULL, memory_order_release);
	slot->next_free = table->free;
	table->free = index + 1;
	table->counts[kind]--;
	return object;
}

void *
handle_next(const struct handle_table *table, uint32_t *cursor,
	    uint64_t *out_handle)
{
	for (uint32_t i = *cursor; i < table->high; i++) {
		struct handle_slot *slot = handle_slot(table, i);
		uint64_t handle;

		if (!slot) {
			i |= HANDLE_BLOCK_SLOTS - 1;
			continue;
		}
		handle = atomic_load_explicit(&slot->handle,
					      memory_order_acquire);
		if (handle) {
			*cursor = i + 1;
			if (out_handle)
				*out_handle = handle;
			return atomic_load_explicit(&slot->object,
						    memory_order_relaxed);
		}
	}
	*cursor = table->high;
	return NULL;
}

uint32_t
handle_count(const struct handle_table *table, enum handle_kind kind)
{
	return table->counts[kind];
}
