// SPDX-License-Identifier: Apache-2.0
//
// A small runtime-API program: a kernel with a constant and a counter, a
// stream, two events, pinned and pageable copies.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CK(x) do { \
	cudaError_t e = (x); \
	if (e) { \
		printf("%s:%d %s: %s\n", __FILE__, __LINE__, #x, \
		       cudaGetErrorString(e)); \
		exit(1); \
	} \
} while (0)

__device__ int counter;
__constant__ float scale;

__global__ void
vadd(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	c[i] = scale * (a[i] + b[i]);
	if (threadIdx.x == 0)
		atomicAdd(&counter, 1);
}

int
main()
{
	const int n = 1 << 20, size = n * 4;
	std::vector<float> a(n), b(n), c(n);
	float *da, *db, *dc, two = 2, ms;
	cudaDeviceProp p;
	cudaStream_t s;
	cudaEvent_t begin, end;
	void *pinned;
	size_t free, total;
	int count, bad = 0;

	for (int i = 0; i < n; i++) {
		a[i] = i;
		b[i] = 2 * i;
	}
	CK(cudaGetDeviceProperties(&p, 0));
	printf("%s %d SMs\n", p.name, p.multiProcessorCount);
	CK(cudaMalloc(&da, size));
	CK(cudaMalloc(&db, size));
	CK(cudaMalloc(&dc, size));
	CK(cudaMemcpyToSymbol(scale, &two, 4));
	CK(cudaMemcpy(da, a.data(), size, cudaMemcpyHostToDevice));
	CK(cudaMemcpy(db, b.data(), size, cudaMemcpyHostToDevice));
	CK(cudaStreamCreate(&s));
	CK(cudaEventCreate(&begin));
	CK(cudaEventCreate(&end));
	CK(cudaEventRecord(begin, s));
	for (int i = 0; i < 100; i++)
		vadd<<<n / 256, 256, 0, s>>>(da, db, dc, n);
	CK(cudaEventRecord(end, s));
	CK(cudaGetLastError());
	CK(cudaStreamSynchronize(s));
	CK(cudaEventElapsedTime(&ms, begin, end));
	CK(cudaMemcpy(c.data(), dc, size, cudaMemcpyDeviceToHost));
	CK(cudaMemcpyFromSymbol(&count, counter, 4));
	for (int i = 0; i < n; i++)
		bad += c[i] != 2 * (a[i] + b[i]);
	CK(cudaMallocHost(&pinned, 1 << 20));
	CK(cudaMemcpyAsync(pinned, dc, 1 << 20, cudaMemcpyDeviceToHost, s));
	CK(cudaDeviceSynchronize());
	printf("bad %d counter %d (want %d) pinned[5] %g, a launch %.3f ms\n",
	       bad, count, 100 * (n / 256), ((float *)pinned)[5], ms / 100);
	CK(cudaMemGetInfo(&free, &total));
	printf("free %zu total %zu\n", free >> 20, total >> 20);
	return bad != 0;
}
