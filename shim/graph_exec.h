/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs.
 * Used by graph_exec.c (flattening), graph_depth.c (its order), graph_build.c
 * (to the worker), graph_launch.c, graph_set.c and graph_update.c (entry
 * points), graph_api.c.
 *
 * The worker runs graphs of kernels, copies and fills. Host functions never
 * enter the driver, and memory that the worker does not reach is copied
 * by this process at each launch. So a graph becomes segments: what
 * depends on no host step, what depends on one, and so on; between two of
 * them stand the host steps, as host functions of the stream. A plain graph
 * is one segment. Nodes of memory operations are host steps too, and go to
 * the stream: a wait in the driver's graph would hold a hardware queue, and
 * with it streams of others.
 *
 * Bodies of conditional nodes are the driver's to run, so no host step can be
 * in them, and all conditional nodes are in one segment.
 */
#ifndef SHIM_GRAPH_EXEC_H
#define SHIM_GRAPH_EXEC_H

#include "shim/graph.h"

enum shim_item_kind {
	ITEM_NODE,      /* the node's work, as it is */
	ITEM_EMPTY,     /* the edges of a child graph */
	ITEM_COPY,      /* the reachable half of a copy: `copy` */
	ITEM_HOST,      /* the node's host function */
	ITEM_HOST_COPY, /* the other half: `copy`, by memcpy here */
	ITEM_MEMOPS,    /* the node's memory operations */
};

struct box;

struct shim_item {
	enum shim_item_kind kind;
	struct shim_node *node;      /* of exec->source */
	struct graph_copy copy;      /* ITEM_NODE of a copy: its linear form */
	struct box *box;             /* or, owned, its form with arrays */
	void *bounce;                /* pinned memory that a HOST_COPY owns */
	uint32_t depth;              /* host steps before it */
	uint32_t index;              /* in its segment */
	uint32_t body;               /* that it is in; 0: the graph itself */
	bool disabled;
};

/* Does it stand between segments? */
static inline bool
shim_item_is_step(const struct shim_item *item)
{
	return item->kind == ITEM_HOST || item->kind == ITEM_HOST_COPY ||
	       item->kind == ITEM_MEMOPS;
}

struct shim_item_edge {
	uint32_t from, to;
	CUgraphEdgeData data;
};

struct shim_flat {
	struct shim_item *items;
	uint32_t count, room;
	struct shim_item_edge *edges;
	uint32_t nedges, edges_room;
	uint32_t depths;             /* segments */
	uint32_t *owners;            /* of body b, b - 1: the item of its
				      * conditional node */
	uint32_t nowners;
	uint32_t branch_depth;       /* of all conditional nodes */
	bool has_host, has_events, has_memory, has_bounce;
};

/* A wire object of its own: executable graph in the worker. Begins as
 * shim_exec does. */
struct shim_segment {
	struct shim_object object;
	bool is_segment;             /* true */
	uint32_t nodes;         /* and changes of body */
	uint64_t edges;
};

struct shim_exec {
	struct shim_object object;
	bool is_segment;             /* false */
	bool forgotten;              /* its graph is gone */
	_Atomic uint32_t refs;       /* the handle, and runs under way */
	struct shim_chan *chan;
	unsigned long long flags;
	uint64_t graph_id;           /* that it was made of */
	CUevent order;               /* several segments: end of a launch */
	bool launched;
	pthread_mutex_t lock;        /* one launch or change at a time; taken
				      * before shim_graph_lock */
	struct shim_graph *source;   /* clone; changed under both locks */
	struct shim_flat flat;
	struct shim_segment **segments;   /* flat.depths; NULL: empty. No
				      * list: rebuilding it has failed */
	struct shim_home *home;      /* a reference, or NULL: the segment with
				      * the conditional nodes is built there */
	struct shim_exec *next;      /* of all, under shim_graph_lock */
};

/* graph_exec.c. Flatten exec->source; allocates bounce memory in ctx. */
CUresult shim_flat_make(const struct shim_graph *graph,
			struct shim_context *ctx, struct shim_flat *out);
void shim_flat_free(struct shim_flat *flat);
/* graph_depth.c. CUDA_ERROR_INVALID_VALUE: a circle. */
CUresult shim_flat_order(struct shim_flat *flat);
/* graph_exec.c. The copy that a HOST_COPY stands for, done here. */
void shim_copy_rows(const struct graph_copy *copy);

/* graph_build.c */
/* Make every segment in the worker; home: see struct shim_exec. */
CUresult shim_segments_make(struct shim_chan *chan,
			    const struct shim_flat *flat,
			    const struct shim_home *home,
			    unsigned long long flags,
			    struct shim_segment ***out_segments);
void shim_segments_end(struct shim_chan *chan, struct shim_segment **segments,
		       uint32_t count);
/* NULL does nothing. */
void shim_segment_drop(struct shim_chan *chan, struct shim_segment *segment);
/* Send the one segment of a plain graph, without instantiating it. */
CUresult shim_segment_send(struct shim_chan *chan,
			   const struct shim_flat *flat, uint32_t depth,
			   const struct shim_home *home,
			   struct shim_segment **out_segment);

/* graph_set.c. What stands for a node of the graph that it was made of; NULL
 * when there is none of that type. type -1: any. */
struct shim_item *shim_exec_item(struct shim_exec *exec, CUgraphNode node,
				 int type);

/* graph_update.c. Build anew, with another copy in that node of exec->source;
 * exec->lock is held. */
CUresult shim_exec_recopy(struct shim_exec *exec, const struct shim_node *node,
			  const CUDA_MEMCPY3D *copy);

/* graph_launch.c */
/* With one more reference; NULL: no executable graph. */
struct shim_exec *shim_exec_get(CUgraphExec handle);
void shim_exec_put(struct shim_exec *exec);
/* The graph is gone: its nodes will not be named again. Posts nothing while
 * the lock is held; see shim_exec_forget. */
void shim_exec_forget_locked(const struct shim_graph *graph);
void shim_exec_forget(void);

#endif
