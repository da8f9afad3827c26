/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When did my kernel run? A kernel of few blocks that lasts MS milliseconds
 * writes the device's own clock at its start and its end; printed as
 * "START END" in nanoseconds. Two clients' intervals, compared by the caller,
 * show whether their kernels were on the device together.
 *
 * Loading code waits for kernels in flight, so the code is loaded first and
 * the kernel launched at a time that the caller names.
 *
 *     overlap [MS [UNIX_SECONDS]]
 */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

__global__ void
span(unsigned long long ns, unsigned long long *out)
{
	unsigned long long now, start;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - start < ns);
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		out[0] = start;
		out[1] = now;
	}
}

int
main(int argc, char **argv)
{
	unsigned long long ms = argc > 1 ? strtoull(argv[1], NULL, 0) : 300;
	unsigned long long *out, host[2];
	cudaError_t r = cudaMalloc(&out, sizeof(host));

	if (!r) {
		span<<<4, 32>>>(0, out);
		r = cudaDeviceSynchronize();
	}
	while (argc > 2 && time(NULL) < atol(argv[2]))
		usleep(500);
	if (!r) {
		span<<<4, 32>>>(ms * 1000000ull, out);
		r = cudaMemcpy(host, out, sizeof(host),
			       cudaMemcpyDeviceToHost);
	}
	if (r) {
		fprintf(stderr, "overlap: %s\n", cudaGetErrorString(r));
		return 1;
	}
	printf("%llu %llu\n", host[0], host[1]);
	return 0;
}
