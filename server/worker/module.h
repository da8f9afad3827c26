/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images by hash, modules made of them, and the gate that loads code.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_MODULE_H
#define SERVER_WORKER_MODULE_H

#include "server/worker/call.h"

#define WKR_HASH_SIZE 32

/* What the code of an image is like. */
struct wkr_traits {
	bool shares;    /* clients can use one load: none sees another's writes */
	bool variables; /* has some, of whatever sort */
	bool state;     /* its kernels may write some */
	bool prints;    /* refers to vprintf */
	bool heap;      /* … to malloc or free */
	bool launches;  /* its kernels launch kernels */
	bool managed;   /* has managed variables, which the host cannot reach */
	char managed_name[64];  /* one of them, or its beginning */
	bool untargeted; /* is PTX that says for no architecture what it is */
};
/* Of what cannot be looked into. */
#define WKR_TRAITS_UNKNOWN \
	((struct wkr_traits){.variables = true, .state = true, .prints = true})

/* Code as the broker gave it; kept until the broker takes it back and nobody
 * reads it any more. The driver has a copy of its own of what it loaded. */
struct wkr_image {
	struct wkr_image *next;
	uint32_t refs; /* one is the store's; under its lock */
	uint8_t hash[WKR_HASH_SIZE];
	const uint8_t *data;
	size_t size;
	size_t room;   /* bytes mapped at data */
	struct wkr_traits traits; /* the gate's, once it has looked */
	bool looked;
};

struct function_info;
struct wkr_jit;

/* A kernel of a load and what it is asked once. */
struct wkr_kernel {
	struct wkr_kernel *next;
	CUfunction native;
	struct function_info *info;
	struct wkr_printer printer;
	char name[];
};

/* One load of an image by the driver. Made, and its kernels found, on the
 * gate's thread. */
struct wkr_code {
	struct wkr_code *next; /* of those that are shared; code.c's lock */
	CUmodule native;
	CUlibrary library; /* what holds it, or NULL */
	bool shared;
	bool orphan; /* its image was taken back; code.c's lock */
	bool used;   /* its code is there */
	uint32_t refs; /* code.c's lock */
	uint8_t hash[WKR_HASH_SIZE];
	uint64_t size;		/* of the image, bytes */
	struct wkr_jit *jit;	/* what it was loaded with */
	struct wkr_kernel *kernels;
};

struct wkr_function;

struct wkr_module {
	CUmodule native;	/* first member (struct wkr_object): its code's */
	struct wkr_code *code;	/* where its kernels are */
	struct wkr_code *own;	/* where its variables are, or NULL: not asked
				 * for, or in `code`; the gate's */
	struct wkr_image *image; /* held for `own`, when `code` is shared */
	struct wkr_module *next; /* of the client's */
	struct wkr_client *client;
	uint64_t handle;
	/* dormant.c: what it is to be loaded from, or NULL */
	struct wkr_image *dormant;
	void *options;
	size_t options_size;
	uint32_t kind;
	bool restored; /* another worker had it */
	bool launched; /* a kernel of it has run (lane's) */
	bool printing; /* as its image */
	bool loaded;
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
	bool clusters; /* its launches are clusters, asked for or not */
	bool ran;      /* has been launched (lane's) */
	struct wkr_printer *printer; /* its kernel's; NULL: it cannot print */
	/* dormant.c */
	_Atomic bool ready; /* what is above can be used; or error says why
			     * it never can */
	_Atomic bool waking;
	CUresult error;
	char *name; /* NULL: it never was dormant */
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
/* A library of object files? */
bool wkr_image_is_archive(const uint8_t *data, size_t size);
/* traits.c. Of an image for a device of compute capability sm / 10. */
struct wkr_traits wkr_image_traits(const uint8_t *data, size_t size,
				   unsigned sm);

/* code.c: loads. */
/* The load of an image that clients share, held, or NULL. */
struct wkr_code *wkr_code_ref(const struct wkr_image *image,
			      const struct wkr_jit *jit);
/* A load of nobody else's, or, when shared, the one that others will find.
 * NULL: out of memory, and it is unloaded. Takes native and library. */
struct wkr_code *wkr_code_create(const struct wkr_image *image,
				 const struct wkr_jit *jit, CUmodule native,
				 CUlibrary library, bool shared);
/* May unload, which waits for and stalls neighbours (measured). */
void wkr_code_unref(struct wkr_code *code);
/* The same if that unloads nothing; false: it would, and nothing is done. */
bool wkr_code_let_go(struct wkr_code *code);
/* An image is gone: loads of it stay only as long as they are held. */
void wkr_code_orphan(const void *hash);

/* gate.c. In a job: may it do now what drains the device? Then nothing is
 * running there, and little will be until the job's run returns. */
bool wkr_gate_enter(void);

/* local.c. Gate: no kernel that needs so much local memory makes the driver
 * find it at its launch. WKR_AGAIN: not now. */
CUresult wkr_local_want(uint32_t bytes);

/* dormant.c. Lane: make one that is loaded when it is wanted. */
int wkr_dormant_module(struct wkr_client *client, uint64_t handle,
		       const uint8_t *hash, uint64_t size, uint32_t kind,
		       const void *options, size_t options_size);
int wkr_dormant_function(struct wkr_module *module, uint64_t handle,
			 const char *name);
/* Gate: load it now. WKR_AGAIN: not now. */
CUresult wkr_module_wake(struct wkr_module *module);
/* Can it be used? WKR_AGAIN: not yet. The caller keeps it from ending. */
CUresult wkr_function_want(struct wkr_function *function);
/* Lane: the same for the function of a launch's head. */
CUresult wkr_head_want(struct wkr_client *client, const void *head,
		       size_t size);

/* module.c */
/* Gate: load it as mpsModuleLoad would; not in the table or list yet, or
 * already. */
CUresult wkr_module_read(struct wkr_module *module, struct wkr_image *image,
			 uint32_t kind, const void *options,
			 size_t options_size);
/* What of its kernels' doing would be lost with the worker; NULL: nothing.
 * Any thread. */
const char *wkr_module_state(const struct wkr_image *image, uint32_t kind);
/* The loaded module, until unref; or NULL. */
struct wkr_module *wkr_module_ref(struct wkr_client *client, uint64_t handle);
/* Gate: one more load of an image that is no list of fatbins. */
CUresult wkr_image_load(const struct wkr_client *client,
			struct wkr_image *image, const struct wkr_jit *jit,
			CUmodule *native);
void wkr_module_list(struct wkr_module *module);
void wkr_module_free(struct wkr_module *module);
/* function.c. Gate: the function of that name. */
CUresult wkr_function_read(struct wkr_function *function);
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
