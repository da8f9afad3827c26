/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory by the runtime, as samples and frameworks use it: hints in
 * both directions, attributes, streams that memory is attached to, and atomics
 * of host and device on the same words at the same time. What it prints is
 * the same natively and under mpsrun.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define N (1 << 20)
#define LOOPS 1000

static int wrong;

static void
fact(const char *text, bool is)
{
	printf("%s  %s\n", is ? "yes" : "NO ", text);
	fflush(stdout);
	wrong += !is;
}

#define OK(call) ok(call, #call, __LINE__)
static void
ok(cudaError_t r, const char *call, int line)
{
	if (r == cudaSuccess)
		return;
	printf("NO   line %d: %s gives %s\n", line, call, cudaGetErrorName(r));
	exit(1);
}

__global__ void
add_one(int *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i]++;
}

/* Of NVIDIA's sample systemWideAtomics: what can be checked without knowing
 * the order. */
__global__ void
change(int *p, int loops)
{
	for (int i = 0; i < loops; i++) {
		atomicAdd_system(p + 0, 10);
		atomicMax_system(p + 1, (int)(blockIdx.x * blockDim.x +
					      threadIdx.x));
		atomicAnd_system(p + 2, (int)threadIdx.x | 0x30);
		atomicOr_system(p + 3, 1 << (threadIdx.x % 31));
	}
}

static void
change_here(int *p, int loops)
{
	for (int i = 0; i < loops; i++) {
		__sync_fetch_and_add(p + 0, 10);
		__sync_fetch_and_and(p + 2, i | 0x30);
		__sync_fetch_and_or(p + 3, 1 << (i % 31));
	}
}

static void
hints(void)
{
	struct cudaMemLocation device = { cudaMemLocationTypeDevice, 0 };
	struct cudaMemLocation host = { cudaMemLocationTypeHost, 0 };
	struct cudaPointerAttributes about;
	cudaStream_t stream;
	bool right = true;
	int *p, value = 9;

	OK(cudaMallocManaged(&p, N * sizeof(*p)));
	OK(cudaStreamCreate(&stream));
	for (int i = 0; i < N; i++)
		p[i] = i;
	OK(cudaMemAdvise(p, N * sizeof(*p), cudaMemAdviseSetReadMostly,
			 device));
	OK(cudaMemRangeGetAttribute(&value, sizeof(value),
				    cudaMemRangeAttributeReadMostly, p,
				    N * sizeof(*p)));
	fact("it is read mostly", value == 1);
	OK(cudaMemAdvise(p, N * sizeof(*p), cudaMemAdviseUnsetReadMostly,
			 device));
	OK(cudaMemAdvise(p, N * sizeof(*p), cudaMemAdviseSetPreferredLocation,
			 device));
	OK(cudaMemAdvise(p, N * sizeof(*p), cudaMemAdviseSetAccessedBy, host));
	OK(cudaMemPrefetchAsync(p, N * sizeof(*p), device, 0, stream));
	add_one<<<N / 256, 256, 0, stream>>>(p, N);
	OK(cudaMemPrefetchAsync(p, N * sizeof(*p), host, 0, stream));
	OK(cudaStreamSynchronize(stream));
	for (int i = 0; i < N; i++)
		right &= p[i] == i + 1;
	fact("kernels and host see one memory", right);
	OK(cudaMemRangeGetAttribute(&value, sizeof(value),
				    cudaMemRangeAttributePreferredLocation, p,
				    N * sizeof(*p)));
	fact("it is best on device 0", value == 0);
	OK(cudaMemRangeGetAttribute(&value, sizeof(value),
				    cudaMemRangeAttributeLastPrefetchLocation,
				    p, N * sizeof(*p)));
	fact("it was last sent to the host", value == cudaCpuDeviceId);
	OK(cudaPointerGetAttributes(&about, p + 100));
	fact("it is managed", about.type == cudaMemoryTypeManaged);
	fact("at one address", about.devicePointer == p + 100 &&
			       about.hostPointer == p + 100);
	OK(cudaStreamAttachMemAsync(stream, p, 0, cudaMemAttachSingle));
	OK(cudaStreamSynchronize(stream));
	add_one<<<N / 256, 256, 0, stream>>>(p, N);
	OK(cudaStreamSynchronize(stream));
	fact("attached to a stream", p[0] == 2 && p[N - 1] == N + 1);
	OK(cudaMemset(p, 0, N * sizeof(*p)));
	OK(cudaDeviceSynchronize());
	fact("it can be filled", p[7] == 0);
	OK(cudaFree(p));
	OK(cudaStreamDestroy(stream));
}

static void
atomics(void)
{
	const int blocks = 8, threads = 128;
	int *p;

	OK(cudaMallocManaged(&p, 4 * sizeof(*p)));
	p[0] = p[1] = p[3] = 0;
	p[2] = 0xff;
	change<<<blocks, threads>>>(p, LOOPS);
	change_here(p, LOOPS);
	OK(cudaDeviceSynchronize());
	fact("both added", p[0] == 10 * LOOPS * (blocks * threads + 1));
	fact("the largest", p[1] == blocks * threads - 1);
	fact("bits that all left", p[2] == 0x30);
	fact("bits that one set", p[3] == 0x7fffffff);
	OK(cudaFree(p));
}

int
main(void)
{
	hints();
	atomics();
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
