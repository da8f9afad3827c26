/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel of which there is machine code only. Prints what its first launch
 * gives; exits 0 when that is the number given as argument.
 */
#include <cstdio>
#include <cstdlib>

__global__ void
fill(int *out)
{
	out[threadIdx.x] = 7;
}

int
main(int argc, char **argv)
{
	int expected = argc > 1 ? atoi(argv[1]) : 0;
	cudaError_t launched, after;
	int *memory, word = 0;

	if (cudaMalloc(&memory, 32 * sizeof(int)) != cudaSuccess)
		return 1;
	fill<<<1, 32>>>(memory);
	launched = cudaGetLastError();
	/* The context stays usable: the error is of the launch alone. */
	after = cudaMemset(memory, 0, 32 * sizeof(int));
	if (after == cudaSuccess)
		after = cudaMemcpy(&word, memory, sizeof(word),
				   cudaMemcpyDeviceToHost);
	printf("launch: %d, then a copy: %d\n", (int)launched, (int)after);
	return launched != expected || after != cudaSuccess || word != 0;
}
