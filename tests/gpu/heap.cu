/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that use the device heap, of a program that holds memory, streams
 * and events by then. What it prints is the same natively and under mpsrun.
 *
 *	heap [BYTES]
 *
 * With BYTES the heap is made that large first, and kernels take half of it.
 */
#include <cstdio>
#include <cstdlib>

#define THREADS 256
#define WORDS 65536

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
add(unsigned *data, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < WORDS)
		data[i] += n;
}

/* A block of each thread's own, kept for the next kernel. */
__global__ void
take(unsigned **kept, size_t bytes)
{
	unsigned *block = (unsigned *)malloc(bytes);

	kept[threadIdx.x] = block;
	if (block)
		block[0] = block[bytes / 4 - 1] = threadIdx.x * 3 + 1;
}

struct list {
	unsigned value;
	list *next;
};

__global__ void
give(unsigned **kept, size_t bytes, unsigned *out)
{
	unsigned *block = kept[threadIdx.x], sum = 0;
	list *first = NULL;

	if (block)
		sum = block[0] + block[bytes / 4 - 1];
	free(block);
	for (unsigned i = 0; i < 8; i++) {
		list *l = new list;

		if (!l)
			break;
		l->value = i;
		l->next = first;
		first = l;
	}
	while (first) {
		list *l = first;

		sum += l->value;
		first = l->next;
		delete l;
	}
	out[threadIdx.x] = sum;
}

int
main(int argc, char **argv)
{
	size_t heap = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, got = 0;
	size_t bytes = heap ? heap / 2 / THREADS & ~(size_t)15 : 1024;
	unsigned *data, *out, **kept, host[THREADS], right = 0;
	static unsigned words[WORDS];
	cudaEvent_t event;
	cudaStream_t s;

	CHECK(cudaMalloc(&data, sizeof(words)));
	for (unsigned i = 0; i < WORDS; i++)
		words[i] = i;
	CHECK(cudaMemcpy(data, words, sizeof(words), cudaMemcpyHostToDevice));
	CHECK(cudaStreamCreate(&s));
	CHECK(cudaEventCreate(&event));
	CHECK(cudaMalloc(&kept, THREADS * sizeof(*kept)));
	CHECK(cudaMalloc(&out, sizeof(host)));
	if (heap) {
		CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap));
		CHECK(cudaDeviceGetLimit(&got, cudaLimitMallocHeapSize));
		printf("heap of %zu: %s\n", heap, got >= heap ? "there" : "less");
	}
	for (int i = 0; i < 50; i++)
		add<<<WORDS / 256, 256, 0, s>>>(data, 1);
	take<<<1, THREADS, 0, s>>>(kept, bytes);
	CHECK(cudaGetLastError());
	CHECK(cudaEventRecord(event, s));
	for (int i = 0; i < 50; i++)
		add<<<WORDS / 256, 256, 0, s>>>(data, 1);
	give<<<1, THREADS, 0, s>>>(kept, bytes, out);
	CHECK(cudaGetLastError());
	CHECK(cudaEventSynchronize(event));
	CHECK(cudaStreamSynchronize(s));
	CHECK(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(words, data, sizeof(words), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < THREADS; i++)
		right += host[i] == 2 * (i * 3 + 1) + 28;
	printf("blocks of %zu: %u of %d right\n", bytes, right, THREADS);
	right = 0;
	for (unsigned i = 0; i < WORDS; i++)
		right += words[i] == i + 100;
	printf("memory from before: %u of %d right\n", right, WORDS);
	return 0;
}
