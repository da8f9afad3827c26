/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client has made, written down for the worker that may come next.
 * Used by server/worker only.
 *
 * The file is the broker's, never a client's. Records are added at its end
 * and count once the span in its first words says so, so that it is whole at
 * whatever moment this process ends. Whoever reads it believes none of it.
 */
#ifndef SERVER_WORKER_JOURNAL_H
#define SERVER_WORKER_JOURNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct wkr_call;
struct wkr_client;
struct wkr_function;
struct wkr_module;
struct journal_head;

enum wkr_line_kind {
	WKR_LINE_FRAME = 1, /* a call, to be done again */
	WKR_LINE_MODULE,
	WKR_LINE_FUNCTION,
	WKR_LINE_USED,      /* a module: its kernels have run */
	WKR_LINE_FRAGILE,   /* why the client cannot be moved */
	WKR_LINE_END,       /* of a graph that an update has used up */
	WKR_LINE_DROP,      /* of the record with that number */
};

/* In the file: this, then size - sizeof(it) bytes, padded to 8. */
struct wkr_line {
	uint32_t size; /* all of it, padding included */
	uint16_t kind; /* enum wkr_line_kind */
	uint16_t pad;  /* bytes of padding */
	uint32_t fn;   /* FRAME */
	uint32_t node; /* FRAME of a change to a graph: its node + 1 */
	uint64_t id;   /* numbers them; DROP: whose end it is */
	uint64_t handle;
};

/* A record that counts. */
struct wkr_entry {
	TAILQ_ENTRY(wkr_entry) link;   /* oldest first */
	TAILQ_ENTRY(wkr_entry) bucket; /* of its hash, likewise */
	uint64_t id, handle, at;       /* at: byte in the file */
	uint32_t size, fn, node;
	uint16_t kind;
};
TAILQ_HEAD(wkr_entries, wkr_entry);

#define WKR_JOURNAL_BUCKETS 1024u

struct wkr_journal {
	pthread_mutex_t lock; /* guards the rest */
	int fd;		      /* -1: none is kept */
	uint8_t *map;
	uint64_t mapped;      /* bytes of the file, and of the map */
	uint64_t begin, end;  /* of what counts, live or dropped */
	uint64_t live;	      /* bytes of entries */
	uint64_t next_id;
	struct wkr_entries entries, buckets[WKR_JOURNAL_BUCKETS];
};

/* fd is taken, -1: keep none. resume: go on with what is there; its entries
 * are read. 0, -EBADMSG or -errno. */
int wkr_journal_open(struct wkr_journal *journal, int fd, bool resume);
void wkr_journal_close(struct wkr_journal *journal);
/* Has something not been written down for want of room? */
bool wkr_journal_is_full(struct wkr_journal *journal);
/* The bytes behind an entry's record; valid until the next record. */
const uint8_t *wkr_journal_bytes(const struct wkr_journal *journal,
				 const struct wkr_entry *entry,
				 size_t *out_size);

/* A call of the client that has succeeded. frame: as it came, or NULL. */
void wkr_journal_call(struct wkr_call *call, const uint8_t *frame,
		      uint32_t size);
/* Code, and a function of it. */
void wkr_journal_module(struct wkr_module *module, const void *hash,
			uint64_t size, uint32_t kind, const void *options,
			size_t options_size);
void wkr_journal_function(struct wkr_module *module, uint64_t handle,
			  const char *name);
/* The first launch of a module's kernel. */
void wkr_journal_used(struct wkr_module *module);
void wkr_journal_fragile(struct wkr_client *client, uint64_t handle,
			 const char *why);
/* The object has ended, with all that was written of it. */
void wkr_journal_drop(struct wkr_client *client, uint64_t handle);

#endif
