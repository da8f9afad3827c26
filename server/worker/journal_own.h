/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the journal: its file (journal.c) and what goes into it (note.c).
 */
#ifndef SERVER_WORKER_JOURNAL_OWN_H
#define SERVER_WORKER_JOURNAL_OWN_H

#include <stddef.h>

#include "server/worker/journal.h"

/* Entries of that handle and node, and of others of their hash. */
struct wkr_entries *wkr_journal_bucket(struct wkr_journal *journal,
				       uint64_t handle, uint32_t node);
/* Size, padding and number of the record are set here. */
void wkr_journal_add_locked(struct wkr_journal *journal,
			    struct wkr_line *record, const void *bytes,
			    size_t size);
void wkr_journal_drop_locked(struct wkr_journal *journal,
			     struct wkr_entry *entry);

/* WKR_LINE_MODULE: this, then the options. */
struct wkr_module_record {
	uint8_t hash[32];
	uint64_t size;
	uint32_t kind, zero;
};
/* WKR_LINE_FUNCTION: this, then the name and its NUL. */
struct wkr_function_record {
	uint64_t module;
};

#endif
