/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker process, from spawn to wait, and the questions asked of it.
 * Used by device.c, which decides when there is one, and by who asks.
 *
 * A worker is no more trusted than a client: its answers are matched
 * to questions by id, and one that breaks the protocol is killed.
 */
#ifndef BROKER_WORKER_H
#define BROKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "proto/channel.h"
#include "server/broker/addr.h"
#include "server/broker/conn.h"
#include "server/broker/loop.h"

struct brk_broker;
struct brk_client;
struct brk_device;

enum brk_worker_state {
	WORKER_STARTING,
	WORKER_READY,
	WORKER_ENDING,          /* of no use any more, not yet waited for */
};

/* An answer, or the news that none will come. */
struct brk_result {
	uint32_t status;
	const char *message;                    /* never NULL */
	uint64_t value;
	const Mps__WorkerStatsReply *stats;     /* WorkerStats only */
	int fd;         /* closed after the call unless taken (set to -1) */
	bool lost;      /* it will not be answered: the worker has ended */
};

/* A question that waits for its answer; lives in what it is about. */
struct brk_request {
	LIST_ENTRY(brk_request) link;
	uint64_t id;
	struct brk_client *client;      /* held until answered; or NULL */
	bool wants_fd, wants_stats;
	void (*answered)(struct brk_request *request,
			 struct brk_result *result);
};

struct brk_worker {
	struct brk_conn conn;
	struct brk_device *device;
	struct brk_broker *broker;
	enum brk_worker_state state;
	pid_t pid;
	uint64_t generation;
	uint64_t next_request;
	LIST_HEAD(, brk_request) requests;
	struct brk_timer patience;
	struct brk_source output;       /* its stdout and stderr */
	int output_fd;
	char line[2048];
	size_t line_size;
	char text[CHANNEL_TEXT];        /* whole lines about an assertion */
	size_t text_size;
	struct brk_window windows[ADDR_WINDOWS];
	unsigned int nwindows;
	uint64_t total;                 /* bytes of device memory */
	struct risk_page *risks;        /* shared with it; risk.h */
	uint32_t fault;                 /* CUresult that it announced */
	uint64_t culprit;               /* client, 0: not known */
	uint32_t suspects;              /* clients that it may have been */
	char fault_message[256];
	uint64_t stats_asked_ns;        /* 0: no WorkerStats unanswered */
	bool was_ready, gave_up, killed;
	bool died;                      /* in a call of the culprit's */
	bool replaced;                  /* by us, and nobody is to blame */
};

int brk_worker_start(struct brk_device *device,
		     struct brk_worker **out_worker);
void brk_worker_ask(struct brk_worker *worker, struct brk_request *request,
		    Mps__Control *message, const int *fds, int nfds);
/* Let it end by itself, then by force. */
void brk_worker_stop(struct brk_worker *worker);
/* output.c: read some of its output; false: there is no more just now. */
bool brk_worker_read(struct brk_worker *worker);
/* None will come. */
void brk_worker_end_line(struct brk_worker *worker);
/* waitpid() without waiting: true if it is gone; *worker is then freed. */
bool brk_worker_reap(struct brk_worker *worker);

#endif
