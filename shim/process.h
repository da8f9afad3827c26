/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shim knows once per process: the broker's connection and answers.
 * Used by everything in shim/; made by cuInit and never torn down.
 *
 * There is no destructor: static destructors of other libraries call us
 * after main has returned, and the broker learns of our end from the socket.
 */
#ifndef SHIM_PROCESS_H
#define SHIM_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "proto/wire.pb-c.h"
#include "shim/control.h"

#define SHIM_MAX_DEVICES 64

/* What *shim_process.live says. The page is wiped in a forked child, so a
 * child reads SHIM_DOWN without anybody asking for its pid. */
enum shim_live {
	SHIM_DOWN,      /* cuInit has not succeeded, or we are a fork */
	SHIM_UP,
	SHIM_FAILED,    /* `sticky` says with what */
};

/* Switches of MPSSHIM_PERF, all off by default. */
enum {
	SHIM_NO_RING = 1,
	SHIM_NO_POST = 2,
	SHIM_NO_CACHE = 4,
	SHIM_NO_PIN = 8,
	SHIM_NO_SHARE = 16,
	SHIM_NO_WORD = 32,
	SHIM_NO_SWAP = 64,
};

struct shim_chan;

/* A device as this process sees it; its place in the array is its ordinal.
 * Constant after cuInit, but for chan. */
struct shim_device {
	const Mps__Device *info;    /* inside shim_process.hello */
	int real;                   /* the broker's ordinal */
	struct shim_chan *_Atomic chan; /* NULL before the first context */
	_Atomic bool solo;          /* solo.c: its worker has become ours */
};

struct shim_process {
	_Atomic uint32_t *_Atomic live;  /* enum shim_live */
	_Atomic uint32_t sticky;    /* CUresult of SHIM_FAILED */
	pthread_mutex_t lock;       /* guards connecting, the control
				     * connection and its socket */
	_Atomic int pid;            /* that connected; 0: none has */
	struct shim_fd control;     /* socket to the broker */
	_Atomic uint64_t next_id;   /* of control questions */
	unsigned int perf;          /* SHIM_NO_* */
	uint64_t wait_warn_ns;      /* a wait at the gate is told; 0: never */
	unsigned int spin_ns;       /* how long a wait may burn a core */
	bool sync_free;             /* MPSSHIM_SYNC_FREE=1 */

	/* Constant once live is SHIM_UP. */
	Mps__HelloReply *hello;     /* owned, never freed */
	int driver_version;         /* min(driver's, CUDA_VERSION) */
	int ndevices;               /* after CUDA_VISIBLE_DEVICES */
	struct shim_device devices[SHIM_MAX_DEVICES];
	char socket[108];           /* for messages */
};
extern struct shim_process shim_process;

/*
 * cuInit's work, once: connect, start a broker if there is none and that is
 * allowed, shake hands, filter devices. Later calls return the same answer,
 * except that a failure to connect is tried again.
 * CUDA_ERROR_NO_DEVICE when nothing is visible.
 */
CUresult shim_connect(void);

/* cuDriverGetVersion before cuInit needs the driver's version without
 * becoming a client: asks the broker (ask_only) once, never starts one. */
int shim_driver_version(void);

/* Everything fails with `code` from now on; says `why` once on stderr, unless
 * that is NULL: it has been said. */
CUresult shim_process_fail(CUresult code, const char *why);
/* The connection is: the same, with what the broker has told us before, or
 * with CUDA_ERROR_MPS_RPC_FAILURE and why. (relax.c) */
CUresult shim_broker_lost(const char *why);

/*
 * Ask the broker one question. Takes the lock; *out_answer is the caller's
 * (mps__control__free_unpacked(answer, NULL)) and has exactly the member
 * `want` set, a Done excepted: the broker refuses with Done. Descriptors in
 * the answer go to fds[0..*nfds-1]; nfds NULL: none are expected.
 * CUDA_SUCCESS, or the sticky error of a lost broker. message->id is set here.
 */
CUresult shim_ask(Mps__Control *message, Mps__Control__BodyCase want,
		  Mps__Control **out_answer, int *fds, int *nfds);
/* The same for questions that are answered by Done: its status. */
CUresult shim_ask_done(Mps__Control *message);
/* The same to give something back. If that fails it is said; what a broker had
 * that is lost needs no giving back, and that is said already. */
CUresult shim_ask_back(Mps__Control *message, const char *what);

/* Is the broker still there? Never blocks, takes no lock. */
bool shim_broker_alive(void);

#endif
