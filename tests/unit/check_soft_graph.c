/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: graphs and stream capture.
 */
#include "tests/unit/soft_kit.h"

static CUDA_KERNEL_NODE_PARAMS
kernel_params(CUfunction f, void **params)
{
	CUDA_KERNEL_NODE_PARAMS p;

	memset(&p, 0, sizeof(p));
	p.func = f;
	p.gridDimX = p.gridDimY = p.gridDimZ = 1;
	p.blockDimX = p.blockDimY = p.blockDimZ = 1;
	p.kernelParams = params;
	return p;
}

START_TEST(captured_work_runs_only_when_launched)
{
	CUstreamCaptureStatus status;
	CUgraphExec exec;
	CUdeviceptr word;
	CUgraph graph;
	CUstream s;
	size_t count = 0;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	s = kit_stream();
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuStreamIsCapturing(s, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(cuMemsetD32Async(word, 5, 1, s));
	ok(kit_bump(&k, word, 2, s));
	ok(cuStreamEndCapture(s, &graph));
	ck_assert_uint_eq(kit_read(word), 0);
	ok(cuGraphGetNodes(graph, NULL, &count));
	ck_assert_uint_eq(count, 2);
	ok(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
	ck_assert_uint_eq(count, 1);
	ok(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		ok(cuGraphLaunch(exec, s));
		ok(kit_bump(&k, word, 1, s));
	}
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(kit_read(word), 8);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	expect(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(capture_forks_and_joins_through_events)
{
	CUevent fork_event, join_event;
	CUgraphExec exec;
	CUdeviceptr word;
	CUgraph graph;
	CUstream a, b;
	size_t roots = 0, edges = 0;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	a = kit_stream();
	b = kit_stream();
	ok(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
	ok(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
	ok(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ok(kit_poke(&k, word, 10, a));
	ok(cuEventRecord(fork_event, a));
	ok(cuStreamWaitEvent(b, fork_event, 0));
	ok(kit_bump(&k, word, 1, b));
	ok(kit_bump(&k, word, 2, a));
	expect(cuEventQuery(fork_event), CUDA_ERROR_CAPTURED_EVENT);
	ok(cuEventRecord(join_event, b));
	ok(cuStreamWaitEvent(a, join_event, 0));
	ok(kit_bump(&k, word, 4, a));
	ok(cuStreamEndCapture(a, &graph));
	ok(cuGraphGetRootNodes(graph, NULL, &roots));
	ck_assert_uint_eq(roots, 1);
	ok(cuGraphGetEdges(graph, NULL, NULL, NULL, &edges));
	ck_assert_uint_eq(edges, 4);
	ok(cuGraphInstantiate(&exec, graph, 0));
	ok(cuGraphLaunch(exec, a));
	ok(cuStreamSynchronize(a));
	ck_assert_uint_eq(kit_read(word), 17);
	/* The second stream is free again. */
	ok(kit_bump(&k, word, 1, b));
	ok(cuStreamSynchronize(b));
	ck_assert_uint_eq(kit_read(word), 18);
}
END_TEST

START_TEST(capture_that_was_not_joined_fails)
{
	CUevent e;
	CUdeviceptr word;
	CUgraph graph = (CUgraph)1;
	CUstream a, b;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	a = kit_stream();
	b = kit_stream();
	ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	ok(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(kit_bump(&k, word, 1, a));
	ok(cuEventRecord(e, a));
	ok(cuStreamWaitEvent(b, e, 0));
	ok(kit_bump(&k, word, 1, b));
	expect(cuStreamEndCapture(a, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	ck_assert_ptr_null(graph);
	expect(cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);
	ok(cuStreamSynchronize(b));
}
END_TEST

START_TEST(ending_a_joined_stream_spoils_the_capture)
{
	CUdeviceptr word;
	CUgraph graph;
	CUstream a, b;
	CUevent e;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	a = kit_stream();
	b = kit_stream();
	ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	ok(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(kit_bump(&k, word, 1, a));
	ok(cuEventRecord(e, a));
	ok(cuStreamWaitEvent(b, e, 0));
	expect(cuStreamEndCapture(b, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	expect(cuStreamEndCapture(a, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuStreamSynchronize(b));
}
END_TEST

START_TEST(unsafe_call_invalidates_a_global_capture)
{
	CUstreamCaptureStatus status;
	CUdeviceptr p;
	CUgraph graph;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect(cuMemAlloc(&p, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuStreamIsCapturing(s, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	expect(kit_poke(&k, 64, 1, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	expect(cuStreamEndCapture(s, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuMemAlloc(&p, 4));
}
END_TEST

struct other_thread {
	struct kit *kit;
	CUstreamCaptureMode mode;
	CUresult result;
};

static void *
allocate(void *arg)
{
	struct other_thread *t = arg;
	CUdeviceptr p;

	ok(cuCtxSetCurrent(t->kit->ctx));
	ok(cuThreadExchangeStreamCaptureMode(&t->mode));
	t->result = cuMemAlloc(&p, 4);
	return NULL;
}

static CUresult
allocate_elsewhere(struct kit *k, CUstreamCaptureMode mode)
{
	struct other_thread t = { .kit = k, .mode = mode };
	pthread_t thread;

	ck_assert(!pthread_create(&thread, NULL, allocate, &t));
	pthread_join(thread, NULL);
	return t.result;
}

START_TEST(global_capture_forbids_other_threads_too)
{
	CUgraph graph;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect(allocate_elsewhere(&k, CU_STREAM_CAPTURE_MODE_RELAXED),
	       CUDA_SUCCESS);
	expect(allocate_elsewhere(&k, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
	       CUDA_SUCCESS);
	expect(allocate_elsewhere(&k, CU_STREAM_CAPTURE_MODE_GLOBAL),
	       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect(cuStreamEndCapture(s, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(thread_local_capture_forbids_its_thread_alone)
{
	CUgraph graph;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	expect(allocate_elsewhere(&k, CU_STREAM_CAPTURE_MODE_GLOBAL),
	       CUDA_SUCCESS);
	ok(cuStreamEndCapture(s, &graph));
}
END_TEST

START_TEST(relaxed_capture_forbids_nothing)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr p;
	CUgraph graph;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuMemAlloc(&p, 4));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemAlloc(&p, 4));
	ok(cuStreamEndCapture(s, &graph));
}
END_TEST

START_TEST(legacy_stream_clashes_with_blocking_captures)
{
	CUdeviceptr word;
	CUgraph graph;
	CUstream s, n;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	expect(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
	       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	n = kit_stream();
	ok(cuStreamBeginCapture(n, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(kit_poke(&k, word, 1, NULL));
	ok(cuStreamEndCapture(n, &graph));
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED),
	       CUDA_ERROR_ILLEGAL_STATE);
	expect(kit_poke(&k, word, 1, NULL),
	       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	expect(cuStreamEndCapture(s, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(events_from_outside_isolate_a_capture)
{
	CUgraph graph;
	CUevent e;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	ok(cuEventRecord(e, s));
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect(cuStreamWaitEvent(s, e, 0),
	       CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	expect(cuStreamEndCapture(s, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(synchronising_a_capturing_stream_is_refused)
{
	CUgraph graph;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	expect(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect(cuStreamEndCapture(s, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

static void CUDA_CB
add_hundred(void *arg)
{
	*(volatile uint32_t *)arg += 100;
}

START_TEST(built_graph_runs_all_kinds_of_nodes)
{
	CUgraphNode set, kernel, copy, host, empty, child, deps[2];
	CUDA_MEMSET_NODE_PARAMS sp;
	CUDA_HOST_NODE_PARAMS hp;
	CUDA_KERNEL_NODE_PARAMS kp;
	CUDA_MEMCPY3D cp;
	volatile uint32_t *shared;
	CUdeviceptr word, device;
	CUgraph graph, inner;
	CUgraphNodeType type;
	CUgraphExec exec;
	void *params[1];
	size_t count;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	shared = kit_shared(&device);
	ok(cuGraphCreate(&graph, 0));
	memset(&sp, 0, sizeof(sp));
	sp.dst = word;
	sp.value = 7;
	sp.elementSize = 4;
	sp.width = sp.height = 1;
	ok(cuGraphAddMemsetNode(&set, graph, NULL, 0, &sp, k.ctx));
	params[0] = &word;
	kp = kernel_params(k.bump, params);
	ok(cuGraphAddKernelNode(&kernel, graph, &set, 1, &kp));
	ok(cuGraphAddEmptyNode(&empty, graph, &kernel, 1));
	memset(&cp, 0, sizeof(cp));
	cp.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	cp.srcDevice = word;
	cp.dstMemoryType = CU_MEMORYTYPE_HOST;
	cp.dstHost = (void *)(uintptr_t)shared;
	cp.WidthInBytes = 4;
	cp.Height = cp.Depth = 1;
	ok(cuGraphAddMemcpyNode(&copy, graph, &empty, 1, &cp, k.ctx));
	hp.fn = add_hundred;
	hp.userData = (void *)(uintptr_t)shared;
	ok(cuGraphAddHostNode(&host, graph, &copy, 1, &hp));
	ok(cuGraphCreate(&inner, 0));
	params[0] = &device;
	ok(cuGraphAddKernelNode(&deps[0], inner, NULL, 0, &kp));
	ok(cuGraphAddChildGraphNode(&child, graph, &host, 1, inner));
	ok(cuGraphDestroy(inner));
	ok(cuGraphNodeGetType(child, &type));
	ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_GRAPH);
	count = 2;
	ok(cuGraphNodeGetDependencies(copy, deps, NULL, &count));
	ck_assert_uint_eq(count, 1);
	ck_assert_ptr_eq(deps[0], empty);
	ck_assert_ptr_null(deps[1]);
	ok(cuGraphInstantiate(&exec, graph, 0));
	for (unsigned i = 0; i < 4; i++)
		ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(*shared, 109);
}
END_TEST

START_TEST(executable_graph_takes_new_parameters)
{
	CUDA_KERNEL_NODE_PARAMS kp, got;
	CUdeviceptr first, second;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	uint32_t value = 1;
	unsigned enabled;
	void *params[2];
	struct kit k;

	kit_open(&k);
	first = kit_word(0);
	second = kit_word(0);
	params[0] = &first;
	params[1] = &value;
	kp = kernel_params(k.poke, params);
	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddKernelNode(&node, graph, NULL, 0, &kp));
	ok(cuGraphInstantiate(&exec, graph, 0));
	ok(cuGraphLaunch(exec, NULL));
	value = 2;
	params[0] = &second;
	ok(cuGraphExecKernelNodeSetParams(exec, node, &kp));
	value = 99;
	ok(cuGraphLaunch(exec, NULL));
	ck_assert_uint_eq(kit_read(first), 1);
	ck_assert_uint_eq(kit_read(second), 2);
	ok(cuGraphKernelNodeGetParams(node, &got));
	ck_assert_uint_eq(*(CUdeviceptr *)got.kernelParams[0], first);
	ck_assert_uint_eq(*(uint32_t *)got.kernelParams[1], 1);
	ok(cuGraphNodeSetEnabled(exec, node, 0));
	ok(cuGraphNodeGetEnabled(exec, node, &enabled));
	ck_assert_uint_eq(enabled, 0);
	ok(cuMemsetD32(second, 50, 1));
	ok(cuGraphLaunch(exec, NULL));
	ck_assert_uint_eq(kit_read(second), 50);
	expect(cuGraphExecMemsetNodeSetParams(exec, node, NULL, k.ctx),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* What is set reaches the launches to come, not those that begin meanwhile. */
START_TEST(parameters_change_while_launches_begin)
{
	enum { ROUNDS = 1000 };
	CUDA_KERNEL_NODE_PARAMS kp;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	CUdeviceptr p, words;
	void *params[1] = { &p };
	struct kit k;
	uint32_t got[ROUNDS];

	kit_open(&k);
	ok(cuMemAlloc(&words, sizeof(got)));
	ok(cuMemsetD32(words, 0, ROUNDS));
	p = words;
	kp = kernel_params(k.bump, params);
	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddKernelNode(&node, graph, NULL, 0, &kp));
	ok(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < ROUNDS; i++) {
		p = words + 4 * (CUdeviceptr)i;
		ok(cuGraphExecKernelNodeSetParams(exec, node, &kp));
		ok(cuGraphLaunch(exec, NULL));
	}
	ok(cuMemcpyDtoH(got, words, sizeof(got)));
	for (int i = 0; i < ROUNDS; i++)
		ck_assert_uint_eq(got[i], got[0]);
	ck_assert_uint_gt(got[0], 0);
}
END_TEST

START_TEST(update_takes_the_parameters_of_an_equal_graph)
{
	CUgraphExecUpdateResultInfo info;
	CUDA_KERNEL_NODE_PARAMS kp;
	CUgraphNode a, b;
	CUgraph one, two;
	CUgraphExec exec;
	CUdeviceptr word;
	uint32_t value = 1;
	void *params[2];
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	params[0] = &word;
	params[1] = &value;
	kp = kernel_params(k.poke, params);
	ok(cuGraphCreate(&one, 0));
	ok(cuGraphAddKernelNode(&a, one, NULL, 0, &kp));
	ok(cuGraphInstantiate(&exec, one, 0));
	value = 12;
	ok(cuGraphCreate(&two, 0));
	ok(cuGraphAddKernelNode(&b, two, NULL, 0, &kp));
	ok(cuGraphExecUpdate(exec, two, &info));
	ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	ok(cuGraphLaunch(exec, NULL));
	ck_assert_uint_eq(kit_read(word), 12);
	ok(cuGraphAddEmptyNode(&a, two, &b, 1));
	expect(cuGraphExecUpdate(exec, two, &info),
	       CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	ck_assert_int_eq(info.result,
			 CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}
END_TEST

START_TEST(cycles_are_not_instantiated)
{
	CUgraphNode a, b, c, child, found;
	CUgraph graph, clone, outer;
	CUgraphExec exec;
	size_t count = 0;
	struct kit k;

	kit_open(&k);
	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddEmptyNode(&a, graph, NULL, 0));
	ok(cuGraphAddEmptyNode(&b, graph, &a, 1));
	ok(cuGraphAddEmptyNode(&c, graph, &b, 1));
	ok(cuGraphAddDependencies(graph, &c, &a, NULL, 1));
	expect(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphCreate(&outer, 0));
	ok(cuGraphAddChildGraphNode(&child, outer, NULL, 0, graph));
	expect(cuGraphInstantiate(&exec, outer, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphDestroy(outer));
	expect(cuGraphAddDependencies(graph, &a, &b, NULL, 1),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphRemoveDependencies(graph, &a, &b, NULL, 1));
	ok(cuGraphInstantiate(&exec, graph, 0));
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphClone(&clone, graph));
	ok(cuGraphNodeFindInClone(&found, b, clone));
	ck_assert_ptr_ne(found, b);
	ok(cuGraphDestroyNode(b));
	ok(cuGraphGetNodes(graph, NULL, &count));
	ck_assert_uint_eq(count, 2);
	ok(cuGraphGetNodes(clone, NULL, &count));
	ck_assert_uint_eq(count, 3);
	expect(cuGraphNodeGetType(b, &(CUgraphNodeType){ 0 }),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphDestroy(graph));
	ok(cuGraphDestroy(clone));
}
END_TEST

START_TEST(branches_of_a_graph_run_at_the_same_time)
{
	CUDA_KERNEL_NODE_PARAMS kp;
	CUdeviceptr flag;
	CUgraphNode waits, sets;
	CUgraphExec exec;
	CUgraph graph;
	uint32_t one = 1;
	void *params[2];
	struct kit k;

	kit_open(&k);
	kit_shared(&flag);
	params[0] = &flag;
	params[1] = &one;
	ok(cuGraphCreate(&graph, 0));
	kp = kernel_params(k.until, params);
	ok(cuGraphAddKernelNode(&waits, graph, NULL, 0, &kp));
	kp = kernel_params(k.poke, params);
	ok(cuGraphAddKernelNode(&sets, graph, NULL, 0, &kp));
	ok(cuGraphInstantiate(&exec, graph, 0));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuCtxSynchronize());
}
END_TEST

START_TEST(graph_is_not_launched_into_a_capture)
{
	CUgraphExec inner;
	CUgraph graph, whole;
	CUdeviceptr word;
	CUstream s;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	s = kit_stream();
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(kit_bump(&k, word, 3, s));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiate(&inner, graph, 0));
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect(cuGraphLaunch(inner, s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect(cuStreamEndCapture(s, &whole),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuGraphLaunch(inner, s));
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(kit_read(word), 3);
}
END_TEST

START_TEST(destroyed_stream_ends_its_capture)
{
	CUdeviceptr p, word;
	CUstream s;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	s = kit_stream();
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(kit_poke(&k, word, 1, s));
	ok(cuStreamDestroy(s));
	ok(cuMemAlloc(&p, 4));
}
END_TEST

static void CUDA_CB
count_down(void *arg)
{
	--*(_Atomic int *)arg;
}

START_TEST(user_object_lives_as_long_as_its_graphs)
{
	static _Atomic int left = 1;
	CUgraphExec exec;
	CUuserObject object;
	CUgraphNode node;
	CUgraph graph;
	struct kit k;

	kit_context(&k);
	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	ok(cuUserObjectCreate(&object, &left, count_down, 1,
			      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	ok(cuGraphRetainUserObject(graph, object, 1,
				   CU_GRAPH_USER_OBJECT_MOVE));
	ok(cuGraphInstantiate(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	ck_assert_int_eq(left, 1);
	ok(cuGraphExecDestroy(exec));
	ck_assert_int_eq(left, 0);
	expect(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(kernel_node_keeps_its_priority)
{
	CUlaunchAttributeValue value;
	CUDA_KERNEL_NODE_PARAMS kp;
	CUdeviceptr word;
	CUgraphNode node;
	CUgraph graph;
	void *params[1];
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	params[0] = &word;
	kp = kernel_params(k.bump, params);
	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddKernelNode(&node, graph, NULL, 0, &kp));
	memset(&value, 0, sizeof(value));
	value.priority = -2;
	ok(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY,
					 &value));
	value.priority = 0;
	ok(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY,
					 &value));
	ck_assert_int_eq(value.priority, -2);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, branches_of_a_graph_run_at_the_same_time);
	tcase_add_test(tc, built_graph_runs_all_kinds_of_nodes);
	tcase_add_test(tc, capture_forks_and_joins_through_events);
	tcase_add_test(tc, capture_that_was_not_joined_fails);
	tcase_add_test(tc, captured_work_runs_only_when_launched);
	tcase_add_test(tc, destroyed_stream_ends_its_capture);
	tcase_add_test(tc, cycles_are_not_instantiated);
	tcase_add_test(tc, ending_a_joined_stream_spoils_the_capture);
	tcase_add_test(tc, events_from_outside_isolate_a_capture);
	tcase_add_test(tc, executable_graph_takes_new_parameters);
	tcase_add_test(tc, parameters_change_while_launches_begin);
	tcase_add_test(tc, global_capture_forbids_other_threads_too);
	tcase_add_test(tc, graph_is_not_launched_into_a_capture);
	tcase_add_test(tc, kernel_node_keeps_its_priority);
	tcase_add_test(tc, legacy_stream_clashes_with_blocking_captures);
	tcase_add_test(tc, relaxed_capture_forbids_nothing);
	tcase_add_test(tc, synchronising_a_capturing_stream_is_refused);
	tcase_add_test(tc, thread_local_capture_forbids_its_thread_alone);
	tcase_add_test(tc, unsafe_call_invalidates_a_global_capture);
	tcase_add_test(tc, update_takes_the_parameters_of_an_equal_graph);
	tcase_add_test(tc, user_object_lives_as_long_as_its_graphs);
}

int
main(void)
{
	return kit_main("soft_graph", fill);
}
