/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images by hash, modules made of them, and the gate that loads code.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_MODULE_H
#define SERVER_WORKER_MODULE_H

#include "server/worker/call.h"

#define WKR_HASH_SIZE 32

/* Code as the broker gave it; kept until the broker takes it back and nobody
 * reads it any more. The driver has a copy of its own of what it loaded. */
struct wkr_image {
	struct wkr_image *next;
	uint32_t refs; /* one is the store's; under its lock */
	uint8_t hash[WKR_HASH_SIZE];
	const uint8_t *data;
	size_t size;
	size_t room;   /* bytes mapped at data */
	bool printing; /* refers to vprintf */
};

struct wkr_function;

struct wkr_module {
	CUmodule native;	 /* first member (struct wkr_object) */
	CUlibrary library;	 /* what holds it, or NULL */
	struct wkr_module *next; /* of the client's */
	struct wkr_client *client;
	uint64_t handle;
	bool printing; /* as its image */
	bool loaded;
	bool used;   /* its code is there (gate's thread) */
	bool warned; /* that it lacks code for the device */
	_Atomic uint32_t refs;
	struct wkr_function *functions; /* under the client's lock */
};

struct wkr_function {
	CUfunction native; /* first member */
	struct wkr_function *next;
	struct wkr_module *module;
	uint64_t handle;
	uint32_t param_bytes;
};

/* image.c */
CUresult wkr_image_add(const uint8_t *hash, size_t hash_size, uint64_t size,
		       int fd, const char **out_why);
/* By hash, for as long as it is held; or NULL. */
struct wkr_image *wkr_image_ref(const void *hash, size_t size);
void wkr_image_unref(struct wkr_image *image);
/* The broker takes it back: nobody finds it any more. */
CUresult wkr_image_drop(const void *hash, size_t size, const char **out_why);
/* All that are mapped, found or not. */
uint64_t wkr_image_count(void);

static inline void
wkr_image_unrefp(struct wkr_image **image)
{
	if (*image)
		wkr_image_unref(*image);
}

#define _cleanup_image_ _cleanup_(wkr_image_unrefp)

/* Lengths inside the image stay inside it: the driver's loader believes
 * them. */
bool wkr_image_is_sound(const uint8_t *data, size_t size);
bool wkr_image_prints(const uint8_t *data, size_t size);
/* Has a sound image managed variables? The host could not reach them. What is
 * compressed is not looked into: their addresses are refused later. */
bool wkr_image_is_managed(const uint8_t *data, size_t size);

/* gate.c: would a drain hurt nobody but this client now? True in any case
 * two seconds after since_ns; UINT64_MAX: never just for that. */
bool wkr_is_quiet(const struct wkr_client *but, uint64_t since_ns);

/* module.c */
void wkr_module_unref(struct wkr_module *module);
void wkr_modules_drop(struct wkr_client *client);
/* Put a new object into the client's table, or say why not. An unload that is
 * still in the ordered ring may hold the slot: then WKR_AGAIN. */
CUresult wkr_put_new(struct wkr_call *call, enum handle_kind kind,
		     uint64_t handle, void *object);
/* For other threads than the lane: a function that stays until unref. */
struct wkr_function *wkr_function_ref(struct wkr_client *client,
				      uint64_t handle);

#endif
