/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: what a program wants to live as long as a graph.
 * Used by graph.c and graph_exec.c; entry points are in graph_user.c.
 */
#ifndef SHIM_GRAPH_USER_H
#define SHIM_GRAPH_USER_H

#include "shim/graph.h"

/* References that a graph holds on one object. */
struct shim_user_ref {
	struct shim_user_ref *next;
	struct shim_user *user;
	uint32_t count;
};

/* A copy of a graph holds what the graph does; a graph that ends lets go. */
CUresult shim_graph_users_copy_locked(struct shim_graph *to,
				      const struct shim_graph *from);
void shim_graph_users_drop_locked(struct shim_graph *graph);

#endif
