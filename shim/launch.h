/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch's configuration, checked and put into wire form.
 * Used by launches and by the occupancy calculator.
 */
#ifndef SHIM_LAUNCH_H
#define SHIM_LAUNCH_H

#include <stddef.h>

#include "api_cuda.h"
#include "proto/launch.h"

struct shim_context;
struct shim_function;

/* What is to be posted, but for the parameters. */
struct shim_launch {
	struct shim_function *function;
	struct launch_head head;
	/* Not initialised beyond head.nattrs. */
	struct launch_attr attrs[LAUNCH_ATTRS_MAX];
	unsigned int cluster[3];     /* from an attribute; 0: none */
};

/* Take over dimensions and attributes; events in them must be live. The
 * function's own settings follow where the configuration is silent. */
CUresult shim_launch_config(struct shim_launch *launch,
			    const CUlaunchConfig *config);
/* Unless it has such an attribute. */
CUresult shim_launch_add(struct shim_launch *launch, CUlaunchAttributeID id,
			 const void *value, size_t size);
/* Is the value one that an attribute can have? */
CUresult shim_launch_value(int device, CUlaunchAttributeID id,
			   const CUlaunchAttributeValue *v);
/* The events of its attributes count as recorded: it is about to be posted. */
void shim_launch_events(const struct shim_launch *launch);
/* A launch of f in ctx with everything checked, and its parameter block,
 * which is the caller's to free. */
CUresult shim_launch_make(CUfunction f, struct shim_context *ctx,
			  const CUlaunchConfig *config, void **params,
			  void **extra, struct shim_launch *launch,
			  uint8_t **out_block);
/* Blocks in a cluster, 1 without; CUDA_ERROR_INVALID_CLUSTER_SIZE. */
CUresult shim_launch_cluster(const struct shim_launch *launch,
			     unsigned int *out_blocks);

#endif
