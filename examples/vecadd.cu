/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector addition with the CUDA runtime, as any tutorial has it. Built by
 * nvcc with default flags (static cudart); never relinked for mpsrun.
 *
 *     nvcc -o vecadd vecadd.cu && mpsrun ./vecadd [N]
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call) check((call), #call)

static void
check(cudaError_t result, const char *what)
{
	if (result == cudaSuccess)
		return;
	fprintf(stderr, "vecadd: %s: %s\n", what, cudaGetErrorString(result));
	exit(1);
}

__global__ void
vecadd(const float *a, const float *b, float *c, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

int
main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 1u << 16;
	std::vector<float> a(n), b(n), c(n);
	size_t bytes = n * sizeof(float);
	float *da, *db, *dc;
	cudaDeviceProp prop;
	unsigned wrong = 0;

	for (unsigned i = 0; i < n; i++) {
		a[i] = (float)i;
		b[i] = 2.0f * (float)(n - i);
	}
	CHECK(cudaGetDeviceProperties(&prop, 0));
	CHECK(cudaMalloc(&da, bytes));
	CHECK(cudaMalloc(&db, bytes));
	CHECK(cudaMalloc(&dc, bytes));
	CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
	vecadd<<<(n + 255) / 256, 256>>>(da, db, dc, n);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < n; i++)
		wrong += c[i] != a[i] + b[i];
	printf("vecadd (runtime API): %u sums on %s, %u wrong\n", n, prop.name,
	       wrong);
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(dc));
	return wrong != 0;
}
