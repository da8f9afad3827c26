/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Set of live handles: open addressing, linear probing, grown at half load.
 */
#include "server/soft/soft.h"

#include <stdlib.h>

struct entry {
	const void *object;               /* NULL: never used */
	enum soft_handle_type type;       /* NONE: deleted */
};

/* Guards everything below. */
static pthread_rwlock_t handle_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct entry *entries;
static size_t entry_count, entry_used;    /* count is a power of two */

static size_t
slot_of(const void *object, size_t count)
{
	uint64_t key = (uintptr_t)object;

	return (size_t)((key * 0x9e3779b97f4a7c15ull) >> 32) & (count - 1);
}

static struct entry *
find_locked(const void *object)
{
	if (!entry_count || !object)
		return NULL;
	for (size_t i = slot_of(object, entry_count);;
	     i = (i + 1) & (entry_count - 1)) {
		if (!entries[i].object)
			return NULL;
		if (entries[i].object == object)
			return &entries[i];
	}
}

static void
put(struct entry *table, size_t count, struct entry e)
{
	size_t i = slot_of(e.object, count);

	while (table[i].object)
		i = (i + 1) & (count - 1);
	table[i] = e;
}

static bool
grow_locked(void)
{
	size_t live = 0, count = 256;
	struct entry *table;

	for (size_t i = 0; i < entry_count; i++)
		live += entries[i].type != SOFT_HANDLE_NONE;
	while (count < live * 4)
		count *= 2;
	table = calloc(count, sizeof(*table));
	if (!table)
		return false;
	for (size_t i = 0; i < entry_count; i++)
		if (entries[i].type != SOFT_HANDLE_NONE)
			put(table, count, entries[i]);
	free(entries);
	entries = table;
	entry_count = count;
	entry_used = live;
	return true;
}

bool
soft_handle_add(const void *object, enum soft_handle_type type)
{
	struct entry *e;
	bool ok = true;

	pthread_rwlock_wrlock(&handle_lock);
	e = find_locked(object);
	if (e) {
		e->type = type;
	} else {
		if ((entry_used + 1) * 2 > entry_count)
			ok = grow_locked();
		if (ok) {
			put(entries, entry_count,
			    (struct entry){ object, type });
			entry_used++;
		}
	}
	pthread_rwlock_unlock(&handle_lock);
	return ok;
}

enum soft_handle_type
soft_handle_type(const void *object)
{
	enum soft_handle_type type;
	struct entry *e;

	pthread_rwlock_rdlock(&handle_lock);
	e = find_locked(object);
	type = e ? e->type : SOFT_HANDLE_NONE;
	pthread_rwlock_unlock(&handle_lock);
	return type;
}

bool
soft_handle_is(const void *object, enum soft_handle_type type)
{
	return soft_handle_type(object) == type;
}

void *
soft_handle_get(const void *object, enum soft_handle_type type)
{
	bool good = soft_handle_is(object, type);

	soft_follow(good || !object);
	return good ? (void *)object : NULL;
}

bool
soft_handle_del(const void *object, enum soft_handle_type type)
{
	struct entry *e;
	bool mine = false;

	pthread_rwlock_wrlock(&handle_lock);
	e = find_locked(object);
	if (e && e->type == type) {
		e->type = SOFT_HANDLE_NONE;
		mine = true;
	}
	pthread_rwlock_unlock(&handle_lock);
	return mine;
}
