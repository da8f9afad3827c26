/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that launch kernels (-rdc=true -lcudadevrt), twice deep. What it
 * prints is the same natively and under mpsrun.
 */
#include <cstdio>
#include <cstdlib>

#define BLOCKS 16
#define THREADS 64

static void
check(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return;
	printf("%s: %s\n", what, cudaGetErrorName(e));
	exit(1);
}
#define CHECK(call) check(call, #call)

__global__ void
leaf(unsigned *out, unsigned at)
{
	atomicAdd(&out[at], threadIdx.x + 1);
}

__global__ void
middle(unsigned *out, unsigned at)
{
	if (threadIdx.x == 0)
		leaf<<<1, THREADS>>>(out, at);
	atomicAdd(&out[at], 1);
}

__global__ void
root(unsigned *out)
{
	if (threadIdx.x == 0)
		middle<<<1, 2>>>(out, blockIdx.x);
}

int
main(void)
{
	unsigned *out, host[BLOCKS], right = 0;

	CHECK(cudaMalloc(&out, sizeof(host)));
	CHECK(cudaMemset(out, 0, sizeof(host)));
	root<<<BLOCKS, 32>>>(out);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < BLOCKS; i++)
		right += host[i] == THREADS * (THREADS + 1) / 2 + 2;
	printf("nested launches: %u of %d right\n", right, BLOCKS);
	return 0;
}
