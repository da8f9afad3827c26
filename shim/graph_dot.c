/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawings of graphs, for dot.
 */
#include <stdio.h>

#include "shim/ctx.h"
#include "shim/function.h"
#include "shim/graph.h"
#include "shim_impl.h"

#define KNOWN 0xffffu

struct drawing {
	FILE *file;
	unsigned int flags;
	unsigned int graphs;         /* begun so far */
};

static bool
wants(const struct drawing *d, unsigned int flag)
{
	return d->flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
}

static const char *
type_name(CUgraphNodeType type)
{
	static const char *const names[] = {
		"KERNEL", "MEMCPY", "MEMSET", "HOST", "GRAPH", "EMPTY",
		"EVENT_WAIT", "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
		"EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE", "BATCH_MEM_OP",
		"CONDITIONAL",
	};

	return names[type];
}

static char
side(CUmemorytype type)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		return 'H';
	case CU_MEMORYTYPE_DEVICE:
		return 'D';
	case CU_MEMORYTYPE_ARRAY:
		return 'A';
	default:
		return 'U';
	}
}

static void
draw_kernel(const struct drawing *d, const struct shim_kernel_work *k)
{
	const struct shim_function *f =
		shim_object_get(HANDLE_FUNCTION, k->head.function);

	fprintf(d->file, "%s\n", f != NULL ? f->name : type_name(
		CU_GRAPH_NODE_TYPE_KERNEL));
	if (wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
		fprintf(d->file, "\\<\\<\\<(%u,%u,%u),(%u,%u,%u),%u\\>"
			"\\>\\>\n", k->head.grid[0], k->head.grid[1],
			k->head.grid[2], k->head.block[0], k->head.block[1],
			k->head.block[2], k->head.shared);
	if (wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
		fprintf(d->file, "func %#llx\n",
			(unsigned long long)k->head.function);
}

static void
draw_copy(const struct drawing *d, const CUDA_MEMCPY3D *p)
{
	fprintf(d->file, "MEMCPY\n(%cto%c)\n", side(p->srcMemoryType),
		side(p->dstMemoryType));
	if (wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
		fprintf(d->file, "%zu x %zu x %zu\n", p->WidthInBytes,
			p->Height, p->Depth);
}

static void
draw_more(const struct drawing *d, const struct shim_work *work)
{
	fprintf(d->file, "%s\n", type_name(work->type));
	if (work->type == CU_GRAPH_NODE_TYPE_MEMSET &&
	    wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
		fprintf(d->file, "%#llx, %#x of %u, %zu x %zu\n",
			(unsigned long long)work->fill.dst, work->fill.value,
			work->fill.elementSize, work->fill.width,
			work->fill.height);
	if (work->type == CU_GRAPH_NODE_TYPE_HOST &&
	    wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
		fprintf(d->file, "%p(%p)\n", (void *)(uintptr_t)work->host.fn,
			work->host.userData);
	if ((work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
	     wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS)) ||
	    (work->type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
	     wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS)))
		fprintf(d->file, "%#llx\n",
			(unsigned long long)work->memory.params.dptr);
	if (work->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
	    wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS))
		fprintf(d->file, "handle %#llx, type %d, size %u\n",
			(unsigned long long)work->branch.condition,
			(int)work->branch.type, work->branch.count);
}

static void
draw_node(const struct drawing *d, unsigned int graph,
	  const struct shim_node *node)
{
	bool is_kernel = node->work.type == CU_GRAPH_NODE_TYPE_KERNEL;

	fprintf(d->file, "\"graph_%u_node_%u\"[style=\"%s\" shape=\"%s\" "
		"label=\"%u\n", graph, node->index,
		is_kernel ? "bold" : "solid",
		is_kernel ? "octagon" : "rectangle", node->index);
	if (is_kernel)
		draw_kernel(d, &node->work.kernel);
	else if (node->work.type == CU_GRAPH_NODE_TYPE_MEMCPY)
		draw_copy(d, &node->work.copy);
	else
		draw_more(d, &node->work);
	if (wants(d, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
		fprintf(d->file, "node %#llx\n",
			(unsigned long long)node->object.handle);
	fprintf(d->file, "\"];\n");
}

static void
draw_graph(struct drawing *d, const struct shim_graph *graph)
{
	unsigned int number = ++d->graphs;

	fprintf(d->file, "subgraph cluster_%u {\n"
		"label=\"graph_%u\" graph[style=\"dashed\"];\n", number,
		number);
	for (uint32_t i = 0; i < graph->count; i++)
		draw_node(d, number, graph->nodes[i]);
	for (uint32_t i = 0; i < graph->count; i++) {
		const struct shim_edges *deps = &graph->nodes[i]->deps;

		for (uint32_t k = 0; k < deps->count; k++)
			fprintf(d->file, "\"graph_%u_node_%u\" -> "
				"\"graph_%u_node_%u\";\n", number,
				deps->items[k].from->index, number, i);
	}
	fprintf(d->file, "}\n");
	for (uint32_t i = 0; i < graph->count; i++) {
		uint32_t n;
		struct shim_graph *const *inside =
			shim_work_graphs(&graph->nodes[i]->work, &n);

		for (uint32_t k = 0; k < n; k++) {
			unsigned int next = d->graphs + 1;

			draw_graph(d, inside[k]);
			/* A graph without nodes has nothing to point to. */
			if (inside[k]->count > 0)
				fprintf(d->file, "\"graph_%u_node_%u\" -> "
					"\"graph_%u_node_0\""
					"[style=\"dotted\"];\n", number, i,
					next);
		}
	}
}

CUresult
shim_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	struct drawing d = { .flags = flags };
	const struct shim_graph *graph;
	bool good;

	if (path == NULL || flags & ~KNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(hGraph);
	d.file = graph == NULL ? NULL : fopen(path, "we");
	if (d.file != NULL) {
		fprintf(d.file, "digraph dot {\n");
		draw_graph(&d, graph);
		fprintf(d.file, "}\n");
	}
	pthread_mutex_unlock(&shim_graph_lock);
	if (graph == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (d.file == NULL)
		return CUDA_ERROR_OPERATING_SYSTEM;
	good = !ferror(d.file);
	return fclose(d.file) == 0 && good ? CUDA_SUCCESS :
					     CUDA_ERROR_OPERATING_SYSTEM;
}
