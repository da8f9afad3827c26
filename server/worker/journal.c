/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's file. Bytes first, then the span that makes them count, in
 * one store: begin and end in units of 8 bytes, 32 bits each. When most of
 * it is dropped records, the live ones are copied to where nothing counts
 * and the span moves there, likewise in one store.
 */
#include "server/worker/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "server/worker/journal_own.h"

#define UNIT 8u
#define HEAD 64u
#define STEP (UINT64_C(256) << 10)
/* Nobody's objects come near, and a client may not fill the memory. */
#define SIZE_MAX_ (UINT64_C(256) << 20)

struct journal_head {
	_Atomic uint64_t span;
	_Atomic uint64_t full;
};

static struct journal_head *
head_of(const struct wkr_journal *journal)
{
	return (struct journal_head *)journal->map;
}

static void
store_span(struct wkr_journal *journal)
{
	/* Release: for whoever maps the file once this process is gone, the
	 * records are there if the span says so. */
	atomic_store_explicit(&head_of(journal)->span,
			      (journal->begin / UNIT) << 32 |
				      journal->end / UNIT,
			      memory_order_release);
}

static int
map_up_to(struct wkr_journal *journal, uint64_t size)
{
	void *map;

	if (size <= journal->mapped)
		return 0;
	size = (size + STEP - 1) / STEP * STEP;
	if (size > SIZE_MAX_)
		return -EFBIG;
	if (ftruncate(journal->fd, (off_t)size) < 0)
		return -errno;
	map = journal->map ?
		      mremap(journal->map, journal->mapped, size,
			     MREMAP_MAYMOVE) :
		      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			   journal->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	journal->map = map;
	journal->mapped = size;
	return 0;
}

/* ---- entries ---- */

struct wkr_entries *
wkr_journal_bucket(struct wkr_journal *journal, uint64_t handle, uint32_t node)
{
	uint64_t hash = (handle + ((uint64_t)node << 32)) *
			UINT64_C(0x9e3779b97f4a7c15);

	return &journal->buckets[hash >> 54];
}

static int
entry_add(struct wkr_journal *journal, const struct wkr_line *record,
	  uint64_t at)
{
	struct wkr_entry *entry = malloc(sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	*entry = (struct wkr_entry){
		.id = record->id,
		.handle = record->handle,
		.at = at,
		.size = record->size,
		.fn = record->fn,
		.node = record->node,
		.kind = record->kind,
	};
	TAILQ_INSERT_TAIL(&journal->entries, entry, link);
	TAILQ_INSERT_TAIL(wkr_journal_bucket(journal, record->handle,
					     record->node),
			  entry, bucket);
	journal->live += record->size;
	if (record->id >= journal->next_id)
		journal->next_id = record->id + 1;
	return 0;
}

static void
entry_free(struct wkr_journal *journal, struct wkr_entry *entry)
{
	TAILQ_REMOVE(&journal->entries, entry, link);
	TAILQ_REMOVE(wkr_journal_bucket(journal, entry->handle, entry->node),
		     entry, bucket);
	journal->live -= entry->size;
	free(entry);
}

/* ---- writing ---- */

/* Live entries to where nothing counts. */
static int
compact_locked(struct wkr_journal *journal)
{
	uint64_t to = journal->begin >= HEAD + journal->live ? HEAD :
							       journal->end;
	uint64_t at = to;
	struct wkr_entry *entry;
	int r = map_up_to(journal, to + journal->live);

	if (r < 0)
		return r;
	TAILQ_FOREACH(entry, &journal->entries, link) {
		memcpy(journal->map + at, journal->map + entry->at,
		       entry->size);
		entry->at = at;
		at += entry->size;
	}
	journal->begin = to;
	journal->end = at;
	store_span(journal);
	/* The old place's memory. */
	if (to == HEAD)
		fallocate(journal->fd,
			  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)((at + 4095) & ~UINT64_C(4095)),
			  (off_t)(journal->mapped - at));
	return 0;
}

static void
maybe_compact_locked(struct wkr_journal *journal)
{
	uint64_t all = journal->end - journal->begin;

	if (all - journal->live > STEP && all > 2 * journal->live)
		compact_locked(journal);
}

static int
append_locked(struct wkr_journal *journal, struct wkr_line *record,
	      const void *bytes, size_t size)
{
	size_t whole = sizeof(*record) + size;
	int r;

	record->pad = (uint16_t)(-whole & (UNIT - 1));
	record->size = (uint32_t)(whole + record->pad);
	if (size > SIZE_MAX_)
		return -EFBIG;
	r = map_up_to(journal, journal->end + record->size);
	if (r < 0)
		return r;
	memcpy(journal->map + journal->end, record, sizeof(*record));
	if (size)
		memcpy(journal->map + journal->end + sizeof(*record), bytes,
		       size);
	if (record->kind != WKR_LINE_DROP) {
		r = entry_add(journal, record, journal->end);
		if (r < 0)
			return r;
	}
	journal->end += record->size;
	store_span(journal);
	return 0;
}

void
wkr_journal_add_locked(struct wkr_journal *journal, struct wkr_line *record,
		       const void *bytes, size_t size)
{
	record->id = journal->next_id++;
	if (append_locked(journal, record, bytes, size) < 0)
		atomic_store(&head_of(journal)->full, 1);
}

void
wkr_journal_drop_locked(struct wkr_journal *journal, struct wkr_entry *entry)
{
	struct wkr_line record = {
		.kind = WKR_LINE_DROP,
		.id = entry->id,
		.handle = entry->handle,
		.node = entry->node,
	};

	entry_free(journal, entry);
	/* A record that is not dropped makes an object that nobody names. */
	if (append_locked(journal, &record, NULL, 0) < 0)
		atomic_store(&head_of(journal)->full, 1);
	maybe_compact_locked(journal);
}

const uint8_t *
wkr_journal_bytes(const struct wkr_journal *journal,
		  const struct wkr_entry *entry, size_t *out_size)
{
	struct wkr_line record;

	memcpy(&record, journal->map + entry->at, sizeof(record));
	*out_size = entry->size - sizeof(record) - record.pad;
	return journal->map + entry->at + sizeof(record);
}

/* ---- reading ---- */

static struct wkr_entry *
find_id(struct wkr_journal *journal, const struct wkr_line *record)
{
	struct wkr_entry *entry;

	TAILQ_FOREACH(entry, wkr_journal_bucket(journal, record->handle,
						record->node),
		      bucket)
		if (entry->id == record->id)
			break;
	return entry;
}

static int
read_record(struct wkr_journal *journal, uint64_t at, uint64_t *out_size)
{
	uint64_t left = journal->end - at;
	struct wkr_line record;
	struct wkr_entry *entry;

	if (left < sizeof(record))
		return err_origin(-EBADMSG);
	memcpy(&record, journal->map + at, sizeof(record));
	if (record.size < sizeof(record) || record.size > left ||
	    record.size % UNIT || record.pad >= UNIT ||
	    record.pad > record.size - sizeof(record))
		return err_origin(-EBADMSG);
	*out_size = record.size;
	if (record.kind != WKR_LINE_DROP)
		return entry_add(journal, &record, at);
	entry = find_id(journal, &record);
	if (entry)
		entry_free(journal, entry);
	return 0;
}

static int
read_all(struct wkr_journal *journal, uint64_t size)
{
	uint64_t span, record = 0;
	int r;

	if (size < HEAD || size > SIZE_MAX_)
		return err_origin(-EBADMSG);
	r = map_up_to(journal, size);
	if (r < 0)
		return r;
	span = atomic_load_explicit(&head_of(journal)->span,
				    memory_order_acquire);
	journal->begin = (span >> 32) * UNIT;
	journal->end = (span & UINT32_MAX) * UNIT;
	if (journal->begin < HEAD || journal->end < journal->begin ||
	    journal->end > journal->mapped)
		return err_origin(-EBADMSG);
	for (uint64_t at = journal->begin; at < journal->end; at += record) {
		r = read_record(journal, at, &record);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- life ---- */

int
wkr_journal_open(struct wkr_journal *journal, int fd, bool resume)
{
	struct stat st;
	int r;

	pthread_mutex_init(&journal->lock, NULL);
	journal->fd = fd;
	TAILQ_INIT(&journal->entries);
	for (unsigned i = 0; i < WKR_JOURNAL_BUCKETS; i++)
		TAILQ_INIT(&journal->buckets[i]);
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0)
		return err_origin(-errno);
	/* The last worker may have had no time to begin it. */
	if (resume && st.st_size > 0)
		return read_all(journal, (uint64_t)st.st_size);
	r = map_up_to(journal, STEP);
	if (r < 0)
		return err_trace(r);
	journal->begin = journal->end = HEAD;
	store_span(journal);
	return 0;
}

void
wkr_journal_close(struct wkr_journal *journal)
{
	struct wkr_entry *entry;

	while ((entry = TAILQ_FIRST(&journal->entries)))
		entry_free(journal, entry);
	if (journal->map)
		munmap(journal->map, journal->mapped);
	if (journal->fd >= 0)
		close(journal->fd);
	journal->map = NULL;
	journal->fd = -1;
	pthread_mutex_destroy(&journal->lock);
}

bool
wkr_journal_is_full(struct wkr_journal *journal)
{
	return journal->map && atomic_load(&head_of(journal)->full);
}
