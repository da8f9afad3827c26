/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries and kernels: code that belongs to no context.
 * Used by kernels, launches and context teardown.
 *
 * A library is loaded as a module wherever a context uses it, at first use;
 * the handles stay good when a context ends and comes back.
 */
#ifndef SHIM_LIBRARY_H
#define SHIM_LIBRARY_H

#include <pthread.h>

#include "shim/code.h"
#include "shim/function.h"
#include "shim/object.h"

struct shim_library {
	struct shim_object object;      /* ctx NULL */
	struct shim_code code;
	pthread_mutex_t naming;         /* held while a new kernel is asked
					 * for; `lock` is taken inside */
	pthread_mutex_t lock;           /* guards what follows; a module's lock
					 * may be taken inside */
	struct shim_module *modules;    /* by sibling */
	struct shim_kernel *buckets[64];    /* by name */
	void *next_free;                /* pool's */
};

struct shim_kernel {
	struct shim_object object;      /* ctx NULL */
	struct shim_library *library;
	char *name;
	struct shim_kernel *next;       /* in its library's bucket */
	/* The function used last; whoever takes it checks its context. */
	_Atomic(struct shim_function *) last;
	/* One for each visible device, allocated with the kernel. */
	struct shim_settings *settings;
	void *next_free;                /* pool's */
};

struct shim_library *shim_library_get(CUlibrary handle);
/* The library as a module of a live context, or (ctx NULL) of any, loaded if
 * need be. device matters without a context: -1 for any. */
CUresult shim_library_module(struct shim_library *library,
			     struct shim_context *ctx, int device,
			     struct shim_module **out_module);
/* Take a context's module out of the library, at the context's end. */
void shim_library_forget(struct shim_library *library,
			 struct shim_module *module);

CUresult shim_kernel_find(struct shim_library *library, const char *name,
			  struct shim_kernel **out_kernel);
/* Its function in a live context (ctx), or on a device (ctx NULL; -1: any). */
CUresult shim_kernel_function(struct shim_kernel *kernel,
			      struct shim_context *ctx, int device,
			      struct shim_function **out_function);

#endif
