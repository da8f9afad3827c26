/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions: what a launch needs to know of a kernel in one context.
 * Used by launches, occupancy, modules and libraries.
 */
#ifndef SHIM_FUNCTION_H
#define SHIM_FUNCTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "proto/function.h"
#include "shim/object.h"

struct shim_context;
struct shim_kernel;
struct shim_module;
struct shim_setup;

/* Blocks that every device with clusters can have in one (cuda.h, "portable"). */
#define PORTABLE_CLUSTER 8

/*
 * Attributes that a client may set. They are this client's alone: the
 * CUfunction in the worker is shared and never changed; what matters to the
 * GPU goes with each launch. A kernel's are one set per device, shared by its
 * functions in all contexts.
 */
struct shim_settings {
	_Atomic int max_dynamic;      /* bytes; -1: the default */
	_Atomic int carveout;         /* percent; -1: none */
	_Atomic int cluster[3];       /* 0: none */
	_Atomic int non_portable;
	_Atomic int policy;           /* CUclusterSchedulingPolicy */
	_Atomic int cache;            /* CUfunc_cache, a hint */
	_Atomic bool ready;           /* initial values are in */
};

/* One answer of the occupancy calculator. */
struct shim_occupancy {
	uint32_t kind;                /* enum occupancy_kind; 0: none */
	int32_t a, b;
	uint64_t c;
	uint64_t answer;
};
#define FUNCTION_OCCUPANCIES 8u

struct shim_function {
	struct shim_object object;    /* ctx: the module's */
	struct shim_module *module;
	struct shim_kernel *kernel;   /* of a library, or NULL */
	char *name;
	/* Owned, set once; NULL: enumerated, not yet asked for. */
	_Atomic(struct function_info *) info;
	struct shim_settings *settings;   /* own, or the kernel's */
	struct shim_settings own;
	struct shim_function *next;   /* in its module's bucket */
	struct shim_occupancy occupancy[FUNCTION_OCCUPANCIES];
	unsigned int next_occupancy;  /* both under occupancy.c's lock */
	struct shim_setup *setup;     /* launch_set.c's; owned */
	void *next_free;              /* pool's */
};

/* Mint one and add nothing to the module; NULL without memory. */
struct shim_function *shim_function_make(struct shim_module *module,
					 const char *name,
					 struct shim_kernel *kernel);
/* Ask the worker for it, once. CUDA_ERROR_NOT_FOUND. */
CUresult shim_function_load(struct shim_function *function);
void shim_function_end(struct shim_function *function);

/*
 * The function that a CUfunction is, or that a CUkernel means in a live
 * context, loaded. CUDA_ERROR_INVALID_HANDLE.
 */
CUresult shim_function_in(CUfunction handle, struct shim_context *ctx,
			  struct shim_function **out_function);
/* The same in the current context. */
CUresult shim_function_find(CUfunction handle,
			    struct shim_function **out_function);

/* Attributes of a loaded function, with the settings in. */
CUresult shim_function_attribute(struct shim_function *function,
				 CUfunction_attribute attribute, int *out);
CUresult shim_function_set(struct shim_function *function,
			   CUfunction_attribute attribute, int value);
/* Dynamic shared memory that a launch may have, in bytes. */
int shim_function_max_dynamic(const struct shim_function *function);
CUresult shim_function_param(struct shim_function *function, size_t index,
			     size_t *offset, size_t *size);

#endif
