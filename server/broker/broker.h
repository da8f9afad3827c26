/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker: what all its parts share.
 * Used by every file of server/broker/.
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "server/broker/addr.h"
#include "server/broker/driver.h"
#include "server/broker/ipc.h"
#include "server/broker/loop.h"
#include "server/broker/quota.h"
#include "server/broker/risk.h"
#include "server/broker/solo.h"
#include "server/broker/store.h"

struct brk_client;
struct brk_device;

/* NVIDIA's driver knows at most this many. */
#define BRK_DEVICES 64
/* Connections at once; more are left in the listener's queue. */
#define BRK_CLIENTS 4096

/* The CUresult values that the broker itself answers (cuda.h). */
enum {
	BRK_SUCCESS = 0,
	BRK_INVALID_VALUE = 1,
	BRK_OUT_OF_MEMORY = 2,
	BRK_INVALID_DEVICE = 101,
	BRK_INVALID_IMAGE = 200,
	BRK_INVALID_CONTEXT = 201,
	BRK_ECC_UNCORRECTABLE = 214,
	BRK_INVALID_HANDLE = 400,
	BRK_ASSERT = 710,
	BRK_LAUNCH_FAILED = 719,
	BRK_NOT_PERMITTED = 800,
	BRK_NOT_SUPPORTED = 801,
	BRK_SYSTEM_NOT_READY = 802,
	BRK_SYSTEM_DRIVER_MISMATCH = 803,
	BRK_MPS_RPC_FAILURE = 806,
	BRK_MPS_SERVER_NOT_READY = 807,
	BRK_MPS_MAX_CLIENTS_REACHED = 808,
	BRK_MPS_CLIENT_TERMINATED = 810,
};

struct brk_broker {
	struct brk_loop loop;
	char dir[PATH_MAX], path[PATH_MAX];     /* socket directory, socket */
	char worker_program[PATH_MAX];
	char empty_dir[PATH_MAX];       /* see worker.c; "" until made */
	struct brk_driver driver;
	uint64_t started_ns;

	int listen_fd, signal_fd, lock_fd;
	struct brk_source listener, signals;
	struct brk_timer accept_later;  /* when out of descriptors */
	dev_t socket_dev;               /* of the socket's name, so that we */
	ino_t socket_ino;               /* unlink ours only */

	const char *pid_file;           /* ours while we listen; or NULL */
	const char *visible;            /* CUDA_VISIBLE_DEVICES of workers */
	uint64_t idle_ms;               /* 0: stay */
	uint64_t handover_ms;           /* move.h; 0: never */
	bool warm;                      /* workers for who may come */
	uint64_t solo_max;              /* workers of one client each */
	struct brk_timer idle;
	bool draining;                  /* no new clients; end with the last */
	unsigned int quitters;          /* connections that wait for that */
	struct brk_timer ending;        /* end now (from the loop) */

	LIST_HEAD(, brk_client) clients;
	unsigned int nconnections;      /* all of the list */
	unsigned int nclients;          /* those that are clients */
	struct brk_device *devices[BRK_DEVICES];        /* everybody's */
	/* These by their numbers, then those of solo clients. */
	TAILQ_HEAD(, brk_device) places;
	struct brk_quotas quotas;
	struct brk_addresses addresses;
	struct brk_store store;
	struct brk_ipc ipc;
	struct brk_risks risks;
	struct brk_faults faults;

	uint64_t next_id;               /* clients, pieces, blocks */
	uint64_t total_clients, bad_frames, workers_started;
};

/* Listen on broker->path; the loop may run afterwards. 0 or -errno;
 * -EADDRINUSE when another broker lives there. */
int brk_broker_start(struct brk_broker *broker);
void brk_broker_fini(struct brk_broker *broker);

/* A connection or client more or less: idle clock, draining. */
void brk_broker_counted(struct brk_broker *broker);
/* No new clients; end when the last has ended, or at once if forced. */
void brk_broker_quit(struct brk_broker *broker, bool force);
/* One who has asked for that has gone before it came. */
void brk_broker_unquit(struct brk_broker *broker);

#endif
