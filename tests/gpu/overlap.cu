/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When did my kernel run? A kernel of few blocks that lasts MS milliseconds
 * writes the device's own clock at its start and its end; printed as
 * "START END" in nanoseconds. Two clients' intervals, compared by the caller,
 * show whether their kernels were on the device together.
 *
 *     overlap MS [DIR]
 *
 * Loading code waits for kernels in flight, so with DIR the code is loaded
 * first; then the program makes DIR/ready.PID, launches when DIR/go is there,
 * makes DIR/running.PID when the kernel says that it runs, and lets it end
 * when DIR/stop is there: whoever waits for two "running" before "stop" has
 * two kernels that run at once, however slow the machine is.
 */
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

struct words {
	volatile unsigned long long start, end;
	volatile unsigned running, stop;
};

__global__ void
span(unsigned long long ns, struct words *w)
{
	unsigned long long now, start;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		w->start = start;
		w->running = 1;
	}
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - start < ns || !w->stop);
	if (blockIdx.x == 0 && threadIdx.x == 0)
		w->end = now;
}

static const char *directory;

static void
make(const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.%d", directory, name,
		 (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd < 0) {
		perror(path);
		exit(1);
	}
	close(fd);
}

static void
await(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	while (access(path, F_OK) != 0)
		usleep(500);
}

int
main(int argc, char **argv)
{
	unsigned long long ms = argc > 1 ? strtoull(argv[1], NULL, 0) : 300;
	struct words *w;
	cudaError_t r = cudaMallocHost((void **)&w, sizeof(*w));

	directory = argc > 2 ? argv[2] : NULL;
	if (!r) {
		w->stop = 1;
		span<<<4, 32>>>(0, w);
		r = cudaDeviceSynchronize();
	}
	if (!r && directory) {
		w->running = w->stop = 0;
		make("ready");
		await("go");
	}
	if (!r) {
		span<<<4, 32>>>(ms * 1000000ull, w);
		r = cudaGetLastError();
	}
	if (!r && directory) {
		while (!w->running && cudaStreamQuery(0) == cudaErrorNotReady)
			usleep(100);
		make("running");
		await("stop");
		w->stop = 1;
	}
	if (!r)
		r = cudaDeviceSynchronize();
	if (r) {
		fprintf(stderr, "overlap: %s\n", cudaGetErrorString(r));
		return 1;
	}
	printf("%llu %llu\n", (unsigned long long)w->start,
	       (unsigned long long)w->end);
	return 0;
}
