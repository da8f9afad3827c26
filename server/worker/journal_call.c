/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls are written down. Streams, events and graphs are the frames
 * that made them, code is what it was made of, so that it can be loaded when
 * it is needed. What no other worker can make again is a reason: code whose
 * variables have an address, texture objects, a link under way.
 *
 * A graph is its nodes, edges and the changes since; a change to a node takes
 * the place of the one before, and an update that of all of them. If an event
 * or a module has ended that a graph still has, the graph cannot be made
 * again, and whoever tries finds out.
 */
#include <stdlib.h>
#include <string.h>

#include "server/worker/call.h"
#include "server/worker/journal_own.h"
#include "server/worker/module.h"

#define SHARED_EVENTS "it has events that processes share"
/* A record that another graph has brought in (mpsGraphUpdate). */
#define FOREIGN UINT32_MAX

static bool
is_change(const struct wkr_entry *e)
{
	return e->node || e->kind == WKR_LINE_END ||
	       e->fn == API_mpsGraphUpdate;
}

static void
add_frame_locked(struct wkr_journal *journal, uint64_t handle, uint32_t fn,
		 uint32_t node, const void *frame, size_t size)
{
	struct wkr_line record = {
		.kind = WKR_LINE_FRAME,
		.handle = handle,
		.fn = fn,
		.node = node,
	};

	wkr_journal_add_locked(journal, &record, frame, size);
}

/* Of a graph: its changes are in other buckets. */
static void
drop_graph_locked(struct wkr_journal *journal, uint64_t graph, bool all)
{
	struct wkr_entry *e = TAILQ_FIRST(&journal->entries), *next;

	for (; e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->handle == graph && (all || is_change(e)))
			wkr_journal_drop_locked(journal, e);
	}
}

static void
drop_plain_locked(struct wkr_journal *journal, uint64_t handle)
{
	struct wkr_entries *bucket = wkr_journal_bucket(journal, handle, 0);
	struct wkr_entry *e = TAILQ_FIRST(bucket), *next;

	for (; e; e = next) {
		next = TAILQ_NEXT(e, bucket);
		if (e->handle == handle)
			wkr_journal_drop_locked(journal, e);
	}
}

static void
drop_change_locked(struct wkr_journal *journal, uint64_t handle, uint32_t fn,
		   uint32_t node)
{
	struct wkr_entries *bucket = wkr_journal_bucket(journal, handle, node);
	struct wkr_entry *e = TAILQ_FIRST(bucket), *next;

	for (; e; e = next) {
		next = TAILQ_NEXT(e, bucket);
		if (e->handle == handle && e->fn == fn && e->node == node)
			wkr_journal_drop_locked(journal, e);
	}
}

/* The parts of `other` become parts of an update of `graph`. */
static void
take_parts_locked(struct wkr_journal *journal, uint64_t graph, uint64_t other)
{
	struct wkr_entry *e, *next;

	e = TAILQ_FIRST(wkr_journal_bucket(journal, other, 0));
	for (; e; e = next) {
		_cleanup_free_ void *copy = NULL;
		const uint8_t *bytes;
		size_t size;

		next = TAILQ_NEXT(e, bucket);
		if (e->handle != other || e->kind != WKR_LINE_FRAME)
			continue;
		bytes = wkr_journal_bytes(journal, e, &size);
		/* The file may move as it grows. */
		copy = malloc(size ? size : 1);
		if (copy)
			memcpy(copy, bytes, size);
		add_frame_locked(journal, graph, e->fn, FOREIGN, copy,
				 copy ? size : 0);
	}
}

static void
update_locked(struct wkr_journal *journal, uint64_t graph, uint64_t other,
	      const uint8_t *frame, uint32_t size)
{
	struct wkr_line end = {
		.kind = WKR_LINE_END,
		.handle = graph,
	};

	drop_graph_locked(journal, graph, false);
	take_parts_locked(journal, graph, other);
	add_frame_locked(journal, graph, API_mpsGraphUpdate, 0, frame, size);
	wkr_journal_add_locked(journal, &end, &other, sizeof(other));
}

static bool
has_kind_locked(struct wkr_journal *journal, uint64_t handle, uint16_t kind)
{
	struct wkr_entry *e;

	TAILQ_FOREACH(e, wkr_journal_bucket(journal, handle, 0), bucket)
		if (e->handle == handle && e->kind == kind)
			return true;
	return false;
}

static void
fragile_locked(struct wkr_journal *journal, uint64_t handle, const char *why)
{
	struct wkr_line record = {
		.kind = WKR_LINE_FRAGILE,
		.handle = handle,
	};

	if (!has_kind_locked(journal, handle, WKR_LINE_FRAGILE))
		wkr_journal_add_locked(journal, &record, why, strlen(why) + 1);
}

static void
call_locked(struct wkr_journal *journal, const struct wkr_call *call,
	    const uint8_t *frame, uint32_t size)
{
	const struct wire_arg *args = call->args;
	uint64_t handle = args[0].value;
	uint32_t node = (uint32_t)args[1].value + 1;

	switch (call->fn) {
	case API_mpsEventImport:
		fragile_locked(journal, handle, SHARED_EVENTS);
		return;
	case API_mpsEventCreate:
		if (args[1].value & CU_EVENT_INTERPROCESS)
			fragile_locked(journal, handle, SHARED_EVENTS);
		add_frame_locked(journal, handle, call->fn, 0, frame, size);
		return;
	case API_mpsStreamCreate:
	case API_mpsGraphBegin:
	case API_mpsGraphKernel:
	case API_mpsGraphCopy:
	case API_mpsGraphFill:
	case API_mpsGraphEmpty:
	case API_mpsGraphEvent:
	case API_mpsGraphEdges:
	case API_mpsGraphInstantiate:
	case API_mpsGraphForget:
	case API_mpsGraphAdopt:
	case API_mpsGraphBranch:
	case API_mpsGraphInto:
	case API_mpsGraphBox:
		add_frame_locked(journal, handle, call->fn, 0, frame, size);
		return;
	case API_mpsLimitSet:
		/* Of each limit the last one. */
		drop_change_locked(journal, handle, call->fn, 0);
		add_frame_locked(journal, handle, call->fn, 0, frame, size);
		return;
	case API_mpsGraphSetKernel:
	case API_mpsGraphSetCopy:
	case API_mpsGraphSetFill:
	case API_mpsGraphSetEvent:
	case API_mpsGraphEnable:
		drop_change_locked(journal, handle, call->fn, node);
		add_frame_locked(journal, handle, call->fn, node, frame, size);
		return;
	case API_mpsGraphUpdate:
		update_locked(journal, handle, args[1].value, frame, size);
		return;
	case API_mpsModuleGlobal:
		fragile_locked(journal, handle, "it has the address of a "
			       "variable of its code");
		return;
	case API_mpsGraphCondition:
		fragile_locked(journal, handle, "it has handles of conditions "
			       "in graphs");
		return;
	case API_mpsLinkCreate:
		fragile_locked(journal, handle, "it is linking code");
		return;
	default:
		return;
	}
}

void
wkr_journal_call(struct wkr_call *call, const uint8_t *frame, uint32_t size)
{
	struct wkr_client *client = call->client;
	struct wkr_journal *journal = &client->journal;

	/* While it is made again, it is there already. */
	if (journal->fd < 0 || client->restore)
		return;
	pthread_mutex_lock(&journal->lock);
	call_locked(journal, call, frame, size);
	pthread_mutex_unlock(&journal->lock);
}

/* Two pieces in one record; without memory it is written empty, which whoever
 * reads it finds out. */
static void
add_pair(struct wkr_journal *journal, struct wkr_line *line, const void *head,
	 size_t head_size, const void *rest, size_t rest_size)
{
	_cleanup_free_ uint8_t *bytes = malloc(head_size + rest_size);

	if (journal->fd < 0)
		return;
	if (bytes) {
		memcpy(bytes, head, head_size);
		if (rest_size)
			memcpy(bytes + head_size, rest, rest_size);
	}
	pthread_mutex_lock(&journal->lock);
	wkr_journal_add_locked(journal, line, bytes,
			       bytes ? head_size + rest_size : 0);
	pthread_mutex_unlock(&journal->lock);
}

void
wkr_journal_module(struct wkr_module *module, const void *hash, uint64_t size,
		   uint32_t kind, const void *options, size_t options_size)
{
	struct wkr_module_record head = {.size = size, .kind = kind};
	struct wkr_line line = {
		.kind = WKR_LINE_MODULE,
		.handle = module->handle,
	};

	memcpy(head.hash, hash, sizeof(head.hash));
	add_pair(&module->client->journal, &line, &head, sizeof(head),
		 options, options_size);
}

void
wkr_journal_function(struct wkr_module *module, uint64_t handle,
		     const char *name)
{
	struct wkr_function_record head = {.module = module->handle};
	struct wkr_line line = {
		.kind = WKR_LINE_FUNCTION,
		.handle = handle,
	};

	add_pair(&module->client->journal, &line, &head, sizeof(head), name,
		 strlen(name) + 1);
}

void
wkr_journal_used(struct wkr_module *module)
{
	struct wkr_journal *journal = &module->client->journal;
	struct wkr_line record = {
		.kind = WKR_LINE_USED,
		.handle = module->handle,
	};

	module->launched = true;
	if (journal->fd < 0)
		return;
	pthread_mutex_lock(&journal->lock);
	wkr_journal_add_locked(journal, &record, NULL, 0);
	pthread_mutex_unlock(&journal->lock);
}

void
wkr_journal_fragile(struct wkr_client *client, uint64_t handle,
		    const char *why)
{
	struct wkr_journal *journal = &client->journal;

	if (journal->fd < 0)
		return;
	pthread_mutex_lock(&journal->lock);
	fragile_locked(journal, handle, why);
	pthread_mutex_unlock(&journal->lock);
}

void
wkr_journal_drop(struct wkr_client *client, uint64_t handle)
{
	struct wkr_journal *journal = &client->journal;

	if (journal->fd < 0)
		return;
	pthread_mutex_lock(&journal->lock);
	if (handle_kind(handle) == HANDLE_EXEC)
		drop_graph_locked(journal, handle, true);
	else
		drop_plain_locked(journal, handle);
	pthread_mutex_unlock(&journal->lock);
}
