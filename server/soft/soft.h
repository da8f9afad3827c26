/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: process state, entry rules, handles.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_H
#define SERVER_SOFT_SOFT_H

/* Declares every exported symbol under its own name, versions and
 * per-thread twins included. */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cuda.h>

#define SOFT_DEVICES_MAX 16
#define SOFT_DRIVER_VERSION 13000
/* What the VMM calls of an H200 report, and what they accept. */
#define SOFT_GRANULARITY ((size_t)2 << 20)

enum soft_relax {
	SOFT_RELAX_LOAD   = 1 << 0,
	SOFT_RELAX_FREE   = 1 << 1,
	SOFT_RELAX_UNLOAD = 1 << 2,
	SOFT_RELAX_LIMIT  = 1 << 3,
	SOFT_RELAX_LOCAL  = 1 << 4,
	SOFT_RELAX_STALL  = 1 << 5,
	SOFT_RELAX_QUEUE  = 1 << 6,
	SOFT_RELAX_HOL    = 1 << 7,
	SOFT_RELAX_GREEN  = 1 << 8,
};

#define SOFT_SMS_MAX 1024

struct soft_ctx;
struct soft_stream;

struct soft_device {
	int ordinal;
	char name[256];
	CUuuid uuid;
	int sms;
	int major, minor;
	size_t memory_total;              /* bytes */
	size_t context_bytes;             /* that a primary context takes */
	struct soft_ctx *primary;         /* made with the device, kept */
};

struct soft_state {
	_Atomic int initialised;
	int pid;                          /* of who called cuInit */
	int device_count;
	struct soft_device devices[SOFT_DEVICES_MAX];
	_Atomic int poison;               /* CUresult; never cleared */
	unsigned relax;
	unsigned threads;
	unsigned queues;                  /* CUDA_DEVICE_MAX_CONNECTIONS */
	CUresult init_fault;
	uint64_t alloc_fault;             /* N-th allocation, 0: none */
	bool wild;                        /* what is no handle is followed */
	char load_fault[64];              /* what no image may hold, or "" */
	char use_fault[64];               /* the kernel to die of, or "" */
	_Atomic uint64_t allocs;
};

extern struct soft_state soft;

/* What one thread carries from call to call. */
struct soft_thread {
	struct soft_ctx *stack[64];
	unsigned depth;
	bool in_callback;                 /* CUDA calls answer 800 there */
	CUstreamCaptureMode capture_mode;
	struct soft_ctx *held;            /* green context it has current */
};

extern __thread struct soft_thread soft_self;

/*
 * Every entry point starts with one of these.
 * soft_enter: initialised, same process, not in a callback.
 * soft_enter_live: and the process is not poisoned.
 * soft_enter_ctx: and a live context is current.
 */
CUresult soft_enter(void);
CUresult soft_enter_live(void);
CUresult soft_enter_ctx(struct soft_ctx **out_ctx);
struct soft_device *soft_device_get(CUdevice dev);
/* The first fault wins and is what every later call answers. */
void soft_poison(CUresult code);
CUresult soft_poisoned(void);
bool soft_relaxed(enum soft_relax what);
void soft_options_read(void);
/* What the real driver looks at before it has been told that it is good. */
void soft_follow(bool good);
/* Fault to inject into this grid, or CUDA_SUCCESS. */
CUresult soft_fault_for_grid(const char *kernel);

enum soft_handle_type {
	SOFT_HANDLE_NONE,
	SOFT_HANDLE_CTX,
	SOFT_HANDLE_STREAM,
	SOFT_HANDLE_EVENT,
	SOFT_HANDLE_MODULE,
	SOFT_HANDLE_LIBRARY,
	SOFT_HANDLE_KERNEL,
	SOFT_HANDLE_FUNC,
	SOFT_HANDLE_LINK,
	SOFT_HANDLE_VMM,
	SOFT_HANDLE_MEMPOOL,
	SOFT_HANDLE_GRAPH,
	SOFT_HANDLE_NODE,
	SOFT_HANDLE_EXEC,
	SOFT_HANDLE_USER,
	SOFT_HANDLE_ARRAY,
	SOFT_HANDLE_MIPMAP,
	SOFT_HANDLE_TEX,
	SOFT_HANDLE_SURF,
	SOFT_HANDLE_GREEN,
	SOFT_HANDLE_DESC,
};

/* Live handles of the process: a foreign or freed one is an error code,
 * never a crash. Returns false when out of memory. */
bool soft_handle_add(const void *object, enum soft_handle_type type);
enum soft_handle_type soft_handle_type(const void *object);
/* The object, or NULL. */
bool soft_handle_is(const void *object, enum soft_handle_type type);
/* The same for a handle as a program gave it. */
void *soft_handle_get(const void *object, enum soft_handle_type type);
/* True for exactly one caller: the one that may free the object. */
bool soft_handle_del(const void *object, enum soft_handle_type type);

uint64_t soft_now_ns(void);
/* One line to stderr, prefixed. */
void soft_log(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
uint64_t soft_new_id(void);

/* soft_print.c: the one printf FIFO of the process. */
void soft_print(void *ctx, const char *text, size_t size);
/* To stderr, at once. */
void soft_print_error(void *ctx, const char *text, size_t size);
void soft_print_flush(void);
void soft_print_resize(size_t size);

/* soft_error.c; NULL when unknown. */
const char *soft_error_name(CUresult code);
const char *soft_error_string(CUresult code);

#endif
