/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graphs: what memory nodes allocate and free.
 * Used by graph*.c, mem.c and mempool_api.c.
 *
 * The address is the node's from the moment on in which it is made, and the
 * memory is set aside with it: allocating and freeing at a launch is
 * bookkeeping here, and the driver sees empty nodes.
 */
#ifndef SHIM_GRAPH_MEM_H
#define SHIM_GRAPH_MEM_H

#include "shim/graph.h"
#include "shim/stream.h"

struct shim_block;
struct shim_exec;

/* Under shim_graph_lock. Allocations of one graph of which one is made after
 * the other has been freed share one. */
struct shim_slot {
	uint32_t refs;               /* of nodes, and if it is allocated */
	uint64_t address, size;
	struct shim_context *ctx;
	struct shim_block *block;    /* NULL: its context has ended */
	uint64_t graph;              /* id: whose nodes allocate it */
	uint64_t last_free;          /* id of that graph's last free node */
	bool open;                   /* that graph does not free it */
	bool elsewhere;              /* another graph does */
	bool allocated;              /* by a launch, and not freed since */
	bool touched;                /* the same, or not trimmed since */
	int32_t balance;             /* of one launch: allocated, not freed */
	bool made;                   /* one launch allocates it */
	struct shim_slot *next;
};

struct shim_stream;

void shim_slot_put_locked(struct shim_slot *slot);
/* What has lost its last reference goes back. Without the lock. */
void shim_slots_end(void);
void shim_slots_drop_context(struct shim_context *ctx);
/* Has the graph memory nodes, anywhere? */
bool shim_graph_allocates(const struct shim_graph *graph);

/* A launch allocates and frees, or must not be. */
CUresult shim_slots_launch(struct shim_exec *exec,
			   const struct shim_stream *stream);
/* cuMemFree and cuMemFreeAsync of what a launch has left allocated. */
CUresult shim_slot_free(uint64_t address);

/* Nodes by hand, and of a capturing stream. */
CUresult shim_graph_add_alloc(CUgraphNode *out, CUgraph graph,
			      const CUgraphNode *deps,
			      const CUgraphEdgeData *data, size_t count,
			      CUDA_MEM_ALLOC_NODE_PARAMS *p);
CUresult shim_graph_add_free(CUgraphNode *out, CUgraph graph,
			     const CUgraphNode *deps,
			     const CUgraphEdgeData *data, size_t count,
			     CUdeviceptr address);
CUresult shim_capture_alloc(struct shim_stream *stream, int device,
			    uint64_t size, uint64_t *out_address);
CUresult shim_capture_free(struct shim_stream *stream, CUdeviceptr address);

#endif
