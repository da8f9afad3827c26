/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of a client on its way through the worker, and its reply.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_CALL_H
#define SERVER_WORKER_CALL_H

#include "api_sigs.h"
#include "wkr_dispatch.h"

#include "proto/data.h"
#include "proto/marshal.h"
#include "server/worker/client.h"

/* Two answers of handlers that no client sees. */
#define WKR_AGAIN ((CUresult)0x7fff0001)    /* nothing done: call it again */
#define WKR_DEFERRED ((CUresult)0x7fff0002) /* a struct wkr_pending replies */

struct wkr_call {
	struct wkr_client *client;
	uint64_t seq;
	uint32_t fn;
	uint32_t slot;	   /* CHANNEL_NO_SLOT: a post */
	bool lying;	   /* the launch breaks a rule */
	bool on_lane;	   /* may touch streams and events */
	bool begun;	   /* wkr_keep_begin() was called */
	bool again;	   /* what it puts on a stream may be done twice */
	uint64_t since_ns; /* jobs: when it was queued */
	struct wire_arena arena;
	struct wire_arg args[WIRE_MAX_PARAMS];
};

/* What a deferred reply waits for. */
enum wkr_scope { WKR_ALL, WKR_OF_STREAM, WKR_OF_GROUP, WKR_OF_RECORD };

struct wkr_pending {
	struct wkr_pending *next;
	enum wkr_scope scope;
	const void *object; /* stream, group or record */
	/* Of a record, when it is known: it is done when that stream's
	 * operations up to this one have retired. */
	const struct wkr_stream *stream;
	uint64_t operation;
	bool by_word; /* a word tells of just these operations */
	uint64_t seq;	    /* of the call */
	uint64_t until;	    /* frames up to this must retire */
	uint32_t slot, fn;
};

/* call.c. frame: the lane's copy, header included. 0; -EBADMSG: a liar;
 * WKR_CALL_E_AGAIN: hold the frame; WKR_CALL_E_BEHIND: it stays where it is,
 * in the backlog. */
enum { WKR_CALL_E_AGAIN = 1, WKR_CALL_E_BEHIND };
int wkr_frame(struct wkr_client *client, const uint8_t *frame, uint32_t size,
	      bool ordered);

/* generic.c: one call of a driver function of that signature. */
CUresult wkr_replay(struct wkr_call *call, const struct wire_sig *sig,
		    const struct wkr_ffi *ffi, void (*function)(void),
		    struct wire_arg *args);

/* launch.c */
CUresult wkr_launch(struct wkr_call *call, const struct data_launch *m);

/* reply.c */
void wkr_reply(struct wkr_client *client, uint64_t seq, uint32_t slot,
	       CUresult result, const uint8_t *outs, size_t size,
	       bool with_text);
void wkr_reply_call(struct wkr_call *call, CUresult result);
/* Bytes that the socket has not taken; false when the client must go. */
bool wkr_reply_flush(struct wkr_client *client);
/* A failure that no reply carries. */
void wkr_late(struct wkr_client *client, CUresult result, const char *what);

/* keep.c. Lane: before the frame's work is begun, if nothing of the kind has
 * been called for it; again: it may be done twice. */
void wkr_keep_begin(struct wkr_call *call, bool again);
/* The frame has been begun, and the driver has taken it. */
void wkr_keep_end(struct wkr_client *client);
/* The device has faulted: nor has the driver taken what this thread began. */
void wkr_keep_undo(void);
/* The client learns, or knows, more than that all of it is done. */
void wkr_keep_taint(struct wkr_client *client);
/* At the end of a turn: see what is done. */
void wkr_keep_settle(struct wkr_client *client);
/* May a write to, a read of that memory be done twice? */
bool wkr_keep_write(struct wkr_client *client, uint64_t dst, uint64_t size);
bool wkr_keep_read(struct wkr_client *client, uint64_t src, uint64_t size);

/* pending.c */
CUresult wkr_defer(struct wkr_call *call, enum wkr_scope scope,
		   const void *object);
/* The same for what frames up to `until` have put there. */
CUresult wkr_defer_until(struct wkr_call *call, enum wkr_scope scope,
			 const void *object, uint64_t until);
/* The same for a record of an event; stream, if that is known: where it is the
 * operation of that number. */
CUresult wkr_defer_event(struct wkr_call *call, struct wkr_record *record,
			 struct wkr_stream *stream, uint64_t operation);
/* Will words tell when each of them has come true? */
bool wkr_pending_by_word(const struct wkr_client *client);
/* Answer what has come true. */
void wkr_pending_poll(struct wkr_client *client);
void wkr_pending_drop(struct wkr_client *client);

/* print.c: whose kernels may print. */

/* A kernel or graph that could print: how often it was launched and nobody
 * printed. */
struct wkr_printer {
	_Atomic uint32_t since; /* the text that came last before that */
	_Atomic uint32_t launches;
};

int wkr_print_init(void);
/* At the start of the driver, before anybody's work. */
void wkr_print_first(void);
/* For the launch of frame seq. False: it has to wait for another client's. */
bool wkr_print_acquire(struct wkr_client *client, uint64_t seq,
		       struct wkr_printer *printer);
void wkr_print_release(struct wkr_client *client);
void wkr_print_collect(struct wkr_client *client);
/* Lane: an answer has taken text along: is it all? Then the client need not
 * ask for any. */
void wkr_print_told(struct wkr_client *client);
/* At a fault: what nobody will collect goes to the broker. */
void wkr_print_last(void);

#endif
