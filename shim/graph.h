/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs. A graph lives here in the client, nodes, edges and all; the worker
 * sees it when it is instantiated, in the form that it can run at once.
 * Used by graph*.c, capture*.c and what submits work to capturing streams.
 *
 * One lock guards all graphs, nodes, executable graphs and captures;
 * functions named _locked expect it held.
 */
#ifndef SHIM_GRAPH_H
#define SHIM_GRAPH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "proto/graph.h"
#include "proto/launch.h"
#include "shim/object.h"

struct shim_chan;
struct shim_context;
struct shim_graph;
struct shim_home;
struct shim_launch;
struct shim_node;
struct shim_slot;
struct shim_stream;
struct shim_user;

extern pthread_mutex_t shim_graph_lock;

/* What a kernel node launches. All owned. */
struct shim_kernel_work {
	struct launch_head head;     /* stream 0 */
	struct launch_attr *attrs;   /* head.nattrs */
	uint8_t *params;
	uint32_t param_bytes;
	void **list;                 /* for whoever asks for the parameters */
};

/* What a conditional node chooses from. All owned. */
struct shim_branch_work {
	CUgraphConditionalHandle condition;
	CUgraphConditionalNodeType type;
	uint32_t count;
	struct shim_graph **bodies;
	CUgraph *list;               /* their handles, for the program */
};

/* What a memory node allocates or frees. */
struct shim_memory_work {
	struct shim_slot *slot;      /* graph_mem.c: a reference */
	CUDA_MEM_ALLOC_NODE_PARAMS params;   /* of a free node: dptr */
	CUmemAccessDesc *access;     /* owned: params' */
};

/* What a node does. */
struct shim_work {
	CUgraphNodeType type;
	union {
		struct shim_kernel_work kernel;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS fill;
		CUDA_HOST_NODE_PARAMS host;
		CUevent event;
		struct shim_graph *child;   /* owned */
		struct shim_branch_work branch;
		struct shim_memory_work memory;
		CUDA_BATCH_MEM_OP_NODE_PARAMS memops;   /* paramArray owned */
	};
};

/* The graphs in a node, if any. */
static inline struct shim_graph *const *
shim_work_graphs(const struct shim_work *work, uint32_t *out_count)
{
	bool is_branch = work->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;

	*out_count = is_branch ? work->branch.count :
		     work->type == CU_GRAPH_NODE_TYPE_GRAPH;
	return is_branch ? work->branch.bodies : &work->child;
}

struct shim_edge {
	struct shim_node *from;
	CUgraphEdgeData data;
};

/* A set of places in a graph: what something comes after. */
struct shim_edges {
	struct shim_edge *items;
	uint32_t count, room;
};

struct shim_node {
	struct shim_object object;   /* handle 0: nobody has asked for it */
	uint64_t id;                 /* unique in the process, never reused */
	uint64_t origin;             /* in a clone: the id of what it copies */
	struct shim_graph *graph;
	uint32_t index;
	struct shim_work work;
	struct shim_edges deps;
};

struct shim_graph {
	struct shim_object object;   /* handle 0: an executable graph's own */
	uint64_t id;
	uint64_t origin;
	struct shim_node **nodes;
	uint32_t count, room;
	bool capturing;              /* nothing may be taken away */
	bool child;                  /* belongs to a node */
	bool moved;                  /* and was the program's own before, or
				      * is the body of a conditional node */
	struct shim_node *owner;     /* of a child: the node */
	struct shim_home *home;      /* graph_branch.c: a reference; only of
				      * one that belongs to no node */
	struct shim_user_ref *users; /* graph_user.c */
};

/* graph.c */
struct shim_graph *shim_graph_new(struct shim_context *ctx, bool handle);
void shim_graph_free_locked(struct shim_graph *graph);
/* A copy with its own handles, or, without, an executable graph's. */
struct shim_graph *shim_graph_clone_locked(const struct shim_graph *graph,
					   struct shim_context *ctx,
					   bool handle);
struct shim_graph *shim_graph_get_locked(CUgraph handle);
struct shim_node *shim_node_get_locked(CUgraphNode handle);
/* The node's handle, minted when it is first asked for; NULL: no memory. */
CUgraphNode shim_node_handle_locked(struct shim_node *node);
/* Takes work over, on failure too. deps may be NULL. */
CUresult shim_node_add_locked(struct shim_graph *graph, struct shim_work *work,
			      const struct shim_edges *deps,
			      struct shim_node **out_node);
/* Make graph itself the child of a node without work. Nothing is taken over
 * on failure. */
CUresult shim_node_move_locked(struct shim_node *node,
			       struct shim_graph *child);
void shim_node_remove_locked(struct shim_node *node);
/* The work becomes the node's, with the graphs in it. */
void shim_node_take(struct shim_node *node, const struct shim_work *work);
CUresult shim_node_depend_locked(struct shim_node *node,
				 struct shim_node *from,
				 const CUgraphEdgeData *data);
CUresult shim_edges_add(struct shim_edges *edges, struct shim_node *from,
			const CUgraphEdgeData *data);
CUresult shim_edges_copy(struct shim_edges *to,
			 const struct shim_edges *from);
void shim_edges_clear(struct shim_edges *edges);
bool shim_edges_have(const struct shim_edges *edges,
		     const struct shim_node *from);

/* graph_node.c */
CUresult shim_deps_read_locked(const CUgraphNode *deps,
			       const CUgraphEdgeData *data, size_t count,
			       struct shim_edges *out);
/* Takes work over, on failure too. */
CUresult shim_graph_add_locked(CUgraph handle, const CUgraphNode *deps,
			       const CUgraphEdgeData *data, size_t count,
			       struct shim_work *work, struct shim_node **out);

/* graph_work.c: parameters checked and taken over, as at a launch. */
CUresult shim_work_kernel(const CUDA_KERNEL_NODE_PARAMS *p,
			  struct shim_work *out);
CUresult shim_work_launch(const struct shim_launch *launch,
			  const uint8_t *params, struct shim_work *out);
CUresult shim_work_copy(const CUDA_MEMCPY3D *p, struct shim_work *out);
CUresult shim_work_fill(const CUDA_MEMSET_NODE_PARAMS *p,
			struct shim_work *out);
/* Whose destination is looked at no sooner than when the graph is
 * instantiated: cuDNN captures what it never runs, at made-up addresses. */
CUresult shim_work_captured_fill(const CUDA_MEMSET_NODE_PARAMS *p,
				 struct shim_work *out);
CUresult shim_work_host(const CUDA_HOST_NODE_PARAMS *p, struct shim_work *out);
CUresult shim_work_event(CUevent event, bool wait, struct shim_work *out);
CUresult shim_work_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
			  struct shim_work *out);
CUresult shim_work_any(const CUgraphNodeParams *p, struct shim_work *out);
void shim_work_clear_locked(struct shim_work *work);
CUresult shim_work_clone_locked(const struct shim_work *work,
				struct shim_work *out);
/* The linear form of a copy. Which ends are the program's own memory, that
 * the worker does not reach, is told by the flags. */
enum { GRAPH_SRC_PAGEABLE = 1, GRAPH_DST_PAGEABLE = 2 };
static inline bool
shim_copy_has_array(const CUDA_MEMCPY3D *p)
{
	return p->srcMemoryType == CU_MEMORYTYPE_ARRAY ||
	       p->dstMemoryType == CU_MEMORYTYPE_ARRAY;
}
CUresult shim_copy_linear(const CUDA_MEMCPY3D *p, struct graph_copy *out,
			  unsigned int *out_flags);

/* graph_branch.c */
CUresult shim_work_branch(const CUDA_CONDITIONAL_NODE_PARAMS *p,
			  struct shim_work *out);
void shim_branch_clear_locked(struct shim_branch_work *branch);
CUresult shim_branch_clone_locked(const struct shim_branch_work *branch,
				  struct shim_branch_work *out);
/* May a node with that work be added to the graph? */
CUresult shim_branch_check_locked(const struct shim_graph *graph,
				  const struct shim_work *work);
/* The node's condition is used, or not any more. */
void shim_branch_use_locked(const struct shim_node *node, bool used);
/* Has it conditional nodes, anywhere? */
bool shim_graph_branches(const struct shim_graph *graph);

/* graph_attr.c */
/* False: there is no such attribute. */
bool shim_work_get_attr(const struct shim_kernel_work *k,
			CUkernelNodeAttrID id, CUkernelNodeAttrValue *out);
CUresult shim_work_set_attr(struct shim_kernel_work *k, CUkernelNodeAttrID id,
			    const CUkernelNodeAttrValue *value);
CUresult shim_work_copy_attrs(struct shim_kernel_work *to,
			      const struct shim_kernel_work *from);
/* New parameters of a node take over the attributes of the old ones. */
void shim_work_keep_attrs(struct shim_kernel_work *old,
			  struct shim_kernel_work *k);

#endif
