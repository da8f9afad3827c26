/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of streams: set, told, copied, and what launches get of them; and
 * drawings of graphs.
 */
#include <string.h>
#include <unistd.h>

#include "tests/api/facts.h"

static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry put(.param .u64 p, .param .u32 v)\n{\n"
	" .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
	" ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];\n"
	" st.global.u32 [%d1], %r1; ret;\n}\n";

static CUfunction put;
static CUdeviceptr memory;
static CUcontext context;

static CUstreamAttrValue
value_of(CUstream stream, CUstreamAttrID id)
{
	CUstreamAttrValue value;

	memset(&value, 0, sizeof(value));
	OK(cuStreamGetAttribute(stream, id, &value));
	return value;
}

static CUresult
set_policy(CUstream stream, int policy)
{
	CUstreamAttrValue value;

	memset(&value, 0, sizeof(value));
	value.syncPolicy = (CUsynchronizationPolicy)policy;
	return cuStreamSetAttribute(stream,
		CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
}

static CUresult
set_priority(CUstream stream, int priority)
{
	CUstreamAttrValue value;

	memset(&value, 0, sizeof(value));
	value.priority = priority;
	return cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY,
				    &value);
}

static void
words(CUstream a, CUstream b)
{
	int least = 0, greatest = 0;

	printf("     words\n");
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	fact_is(least, value_of(a, CU_STREAM_ATTRIBUTE_PRIORITY).priority,
		"a priority at first");
	fact_is(CUDA_SUCCESS, set_priority(a, greatest), "another one");
	fact_is(greatest, value_of(a, CU_STREAM_ATTRIBUTE_PRIORITY).priority,
		"is told");
	told("one that there is not", set_priority(a, greatest - 100));
	fact_is(greatest, value_of(a, CU_STREAM_ATTRIBUTE_PRIORITY).priority,
		"the nearest that there is");
	fact_is(CUDA_SUCCESS, set_policy(a, CU_SYNC_POLICY_YIELD),
		"a policy of waits");
	fact_is(CU_SYNC_POLICY_YIELD, value_of(a,
		CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY).syncPolicy,
		"is told");
	told("one that there is not", set_policy(a, 9));
	fact_is(0, value_of(a, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN)
		   .memSyncDomain, "a domain");
	fact_is(CUDA_SUCCESS, cuStreamCopyAttributes(b, a), "copied");
	fact_is(CU_SYNC_POLICY_YIELD, value_of(b,
		CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY).syncPolicy,
		"the policy");
	printf("     the priority: %d\n", value_of(b,
		CU_STREAM_ATTRIBUTE_PRIORITY).priority);
}

static void
window(CUstream a)
{
	CUkernelNodeAttrValue node_value;
	CUstreamAttrValue value;
	uint32_t v = 7, got = 0;
	void *args[] = { &memory, &v };
	CUgraphNode node;
	CUgraph graph;
	size_t count = 1;

	printf("     a window of memory\n");
	memset(&value, 0, sizeof(value));
	value.accessPolicyWindow.base_ptr = (void *)(uintptr_t)memory;
	value.accessPolicyWindow.num_bytes = 1 << 16;
	value.accessPolicyWindow.hitRatio = 0.5f;
	value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
	value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_STREAMING;
	fact_is(CUDA_SUCCESS, cuStreamSetAttribute(a,
		CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value), "set");
	value = value_of(a, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW);
	fact("told", value.accessPolicyWindow.num_bytes == 1 << 16 &&
	     value.accessPolicyWindow.hitRatio == 0.5f);
	OK(cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, a, args, NULL));
	OK(cuMemcpyDtoHAsync(&got, memory, 4, a));
	OK(cuStreamSynchronize(a));
	fact_is(7, got, "a launch with it runs");
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, a, args, NULL));
	OK(cuStreamEndCapture(a, &graph));
	OK(cuGraphGetNodes(graph, &node, &count));
	memset(&node_value, 0, sizeof(node_value));
	OK(cuGraphKernelNodeGetAttribute(node,
		CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &node_value));
	fact("a captured launch has it",
	     node_value.accessPolicyWindow.num_bytes == 1 << 16);
	OK(cuGraphDestroy(graph));
	told("an attribute of launches", cuStreamSetAttribute(a,
		CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
}

static unsigned
count_of(const char *text, const char *what)
{
	unsigned n = 0;

	while ((text = strstr(text, what)) != NULL) {
		text++;
		n++;
	}
	return n;
}

static void
drawing(void)
{
	CUDA_KERNEL_NODE_PARAMS k;
	uint32_t v = 1;
	void *args[] = { &memory, &v };
	char path[] = "/tmp/graph-dot-XXXXXX";
	static char text[1 << 16];
	CUgraphNode first, second, child;
	CUgraph graph, inner;
	FILE *file;
	int fd = mkstemp(path);

	printf("     a drawing\n");
	memset(&k, 0, sizeof(k));
	k.func = put;
	k.gridDimX = k.gridDimY = k.gridDimZ = 1;
	k.blockDimX = k.blockDimY = k.blockDimZ = 1;
	k.kernelParams = args;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphCreate(&inner, 0));
	OK(cuGraphAddEmptyNode(&first, inner, NULL, 0));
	OK(cuGraphAddKernelNode(&first, graph, NULL, 0, &k));
	OK(cuGraphAddKernelNode(&second, graph, &first, 1, &k));
	OK(cuGraphAddChildGraphNode(&child, graph, &second, 1, inner));
	fact_is(CUDA_SUCCESS, cuGraphDebugDotPrint(graph, path, 0), "drawn");
	file = fopen(path, "r");
	fact("to that file", fd >= 0 && file != NULL &&
	     fread(text, 1, sizeof(text) - 1, file) > 0);
	fact("for dot", strncmp(text, "digraph dot {", 13) == 0);
	fact_is(2, count_of(text, "put"), "kernels by name");
	fact_is(2, count_of(text, "subgraph "), "the child as well");
	if (file != NULL)
		fclose(file);
	close(fd);
	unlink(path);
	told("nowhere", cuGraphDebugDotPrint(graph, "/nonexistent/x", 0));
	OK(cuGraphDestroy(inner));
	OK(cuGraphDestroy(graph));
}

int
main(void)
{
	CUmodule module;
	CUdevice device;
	CUstream a, b;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&put, module, "put"));
	OK(cuMemAlloc(&memory, 1 << 16));
	words(a, b);
	window(a);
	drawing();
	OK(cuCtxSynchronize());
	return facts_end();
}
