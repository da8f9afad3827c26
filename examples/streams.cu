/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several kernels on several streams: constants, an initialised global,
 * shared memory, atomics, a reduction, events across streams, pinned memory.
 * Every figure is checked against the CPU.
 *
 *     nvcc -o streams streams.cu && mpsrun ./streams [ROUNDS]
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
	fprintf(stderr, "streams: %s: %s\n", what, cudaGetErrorString(result));
	exit(1);
}

enum { N = 1 << 14, BINS = 16, THREADS = 128 };

__constant__ int weights[4];
__device__ unsigned bins[BINS] = {1, 2, 3};
__device__ int rounds_done;

__global__ void
weigh(const int *in, int *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = in[i] * weights[i & 3] + (in[i] >> 1);
}

__global__ void
histogram(const int *in, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		atomicAdd(&bins[(unsigned)in[i] % BINS], 1u);
}

__global__ void
reduce(const int *in, unsigned long long *out, int n)
{
	__shared__ unsigned long long part[THREADS];
	unsigned t = threadIdx.x;
	int i = blockIdx.x * blockDim.x + t;

	part[t] = i < n ? (unsigned)in[i] : 0;
	__syncthreads();
	for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
		if (t < step)
			part[t] += part[t + step];
		__syncthreads();
	}
	if (t == 0)
		atomicAdd(out, part[0]);
}

__global__ void
done()
{
	rounds_done++;
}

static unsigned
differences(const int *in, const int *w, unsigned long long sum,
	    const unsigned *got_bins, const int *got, int rounds)
{
	std::vector<unsigned> want(BINS);
	unsigned long long want_sum = 0;
	unsigned wrong = 0;

	want[0] = 1, want[1] = 2, want[2] = 3;
	for (int i = 0; i < N; i++) {
		int v = in[i] * w[i & 3] + (in[i] >> 1);

		wrong += got[i] != v;
		want[(unsigned)v % BINS] += (unsigned)rounds;
		want_sum += (unsigned)v;
	}
	for (int i = 0; i < BINS; i++)
		wrong += got_bins[i] != want[i];
	return wrong + (sum != want_sum * (unsigned long long)rounds);
}

int
main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 4, blocks = N / THREADS;
	int w[4] = {3, 1, 4, 1}, *in, *pinned, *din, *dout, count;
	unsigned long long *dsum, sum;
	unsigned got_bins[BINS], wrong;
	cudaStream_t left, right;
	cudaEvent_t ready, begin, end;
	float ms;

	CHECK(cudaMallocHost(&in, N * sizeof(int)));
	CHECK(cudaMallocHost(&pinned, N * sizeof(int)));
	for (int i = 0; i < N; i++)
		in[i] = (i * 2654435761u) >> 20;
	CHECK(cudaMalloc(&din, N * sizeof(int)));
	CHECK(cudaMalloc(&dout, N * sizeof(int)));
	CHECK(cudaMalloc(&dsum, sizeof(*dsum)));
	CHECK(cudaMemset(dsum, 0, sizeof(*dsum)));
	CHECK(cudaMemcpyToSymbol(weights, w, sizeof(w)));
	CHECK(cudaStreamCreate(&left));
	CHECK(cudaStreamCreateWithFlags(&right, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaEventRecord(begin, left));
	CHECK(cudaMemcpyAsync(din, in, N * sizeof(int), cudaMemcpyHostToDevice,
			      left));
	weigh<<<blocks, THREADS, 0, left>>>(din, dout, N);
	CHECK(cudaEventRecord(ready, left));
	CHECK(cudaStreamWaitEvent(right, ready, 0));
	for (int i = 0; i < rounds; i++) {
		histogram<<<blocks, THREADS, 0, left>>>(dout, N);
		reduce<<<blocks, THREADS, 0, right>>>(dout, dsum, N);
		done<<<1, 1, 0, left>>>();
	}
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpyAsync(pinned, dout, N * sizeof(int),
			      cudaMemcpyDeviceToHost, right));
	CHECK(cudaEventRecord(end, left));
	CHECK(cudaStreamSynchronize(right));
	CHECK(cudaStreamSynchronize(left));
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	CHECK(cudaMemcpy(&sum, dsum, sizeof(sum), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpyFromSymbol(got_bins, bins, sizeof(got_bins)));
	CHECK(cudaMemcpyFromSymbol(&count, rounds_done, sizeof(count)));
	wrong = differences(in, w, sum, got_bins, pinned, rounds) +
		(count != rounds) + (ms < 0);
	printf("streams: %d rounds of 3 kernels on 2 streams, sum %llu, "
	       "%u wrong\n", rounds, sum, wrong);
	CHECK(cudaEventDestroy(ready));
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
	CHECK(cudaStreamDestroy(left));
	CHECK(cudaStreamDestroy(right));
	CHECK(cudaFree(din));
	CHECK(cudaFree(dout));
	CHECK(cudaFree(dsum));
	CHECK(cudaFreeHost(in));
	CHECK(cudaFreeHost(pinned));
	return wrong != 0;
}
