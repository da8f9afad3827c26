/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two clients beside the one that is looked at, until they are killed.
 *
 *     beside neighbour MS FILE   a kernel of MS milliseconds, and the next
 *     beside third FILE          an empty kernel and its end, every 50 us
 *
 * FILE becomes an array of pairs of nanoseconds (CLOCK_MONOTONIC), when each
 * began and ended, without an end for the last; the first pair is their number.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/gpu/stall/stall.h"

/* Pairs; the file is sparse. */
#define CAPACITY (UINT64_C(1) << 22)
#define NAP_US 50

struct span {
	uint64_t start, end;
};

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry span(.param .u64 ns)\n"
	"{ .reg .pred p; .reg .u64 end, now;\n"
	" ld.param.u64 end,[ns]; mov.u64 now,%globaltimer;"
	" add.u64 end,end,now;\n"
	"AGAIN: mov.u64 now,%globaltimer; setp.lt.u64 p,now,end;\n"
	" @p bra AGAIN; ret; }\n";

static struct span *
make_spans(const char *path)
{
	size_t size = CAPACITY * sizeof(struct span);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	void *at;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		perror(path);
		exit(1);
	}
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
	return at;
}

/* One kernel after the other, each noted. */
static void
run(CUfunction kernel, uint64_t ns, useconds_t nap, struct span *spans)
{
	void *args[] = { &ns };
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (uint64_t i = 1; i < CAPACITY; i++) {
		spans[i].start = now_ns();
		__atomic_store_n(&spans->start, i, __ATOMIC_RELEASE);
		OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args,
				  NULL));
		OK(cuStreamSynchronize(stream));
		spans[i].end = now_ns();
		if (nap)
			usleep(nap);
	}
	fprintf(stderr, "beside: no room for more than %llu kernels\n",
		(unsigned long long)CAPACITY);
	exit(1);
}

int
main(int argc, char **argv)
{
	CUcontext context;
	CUfunction kernel;
	CUmodule module;

	/* Whoever started us may be killed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!(argc == 4 && !strcmp(argv[1], "neighbour")) &&
	    !(argc == 3 && !strcmp(argv[1], "third"))) {
		fprintf(stderr, "beside neighbour MS FILE | third FILE\n");
		return 2;
	}
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&kernel, module, "span"));
	if (argc == 4)
		run(kernel, strtoull(argv[2], NULL, 10) * UINT64_C(1000000), 0,
		    make_spans(argv[3]));
	run(kernel, 0, NAP_US, make_spans(argv[2]));
	return 0;
}
