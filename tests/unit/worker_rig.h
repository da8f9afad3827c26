/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test in the broker's and the clients' place: starts a real mpsd-worker
 * on the software device and talks to it over its sockets and rings.
 */
#ifndef TESTS_UNIT_WORKER_RIG_H
#define TESTS_UNIT_WORKER_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "api_sigs.h"
#include "proto/channel.h"
#include "proto/launch.h"
#include "proto/ring.h"
#include "proto/risk.h"
#include "proto/sock.h"

struct rig {
	pid_t pid;
	int control;
	uint64_t next_id;
	Mps__Control *ready;
	uint64_t device_base, host_base;
	struct risk_page *risks; /* the worker's, too */
};

struct rig_client {
	struct rig *rig;
	uint64_t id;
	int data;
	bool no_ring;
	struct channel channel;
	struct ring ordered, unordered;
	uint8_t *staging;
	uint64_t seq, unordered_seq;
	uint64_t handles;   /* minted so far */
	char text[65536];   /* printed, from replies */
	uint32_t text_left; /* of the last reply */
	struct sock_reader reader;
};

/* NULL when the build lacks worker or software device. environment: pairs
 * NAME=VALUE, NULL at the end, or NULL. */
bool rig_is_possible(void);
void rig_start(struct rig *rig, const char *const *environment);
/* The worker must end by itself when its socket closes. */
void rig_stop(struct rig *rig);
/* Ask; the answer to this very question, others are dropped. fds: in, sent
 * and left open; out_fd: the one that came, or -1. */
Mps__Control *rig_ask(struct rig *rig, Mps__Control *question, const int *fds,
		      int nfds, int *out_fd);
/* The same, for questions that Done answers: its status. */
uint32_t rig_done(struct rig *rig, Mps__Control *question, const int *fds,
		  int nfds, int *out_fd);
Mps__WorkerStatsReply *rig_stats(struct rig *rig, Mps__Control **out_hold);

void rig_client_start(struct rig *rig, struct rig_client *client, uint64_t id,
		      bool no_ring);
/* Its end, as the broker reports it: the worker's answer. */
uint32_t rig_client_end(struct rig_client *client);
uint32_t rig_chunk(struct rig_client *client, uint64_t id, uint64_t address,
		   uint64_t size);
/* *fd: in, memory to import, or -1; out, what was exported. */
uint32_t rig_chunk_fd(struct rig_client *client, uint64_t id, uint64_t address,
		      uint64_t size, int *fd);
uint32_t rig_host(struct rig_client *client, uint64_t id, uint64_t address,
		  uint64_t size, void **out_map);
uint32_t rig_image(struct rig *rig, const void *data, size_t size,
		   uint8_t hash[32]);

uint64_t rig_mint(struct rig_client *client, unsigned kind);
/* argv as for wire_pack_call(). A call's CUresult; -1 when no answer comes. */
int rig_call(struct rig_client *client, enum api_id id, void *const argv[]);
/* The two halves of a call: what happens between them happens meanwhile. */
void rig_call_begin(struct rig_client *client, enum api_id id,
		    void *const argv[]);
int rig_call_end(struct rig_client *client, enum api_id id, void *const argv[]);
void rig_post(struct rig_client *client, enum api_id id, void *const argv[]);
void rig_launch(struct rig_client *client, uint64_t function, uint64_t stream,
		uint32_t blocks, uint32_t threads, const void *params,
		size_t size);
/* The same, of a head that is the caller's. */
void rig_launch_head(struct rig_client *client, const struct launch_head *head,
		     const void *params, size_t size,
		     const struct launch_attr *attrs);
/* Bytes as they are, into the ordered ring. */
void rig_push(struct rig_client *client, const void *frame, uint32_t size,
	      bool ordered);
/* Wakes a worker that sleeps; for who changed a ring by hand. */
void rig_nudge(struct rig_client *client);
/* Does page->dead come to be not 0 within seconds? */
bool rig_is_dropped(struct rig_client *client);

#endif
