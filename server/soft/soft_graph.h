/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs, their executable form, and stream capture.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_GRAPH_H
#define SERVER_SOFT_SOFT_GRAPH_H

#include "server/soft/soft_event.h"
#include "server/soft/soft_work.h"

struct soft_cond;
struct soft_held;

struct soft_node {
	struct soft_graph *graph;
	CUgraphNodeType type;
	struct soft_work *work;
	struct soft_node **deps;       /* what must end before */
	unsigned dep_count, dep_room;
	unsigned index;                /* in graph->nodes */
	const struct soft_node *origin;   /* in a clone: of what */
	void **param_list;             /* for cuGraphKernelNodeGetParams */
};

struct soft_graph {
	struct soft_node **nodes;
	unsigned count, room;
	bool is_child;                 /* belongs to a node */
	bool is_moved;                 /* and was the program's own before */
	struct soft_held *held;        /* user objects */
	struct soft_graph *outer;      /* that it is in, or NULL */
	struct soft_cond *conds;       /* made for it; of an outermost one */
};

/* A node of an executable graph; children are flattened into it. */
struct soft_item {
	const struct soft_node *node;  /* of the source, by address only */
	struct soft_work *work;        /* owned */
	unsigned *deps;                /* owned: items before it */
	unsigned dep_count;
	bool disabled;
};

struct soft_exec {
	_Atomic unsigned refs;         /* handle, launches */
	struct soft_ctx *ctx;
	struct soft_graph *source;     /* a clone, for captured launches */
	struct soft_item *items;
	unsigned count, room;
	unsigned long long flags;
	struct soft_mark *last;        /* of the last launch; sched.lock */
};

/* One launch of an executable graph. */
struct soft_run {
	struct soft_exec *exec;
	struct soft_op *op;            /* stands in the stream */
	struct soft_op **ops;          /* one for each item */
	unsigned count, left;
	bool started;                  /* ops end by themselves */
	bool is_body;                  /* of op, a conditional node's */
};

/* Guards graphs, nodes, executable graphs, captures. Taken before
 * soft_sched.lock. */
extern pthread_mutex_t soft_graph_lock;

struct soft_graph *soft_graph_new(void);
struct soft_graph *soft_graph_clone(const struct soft_graph *graph);
void soft_graph_free(struct soft_graph *graph);
/* Takes over work, also on failure. */
CUresult soft_node_add(struct soft_graph *graph, CUgraphNodeType type,
		       struct soft_work *work, struct soft_node *const *deps,
		       size_t count, struct soft_node **out);
CUresult soft_node_depend(struct soft_node *node, struct soft_node *on);
/* The last node added to its graph, taken back. */
void soft_node_unadd(struct soft_node *node);
/* Makes the graph itself the child of a node that does nothing. Takes nothing
 * over on failure. */
CUresult soft_node_move(struct soft_node *node, struct soft_graph *child);
void soft_node_free(struct soft_node *node);
/* soft_graph_more.c: user objects. */
bool soft_held_clone(struct soft_graph *to, const struct soft_graph *from);
void soft_held_free(struct soft_graph *graph);

CUresult soft_exec_new(struct soft_graph *graph, struct soft_ctx *ctx,
		       struct soft_exec **out);
void soft_exec_unref(struct soft_exec *exec);
struct soft_item *soft_exec_item(struct soft_exec *exec,
				 const struct soft_node *node);
CUresult soft_run_new(struct soft_exec *exec, struct soft_ctx *ctx,
		      struct soft_run **out);
/* The same for a body, under soft_sched.lock, from where it also starts. */
CUresult soft_run_body_locked(struct soft_exec *exec, struct soft_op *op);
struct soft_mark *soft_run_after_locked(const struct soft_run *run);
/* A graph's executable form without a handle. NULL, with the reason. */
struct soft_exec *soft_exec_body(struct soft_graph *graph,
				 struct soft_ctx *ctx, CUresult *out_res);

/* soft_branch.c */
/* Has it conditional nodes, anywhere? */
bool soft_graph_branches(const struct soft_graph *graph);
void soft_conds_free(struct soft_graph *graph);
/* The node is going to be destroyed, and its condition free for another. */
void soft_conds_idle(const struct soft_node *node);
/* What conditional nodes stand for in an executable graph. */
struct soft_work *soft_branch_item(const struct soft_work *node,
				   struct soft_ctx *ctx);
/* A launch begins: conditions get their defaults. From what the run has of
 * its own: the executable graph's items may be set meanwhile. */
void soft_conds_begin(const struct soft_run *run);
/* Has it any? Its owner asks, who does not set its items meanwhile. */
bool soft_conds_any(const struct soft_exec *exec);
/* An executable graph takes the conditions, if no other has them, or gives
 * them back. */
CUresult soft_conds_take(const struct soft_graph *graph,
			 const struct soft_exec *exec);
/* Has the graph conditions that no node has? */
bool soft_conds_unused(CUgraph handle);
void soft_conds_give(const struct soft_exec *exec);
CUresult soft_branch_add(CUgraphNode *out, CUgraph graph,
			 const CUgraphNode *deps, size_t count,
			 CUDA_CONDITIONAL_NODE_PARAMS *p);
/* soft_graph_api.c. Takes over work. */
CUresult soft_graph_add(CUgraphNode *out, CUgraph graph,
			const CUgraphNode *deps, size_t count,
			struct soft_work *work);

void soft_node_set(struct soft_node *node, struct soft_work *work);
/* soft_graph_exec.c. Takes over work; the item must do the same kind of thing
 * already. */
CUresult soft_item_set(CUgraphExec exec, CUgraphNode node,
		       CUgraphNodeType type, struct soft_work *work);

/* soft_graph_api.c: work out of node parameters, checked. */
CUresult soft_graph_kernel_work(const CUDA_KERNEL_NODE_PARAMS *p,
				struct soft_work **out);
CUresult soft_graph_copy_work(const CUDA_MEMCPY3D *p, struct soft_work **out);
CUresult soft_graph_set_work(const CUDA_MEMSET_NODE_PARAMS *p,
			     struct soft_work **out);
CUresult soft_graph_host_work(const CUDA_HOST_NODE_PARAMS *p,
			      struct soft_work **out);
CUresult soft_graph_event_work(CUevent handle, enum soft_work_kind kind,
			       struct soft_work **out);
/* soft_graph_memop.c */
CUresult soft_graph_memop_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
			       struct soft_work **out);

CUgraphNodeType soft_node_type_of(const struct soft_work *work);

#endif
