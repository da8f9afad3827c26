/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries, modules, kernels.
 * Called by server/soft/soft_*.c only.
 *
 * A library is an image and the names of its kernels. A module is a library
 * brought into one context: its variables have addresses there. Loading a
 * module makes both at once. A CUkernel is of the library, a CUfunction of
 * the module.
 */
#ifndef SERVER_SOFT_SOFT_MODULE_H
#define SERVER_SOFT_SOFT_MODULE_H

#include "server/soft/ptx.h"
#include "server/soft/soft_ctx.h"
#include "server/soft/soft_image.h"

struct soft_param {
	size_t offset, size;         /* bytes */
};

/* What is known about a kernel, whichever kind of image it comes from. */
struct soft_kernel_info {
	const char *name;
	const struct soft_param *params;
	unsigned nparams;
	size_t param_size, shared_static, local_bytes, const_bytes;
	unsigned regs, max_threads;
	unsigned req_cluster[3];
	unsigned ptx_version, target;
	bool cooperative;
};

/* Attributes that a program may set, per CUkernel and per CUfunction. */
struct soft_func_attrs {
	int max_dynamic_shared;      /* bytes */
	int carveout;                /* percent, -1: default */
	int cluster_must_be_set;
	int required_cluster[3];
	int non_portable_cluster;
	int cluster_scheduling;
};

struct soft_kernel {
	struct soft_library *library;
	unsigned index;
	struct soft_kernel_info info;
	struct soft_func_attrs attrs;
};

struct soft_func {
	struct soft_module *module;
	const struct soft_kernel *kernel;
	const struct ptx_kernel *ptx;    /* NULL: machine code */
	struct soft_func_attrs attrs;
	bool own_attrs;                  /* set on the function itself */
	_Atomic bool warned;             /* the 209 line was printed */
};

struct soft_variable {
	const char *name;
	uint64_t addr;
	size_t size;                     /* bytes */
	bool managed;
};

struct soft_module {
	struct soft_library *library;    /* referenced */
	struct soft_ctx *ctx;
	bool of_library;                 /* lives as long as the library */
	struct ptx_module *ptx;          /* or NULL */
	struct soft_func *funcs;         /* kernel_count of the library */
	struct soft_variable *variables;
	unsigned variable_count;
	uint64_t memory;                 /* base of the symbol range, or 0 */
	struct soft_module *next;        /* of the library */
};

struct soft_library {
	unsigned refs;
	struct soft_image image;
	struct soft_elf elf;
	struct ptx_module *first;        /* parsed, not placed; or NULL */
	struct soft_kernel *kernels;
	unsigned kernel_count;
	struct soft_param *params;       /* of all kernels */
	struct soft_module *modules;     /* by next */
};

struct soft_jit;

/* Guards libraries and modules. Taken after the gate, before
 * soft_sched.lock. */
extern pthread_mutex_t soft_module_lock;

CUresult soft_library_new(struct soft_library **out, const void *data,
			  size_t limit, struct soft_jit *jit);
/* SOFTCUDA_FAULT load: does not return if the image is to be deadly. */
void soft_image_fault(const struct soft_image *image);
void soft_library_unref_locked(struct soft_library *library);
/* The library's module in ctx, made when it is not there. Enters the gate,
 * drains: called without locks. */
CUresult soft_module_in(struct soft_library *library, struct soft_ctx *ctx,
			bool of_library, struct soft_module **out);
void soft_module_free_locked(struct soft_module *module);
void soft_modules_destroy(struct soft_ctx *ctx);
struct soft_variable *soft_module_variable(struct soft_module *module,
					   const char *name);

/* A CUfunction, or a CUkernel in the context: launches take both. */
CUresult soft_func_from(CUfunction handle, struct soft_ctx *ctx,
			struct soft_func **out);
const struct soft_func_attrs *soft_func_attrs(const struct soft_func *func);
const struct soft_kernel_info *soft_func_info(const struct soft_func *func);

/* soft_occupancy.c */
struct soft_occupancy_in {
	unsigned threads;             /* of a block */
	size_t dyn_shared;            /* bytes */
};
unsigned soft_occupancy_blocks(const struct soft_func *func,
			       struct soft_occupancy_in in);

/* soft_jit.c: options of loads and links. */
struct soft_jit {
	char *info, *error;           /* the program's buffers, or NULL */
	size_t info_size, error_size; /* bytes */
	float *wall_time;
	void **info_size_slot, **error_size_slot, **wall_slot;
	uint64_t started_ns;
	char log[4096];               /* of the last parse */
};

CUresult soft_jit_open(struct soft_jit *jit, unsigned count,
		       const CUjit_option *options, void **values);
/* Report the outcome into the program's buffers. */
void soft_jit_close(struct soft_jit *jit);

#endif
