/* SPDX-License-Identifier: Apache-2.0 */
/*
 * register.c's kernel as nvcc packs it: made into fatbins compressed in each
 * of nvcc's ways.
 */
__device__ unsigned counted;

extern "C" __global__ void
vecadd(const float *a, const float *b, float *c, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n) {
		c[i] = a[i] + b[i];
		atomicAdd(&counted, 1);
	}
}
