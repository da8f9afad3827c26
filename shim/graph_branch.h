/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of conditions.
 * Used by graph*.c.
 *
 * They go to kernels by value, so they are the driver's, and with the first
 * one that is asked for, the worker makes the graph of the driver's that they
 * belong to: the graph's home. It is built in when the graph is instantiated.
 */
#ifndef SHIM_GRAPH_BRANCH_H
#define SHIM_GRAPH_BRANCH_H

#include "shim/graph.h"

struct shim_segment;

struct shim_condition {
	CUgraphConditionalHandle handle;
	bool used;                   /* by a node */
};

/* Under shim_graph_lock. */
struct shim_home {
	uint32_t refs;               /* of the graph, of an executable one */
	struct shim_chan *chan;
	struct shim_segment *segment;   /* in the worker */
	struct shim_condition *conditions;
	uint32_t count;
	bool instantiated;           /* one executable graph at a time */
	struct shim_home *next;      /* of those to end */
};

/* NULL does nothing. Who puts one also calls shim_homes_end, once the lock
 * has been given back. */
void shim_home_put_locked(struct shim_home *home);
void shim_homes_end(void);
/* Some condition is no node's. */
bool shim_home_idles_locked(const struct shim_home *home);

#endif
