/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: code loaded in the worker, and the functions taken out of it.
 * Used by libraries, kernels, launches and context teardown.
 */
#ifndef SHIM_MODULE_H
#define SHIM_MODULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "shim/code.h"
#include "shim/object.h"

struct shim_chan;
struct shim_context;
struct shim_function;
struct shim_kernel;
struct shim_library;

#define MODULE_BUCKETS 64u

struct shim_module {
	struct shim_object object;   /* ctx NULL: a library's, before any
				      * context has used it */
	uint64_t ctx_id;             /* of object.ctx when it was loaded */
	struct shim_chan *chan;
	int device;
	struct shim_code code;
	struct shim_library *library;   /* NULL: of cuModuleLoad and kin */
	struct shim_module *sibling;    /* of the same library, under its
					 * lock */
	uint32_t kernels;            /* how many functions there are */
	_Atomic bool ended;          /* being unloaded */

	pthread_mutex_t lock;        /* guards what follows */
	struct shim_function *buckets[MODULE_BUCKETS];   /* by name */
	char **names;                /* of all kernels, fetched when asked */
	char *name_text;             /* that they point into */
	void *next_free;             /* pool's */
};

/* Load code that the device's worker has (shim_code_*). ctx may be NULL for
 * a library's. jit NULL: code->options only, logs are dropped. */
CUresult shim_module_load(struct shim_context *ctx, int device,
			  const struct shim_code *code,
			  struct jit_options *jit,
			  struct shim_module **out_module);
/* Forget the module, its functions and the ranges of its globals; unload it
 * in the worker. A library's must be out of its list. */
void shim_module_end(struct shim_module *module);
/* Everything of one context, at its end. */
void shim_module_drop_context(struct shim_context *ctx);

struct shim_module *shim_module_get(CUmodule handle);
/* The name's function, asked of the worker at first sight.
 * CUDA_ERROR_NOT_FOUND. kernel: whose attributes it shares, or NULL. */
CUresult shim_module_function(struct shim_module *module, const char *name,
			      struct shim_kernel *kernel,
			      struct shim_function **out_function);
/* The names of all its kernels, module->kernels of them, in the driver's
 * order; they live as long as the module. */
CUresult shim_module_names(struct shim_module *module, char ***out_names);
/* Address and size of a variable; either pointer may be NULL. */
CUresult shim_module_global(struct shim_module *module, const char *name,
			    CUdeviceptr *dptr, size_t *bytes);

uint32_t shim_name_hash(const char *name);

#endif
