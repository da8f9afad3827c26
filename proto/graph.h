/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a graph as they travel from the client to the worker.
 * Written by the shim, read and checked by the worker.
 */
#ifndef PROTO_GRAPH_H
#define PROTO_GRAPH_H

#include <stdint.h>

/* A copy between addresses; rows and slices as in CUDA_MEMCPY3D, offsets
 * already in the addresses. */
struct graph_copy {
	uint64_t dst, dst_pitch, dst_height;
	uint64_t src, src_pitch, src_height;
	uint64_t width, height, depth;   /* bytes, rows, slices */
};

/* Nodes are numbered in the order in which they were sent. */
struct graph_edge {
	uint32_t from, to;
	uint8_t from_port, to_port, type;   /* CUgraphEdgeData */
	uint8_t zero;
};
_Static_assert(sizeof(struct graph_edge) == 12, "wire layout");

/* In one message. */
#define GRAPH_EDGES_MAX 4096u
/* Of one executable graph. */
#define GRAPH_NODES_MAX (1u << 20)
/* Bodies of conditional nodes: of one node, and of one executable graph with
 * itself. */
#define GRAPH_BRANCHES_MAX 4096u
#define GRAPH_BODIES_MAX (1u << 16)

#endif
