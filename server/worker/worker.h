/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker process: one driver library, one device, one shared context.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_WORKER_H
#define SERVER_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wkr_driver.h"

#include "proto/err.h"
#include "proto/log.h"
#include "proto/wire.pb-c.h"
#include "server/soft/softcuda.h"
#include "server/worker/job.h"

#define WKR_LANES_MAX 8
#define WKR_WINDOWS_MAX 8
#define WKR_CONTROL_FD 3

/* A range of addresses that clients' memory may be put at. */
struct wkr_window {
	uint64_t base, size;
	bool host; /* for pinned memory, else for the device's */
	bool reserved;
};

struct wkr_client;
struct wkr_lane;

struct wkr {
	/* Set before any thread starts, constant from then on. */
	const char *driver_path;
	int ordinal;
	struct wkr_driver drv;
	CUdevice device;
	CUcontext context;
	int driver_version;
	int device_count;
	const struct softcuda_table *soft; /* NULL: a real driver */
	unsigned sm;	    /* 90: compute capability 9.0 */
	int shared_optin;   /* dynamic shared memory a block may ask for */
	size_t granularity; /* of device memory, bytes */
	uint64_t total_memory;
	uint64_t ballast;   /* memory.c, bytes */
	struct wkr_window windows[WKR_WINDOWS_MAX];
	unsigned nwindows;
	unsigned cores;
	bool measuring; /* overlap.c */
	bool solo; /* for one client alone */
	bool batching;	/* batch.c */
	struct wkr_lane *lanes[WKR_LANES_MAX];
	unsigned nlanes;
	struct wkr_queue helper, gate, reaper;

	pthread_mutex_t control_lock; /* sending on WKR_CONTROL_FD */
	pthread_mutex_t clients_lock; /* clients, and their `next` links */
	struct wkr_client *clients;
	_Atomic uint32_t active_streams; /* with unretired work */
	_Atomic uint64_t image_loads;
	_Atomic bool paused; /* no frame of a client is begun (pause.c) */
};

extern struct wkr wkr;

/* start.c: the driver, the context, the address windows. On failure fills
 * the message of the WorkerReady that says so. */
CUresult wkr_start(char *message, size_t size);
/* The driver and a context alone, for a process that only compiles. */
CUresult wkr_start_driver(char *message, size_t size);
/* What the start was spent on since the last lap, and all of it. */
void wkr_lap(const char *what);
void wkr_laps_say(void);
/* Every thread that calls the driver begins with this. */
void wkr_thread_begin(void);

/* window.c */
void wkr_windows_read(void);
void wkr_windows_fill(void);
void wkr_windows_reserve(void);
/* Is [address, address + size) inside one window of that sort? */
bool wkr_windows_hold(uint64_t address, uint64_t size, bool host);

/* snapshot.c */
int wkr_snapshot_send(CUresult status, const char *message);

/* control.c: serve the broker until it goes away. */
int wkr_control_run(void);
int wkr_control_send(const Mps__Control *message, const int *fds, int nfds);
void wkr_control_done(uint64_t id, CUresult status, const char *message,
		      int fd);

/* pause.c: WorkerPause. */
void wkr_pause(uint32_t patience_ms, uint64_t control_id);
/* WorkerPart, WorkerStay. */
void wkr_part(struct wkr_client *client, uint32_t patience_ms,
	      uint64_t control_id);
void wkr_stay(struct wkr_client *client);

/* stats.c */
void wkr_stats_send(uint64_t id);

/* fault.c: the answer of a driver call, unless it says that the device has
 * faulted and the process is lost: then this does not return. */
CUresult wkr_ok(CUresult code);

/* End the process at once: a destructor of the driver's would wait for
 * kernels. */
_Noreturn void wkr_leave(int status);

uint64_t wkr_now_ns(void);

/* word.c: does MPSSHIM_PERF have that word? */
bool wkr_is_off(const char *word);

/* Add to a figure that one thread writes and others read. */
static inline void
wkr_count(_Atomic uint64_t *figure, uint64_t n)
{
	atomic_store_explicit(
		figure,
		atomic_load_explicit(figure, memory_order_relaxed) + n,
		memory_order_relaxed);
}

#endif
