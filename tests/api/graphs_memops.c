/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory operations in graphs: nodes of them, added and captured, read,
 * replaced, and changed in an executable graph; waits that the host, another
 * stream or another branch of the graph ends. With the word "apart", which
 * waits only mpsrun refuses.
 */
#include <string.h>

#include "tests/api/words.h"

static CUstreamBatchMemOpParams
write_op(CUdeviceptr address, uint32_t value)
{
	CUstreamBatchMemOpParams p;

	memset(&p, 0, sizeof(p));
	p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	p.writeValue.address = address;
	p.writeValue.value = value;
	return p;
}

static CUstreamBatchMemOpParams
wait_op(CUdeviceptr address, uint32_t value)
{
	CUstreamBatchMemOpParams p;

	memset(&p, 0, sizeof(p));
	p.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	p.waitValue.address = address;
	p.waitValue.value = value;
	p.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
	return p;
}

static CUgraphNode
add(CUgraph graph, const CUgraphNode *dep, unsigned count,
    CUstreamBatchMemOpParams *ops)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = {
		.ctx = context, .count = count, .paramArray = ops,
	};
	CUgraphNode node;

	OK(cuGraphAddBatchMemOpNode(&node, graph, dep, dep != NULL, &p));
	return node;
}

/* One word of the device's memory. */
static CUgraphNode
add_fill(CUgraph graph, const CUgraphNode *dep, CUdeviceptr dst,
	 uint32_t value)
{
	CUDA_MEMSET_NODE_PARAMS p = {
		.dst = dst, .value = value, .elementSize = 4, .width = 1,
		.height = 1,
	};
	CUgraphNode node;

	OK(cuGraphAddMemsetNode(&node, graph, dep, dep != NULL, &p, context));
	return node;
}

static CUgraphExec
make(CUgraph graph)
{
	CUgraphExec exec;

	OK(cuGraphInstantiate(&exec, graph, 0));
	return exec;
}

static void
nodes(void)
{
	CUstreamBatchMemOpParams ops[2] = { write_op(word(0), 5),
					    write_op(word(1), 6) };
	CUDA_BATCH_MEM_OP_NODE_PARAMS p;
	CUgraphNodeType type;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph, copy;

	printf("     nodes\n");
	clear();
	OK(cuGraphCreate(&graph, 0));
	node = add(graph, NULL, 2, ops);
	memset(ops, 0, sizeof(ops));
	OK(cuGraphNodeGetType(node, &type));
	fact_is(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, type, "a type of its own");
	OK(cuGraphBatchMemOpNodeGetParams(node, &p));
	fact("its context", p.ctx == context);
	fact_is(2, p.count, "its operations are counted");
	fact("and told", p.paramArray[1].writeValue.address == word(1) &&
	     p.paramArray[1].writeValue.value == 6);
	OK(cuGraphClone(&copy, graph));
	exec = make(copy);
	OK(cuGraphDestroy(copy));
	OK(cuGraphLaunch(exec, a));
	OK(cuStreamSynchronize(a));
	fact_is(5, (long)peek(word(0), 4), "a copy of the graph runs");
	fact_is(6, (long)peek(word(1), 4), "all of it");
	OK(cuGraphExecDestroy(exec));
	ops[0] = write_op(word(2), 7);
	p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
		.ctx = context, .count = 1, .paramArray = ops,
	};
	OK(cuGraphBatchMemOpNodeSetParams(node, &p));
	OK(cuGraphBatchMemOpNodeGetParams(node, &p));
	fact_is(1, p.count, "replaced by fewer");
	exec = make(graph);
	OK(cuGraphLaunch(exec, a));
	OK(cuStreamSynchronize(a));
	fact_is(7, (long)peek(word(2), 4), "which then run");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* A fill, a wait for the host, a write, a fill. */
static void
order(void)
{
	CUstreamBatchMemOpParams ops[2] = { wait_op(pinned_address, 1),
					    write_op(word(1), 2) };
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	printf("     in order\n");
	OK(cuGraphCreate(&graph, 0));
	node = add_fill(graph, NULL, word(0), 1);
	node = add(graph, &node, 2, ops);
	add_fill(graph, &node, word(2), 3);
	exec = make(graph);
	for (int i = 0; i < 3; i++) {
		clear();
		OK(cuGraphLaunch(exec, a));
		while (peek(word(0), 4) != 1)
			;
		fact_is(CUDA_ERROR_NOT_READY, cuStreamQuery(a),
			"the stream is held");
		fact_is(0, (long)peek(word(1), 4), "  with what comes after");
		fact_is(0, (long)peek(word(2), 4), "  and after that");
		*pinned = 1;
		OK(cuStreamSynchronize(a));
		fact_is(2, (long)peek(word(1), 4), "  until the value comes");
		fact_is(3, (long)peek(word(2), 4), "  for all of it");
	}
	/* One that is held is destroyed no sooner than when it has run. */
	clear();
	OK(cuGraphLaunch(exec, a));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	*pinned = 1;
	OK(cuStreamSynchronize(a));
	fact_is(3, (long)peek(word(2), 4), "one destroyed while it is held");
}

/* What a wait waits for comes of the graph itself, wherever that was added.
 * A driver may run one branch after the other. */
static void
another_branch(void)
{
	CUstreamBatchMemOpParams wait = wait_op(word(0), 4),
				 set = write_op(word(1), 1);
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;

	clear();
	OK(cuGraphCreate(&graph, 0));
	node = add(graph, NULL, 1, &wait);
	add_fill(graph, &node, word(3), 8);
	node = add(graph, NULL, 1, &set);
	node = add_fill(graph, &node, word(2), 1);
	add_fill(graph, &node, word(0), 4);
	exec = make(graph);
	OK(cuGraphLaunch(exec, a));
	OK(cuStreamSynchronize(a));
	fact_is(8, (long)peek(word(3), 4), "for another branch, added later");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
branches(void)
{
	CUstreamBatchMemOpParams first = wait_op(pinned_address, 1),
				 second = wait_op(pinned_address + 4, 1);
	CUgraphNode node, both[2];
	CUgraphExec exec;
	CUgraph graph;
	CUDA_MEMSET_NODE_PARAMS p = {
		.dst = word(2), .value = 9, .elementSize = 4, .width = 1,
		.height = 1,
	};

	printf("     branches\n");
	if (!facts_comparable())
		another_branch();
	clear();
	OK(cuGraphCreate(&graph, 0));
	both[0] = add(graph, NULL, 1, &first);
	both[1] = add(graph, NULL, 1, &second);
	OK(cuGraphAddMemsetNode(&node, graph, both, 2, &p, context));
	exec = make(graph);
	OK(cuGraphLaunch(exec, a));
	pinned[1] = 1;
	fact_is(0, (long)peek(word(2), 4), "of two waits");
	pinned[0] = 1;
	OK(cuStreamSynchronize(a));
	fact_is(9, (long)peek(word(2), 4), "  both are waited for");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
captured(void)
{
	CUstreamBatchMemOpParams ops[2] = { wait_op(word(4), 1),
					    write_op(word(6), 3) };
	CUDA_BATCH_MEM_OP_NODE_PARAMS p;
	CUgraphNode list[8];
	CUgraphNodeType type;
	CUgraphExec exec;
	size_t count = 8;
	CUgraph graph;

	printf("     captured\n");
	clear();
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuMemsetD32Async(word(0), 1, 1, a));
	OK(cuStreamWaitValue32(a, pinned_address, 1,
			       CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue64(a, word(2), UINT64_C(1) << 40, 0));
	OK(cuStreamWriteValue32(a, word(4), 1, 0));
	OK(cuStreamBatchMemOp(a, 2, ops, 0));
	OK(cuStreamEndCapture(a, &graph));
	fact_is(0, (long)peek(word(0), 4), "nothing of it runs");
	OK(cuGraphGetNodes(graph, list, &count));
	fact_is(5, (long)count, "a node for each call");
	for (size_t i = 1; i < count; i++) {
		OK(cuGraphNodeGetType(list[i], &type));
		fact_is(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, type, "  of its type");
		OK(cuGraphBatchMemOpNodeGetParams(list[i], &p));
		fact("  and context", p.ctx == context);
	}
	fact_is(2, p.count, "a batch is one");
	exec = make(graph);
	OK(cuGraphLaunch(exec, a));
	OK(cuGraphLaunch(exec, a));
	fact_is(0, (long)peek(word(6), 4), "two launches wait");
	*pinned = 1;
	OK(cuStreamSynchronize(a));
	fact_is(3, (long)peek(word(6), 4), "and run");
	fact("in 64 bits too", peek(word(2), 8) == UINT64_C(1) << 40);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
changes(void)
{
	CUstreamBatchMemOpParams ops[2] = { wait_op(pinned_address, 1),
					    write_op(word(0), 1) };
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = {
		.ctx = context, .count = 2, .paramArray = ops,
	};
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	printf("     changes\n");
	clear();
	OK(cuGraphCreate(&graph, 0));
	node = add(graph, NULL, 2, ops);
	exec = make(graph);
	OK(cuGraphLaunch(exec, a));
	ops[0] = wait_op(pinned_address + 4, 1);
	ops[1] = write_op(word(1), 2);
	OK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &p));
	*pinned = 1;
	OK(cuStreamSynchronize(a));
	fact_is(1, (long)peek(word(0), 4), "a launch before it is as it was");
	OK(cuGraphLaunch(exec, a));
	fact_is(CUDA_ERROR_NOT_READY, cuStreamQuery(a), "the next one waits");
	pinned[1] = 1;
	OK(cuStreamSynchronize(a));
	fact_is(2, (long)peek(word(1), 4), "  and writes elsewhere");
	p.count = 1;
	answers("fewer operations", cuGraphExecBatchMemOpNodeSetParams(
		exec, node, &p), CUDA_ERROR_INVALID_VALUE);
	p.count = 2;
	ops[0] = write_op(word(2), 1);
	answers("of another kind", cuGraphExecBatchMemOpNodeSetParams(
		exec, node, &p), CUDA_ERROR_INVALID_VALUE);
	ops[0] = wait_op(pinned_address, 1);
	ops[1] = write_op(word(3), 4);
	OK(cuGraphBatchMemOpNodeSetParams(node, &p));
	OK(cuGraphExecUpdate(exec, graph, &info));
	OK(cuGraphLaunch(exec, a));
	OK(cuStreamSynchronize(a));
	fact_is(4, (long)peek(word(3), 4), "the graph anew");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
refused(void)
{
	CUstreamBatchMemOpParams op = write_op(word(0) + 2, 1);
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = {
		.ctx = context, .count = 1, .paramArray = &op,
	};
	CUgraphNode node, other;
	CUgraph graph;

	printf("     refused\n");
	OK(cuGraphCreate(&graph, 0));
	other = add_fill(graph, NULL, word(0), 1);
	answers("between two words", cuGraphAddBatchMemOpNode(
		&node, graph, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
	op = write_op(word(0), 1);
	p.count = 257;
	answers("too many", cuGraphAddBatchMemOpNode(&node, graph, NULL, 0,
		&p), CUDA_ERROR_INVALID_VALUE);
	p.count = 1;
	p.flags = 1;
	answers("flags", cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p),
		CUDA_ERROR_INVALID_VALUE);
	p.flags = 0;
	answers("of a fill", cuGraphBatchMemOpNodeGetParams(other, &p),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(graph));
}

/* Under mpsrun alone: neither of these waits may hold up what is behind the
 * other, and one stream has them one after the other. */
static void
apart(void)
{
	CUstreamBatchMemOpParams first = wait_op(pinned_address, 1),
				 second = wait_op(pinned_address + 4, 1);
	CUgraphNode one, two;
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	one = add(graph, NULL, 1, &first);
	two = add(graph, NULL, 1, &second);
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphExecDestroy(exec));
	add_fill(graph, &one, word(0), 1);
	answers("work behind one of two waits",
		cuGraphInstantiate(&exec, graph, 0),
		CUDA_ERROR_NOT_SUPPORTED);
	OK(cuGraphAddDependencies(graph, &one, &two, NULL, 1));
	OK(cuGraphInstantiate(&exec, graph, 0));
	fact("in order they are served", true);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

int
main(int argc, char **argv)
{
	(void)argv;
	words_begin();
	if (argc > 1) {
		apart();
		return facts_end();
	}
	nodes();
	order();
	branches();
	captured();
	changes();
	refused();
	OK(cuCtxSynchronize());
	return facts_end();
}
