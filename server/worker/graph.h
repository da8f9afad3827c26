/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as the driver has them: built of what a client sends, instantiated,
 * launched.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_GRAPH_H
#define SERVER_WORKER_GRAPH_H

#include "proto/graph.h"
#include "server/worker/call.h"
#include "server/worker/launch_attrs.h"

struct wkr_module;

enum wkr_graph_state {
	WKR_GRAPH_BUILDING, /* its client's lane may add to it */
	WKR_GRAPH_BUSY,	    /* somebody does something to it */
	WKR_GRAPH_READY,    /* instantiated: the lane's */
};

/* What the driver must find when it runs a node. */
struct wkr_needs {
	struct wkr_module *module; /* a reference, or NULL */
	struct wkr_record *record; /* a reference, or NULL */
	uint64_t base[2], size[2]; /* memory that it names; size 0: none */
	uint64_t array[2];	   /* handles, or 0 */
	CUarray native[2];	   /* that they stood for */
};

struct wkr_node {
	CUgraphNode native;
	uint32_t body; /* of g->bodies that it is in */
	struct wkr_needs needs;
};

/*
 * The driver's graph that has the conditions of a client's graph. The handle
 * of a condition goes to kernels by value and means something in the graph
 * that it was made for, so this one outlives what is built in it: whoever
 * builds takes away what the last one has built.
 */
struct wkr_home {
	_Atomic uint32_t refs;
	_Atomic uint32_t ending; /* executable graphs of it that the helper
				  * has still to end */
	CUgraph graph;
	struct wkr_graph *user; /* whose nodes are in it; the lane's */
};

struct wkr_graph {
	CUgraphExec native; /* first member (struct wkr_object) */
	CUgraph graph;	    /* NULL once its nodes are not named again */
	struct wkr_home *home; /* a reference: the graph is its, or NULL */
	struct wkr_client *client;
	_Atomic uint32_t state;
	_Atomic uint64_t parts; /* nodes, bodies, edges that have come */
	/* With the state: whoever made it BUSY, or the lane of a READY one. */
	struct wkr_node *nodes;
	uint32_t count, room;
	CUgraph *bodies; /* of conditional nodes, from number 1 on */
	uint32_t nbodies, into;
	CUresult error; /* of the first part that failed */
	bool leaving; /* counted in home->ending */
	bool printing;
	struct wkr_printer printer;
	bool names_memory, names_arrays;
	uint64_t checked; /* client->ranges.changes when all was covered */
	uint64_t behind;  /* backlog.c */
};

/* It has another kernel, which could print or not. */
static inline void
wkr_graph_prints(struct wkr_graph *g, bool printing)
{
	g->printing |= printing;
	atomic_store(&g->printer.launches, 0);
}

/* graph_node.c: one node's parameters for the driver, everything in them
 * checked; `needs` is filled, with references. */
CUresult wkr_node_kernel(struct wkr_call *call, const void *head,
			 size_t head_size, const void *params,
			 size_t params_size, const void *attrs,
			 size_t attrs_size, struct wkr_launch *launch,
			 CUDA_KERNEL_NODE_PARAMS *out, void **extra,
			 struct wkr_needs *needs, bool *out_printing);
CUresult wkr_node_copy(struct wkr_call *call, const void *copy, size_t size,
		       CUDA_MEMCPY3D *out, struct wkr_needs *needs);
/* The same with arrays; box.c. */
CUresult wkr_node_box(struct wkr_call *call, const void *box, size_t size,
		      CUDA_MEMCPY3D *out, struct wkr_needs *needs);
CUresult wkr_node_fill(struct wkr_call *call, uint64_t dst, uint64_t pitch,
		       uint32_t element, uint32_t value, uint64_t width,
		       uint64_t height, CUDA_MEMSET_NODE_PARAMS *out,
		       struct wkr_needs *needs);
CUresult wkr_node_event(struct wkr_call *call, uint64_t event,
			struct wkr_needs *needs);
void wkr_needs_drop(struct wkr_needs *needs);

/* graph.c */
void wkr_graph_free(struct wkr_graph *graph);
/* Does that wait for everybody's kernels, with the context locked? */
bool wkr_graph_drains(const struct wkr_graph *graph);
/* Free it when the device allows; never waits. */
void wkr_graph_drop(struct wkr_graph *graph);
/* A graph to add to, BUSY, and its next node; NULL: none such. */
struct wkr_graph *wkr_graph_begin_node(struct wkr_call *call, uint64_t graph,
				       struct wkr_node **out);
CUresult wkr_graph_end_node(struct wkr_graph *g, struct wkr_node *node,
			    CUresult r);

/* graph_branch.c */
void wkr_home_drop(struct wkr_graph *graph);
/* The lane's: it is about to end. */
void wkr_home_leave(struct wkr_graph *graph);
/* An update has made the nodes of `from` those of `graph`. */
void wkr_home_pass(struct wkr_graph *graph, struct wkr_graph *from);
/* Where nodes go. */
static inline CUgraph
wkr_graph_target(const struct wkr_graph *graph)
{
	return graph->into ? graph->bodies[graph->into - 1] : graph->graph;
}
static inline bool
wkr_graph_take(struct wkr_graph *graph, enum wkr_graph_state from)
{
	uint32_t old = from;

	/* Acquire and, in wkr_graph_give, release: what one thread built, the
	 * next one sees. */
	return atomic_compare_exchange_strong_explicit(
		&graph->state, &old, WKR_GRAPH_BUSY, memory_order_acquire,
		memory_order_relaxed);
}
static inline void
wkr_graph_give(struct wkr_graph *graph, enum wkr_graph_state to)
{
	atomic_store_explicit(&graph->state, to, memory_order_release);
}

#endif
