/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies of pageable memory, by one thread and by many. The program says
 * that it has many cores, so that the library helps itself to threads
 * wherever this runs; how many there were goes to stderr.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/facts.h"

enum { KIB = 1 << 10, MIB = 1 << 20, THREADS = 12, ROUNDS = 6 };

/* Found before libc's own by the driver library, too. */
int
sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	memset(set, 0, size);
	for (int i = 0; i < 16; i++)
		CPU_SET(i, set);
	return 0;
}

static int
count_helpers(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *task;
	int n = 0;

	while (dir && (task = readdir(dir)) != NULL) {
		char path[300], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 task->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		n += fgets(name, sizeof(name), f) &&
		     !strcmp(name, "cuda-copy\n");
		fclose(f);
	}
	if (dir)
		closedir(dir);
	return n;
}

/* A period that divides no size, so that shifted data shows. */
static void
fill(unsigned char *p, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		p[i] = (unsigned char)((i + seed) % 251 + 1);
}

static bool
is_filled(const unsigned char *p, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		if (p[i] != (unsigned char)((i + seed) % 251 + 1))
			return false;
	return true;
}

/* In from an odd address and, changed at once, out to another one. */
static bool
there_and_back(CUdeviceptr device, unsigned char *host, size_t size,
	       unsigned int seed, CUstream stream)
{
	unsigned char *odd = host + 16 + seed % 7;

	fill(odd, size, seed);
	OK(stream ? cuMemcpyHtoDAsync(device + 3, odd, size, stream) :
		    cuMemcpyHtoD(device + 3, odd, size));
	memset(host, 0, size + 64);
	odd = host + 16 + seed % 5;
	OK(stream ? cuMemcpyDtoHAsync(odd, device + 3, size, stream) :
		    cuMemcpyDtoH(odd, device + 3, size));
	for (unsigned char *p = host; p < odd; p++)
		if (*p)
			return false;
	for (unsigned char *p = odd + size; p < host + size + 64; p++)
		if (*p)
			return false;
	return is_filled(odd, size, seed);
}

static void
of_all_sizes(void)
{
	static const struct {
		const char *text;
		size_t size;
	} sizes[] = {
		{ "512 KiB less one", 512 * KIB - 1 },
		{ "512 KiB", 512 * KIB },
		{ "512 KiB and one", 512 * KIB + 1 },
		{ "1 MiB less one", MIB - 1 }, { "1 MiB", MIB },
		{ "2 MiB less one", 2 * MIB - 1 }, { "2 MiB", 2 * MIB },
		{ "2 MiB and one", 2 * MIB + 1 }, { "4 MiB", 4 * MIB },
		{ "9 MiB and 77", 9 * MIB + 77 },
		{ "16 MiB less one", 16 * MIB - 1 },
		{ "33 MiB and 5", 33 * MIB + 5 },
	};
	unsigned char *host = malloc(34 * MIB);
	CUdeviceptr device;
	CUstream stream;

	OK(cuMemAlloc(&device, 34 * MIB));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (sizes[i].size == MIB)
			fact("no thread helps before the first large copy",
			     !count_helpers());
		fact(sizes[i].text,
		     there_and_back(device, host, sizes[i].size, i, NULL));
		fact("  in a stream", there_and_back(device, host,
						     sizes[i].size, i + 3,
						     stream));
	}
	OK(cuStreamDestroy(stream));
	OK(cuMemFree(device));
	free(host);
}

static void CUDA_CB
wait_until(void *flag)
{
	while (!atomic_load((atomic_bool *)flag))
		usleep(1000);
}

/*
 * Copies of registered memory wait in a stream that goes on only after those
 * of other streams. (Of pageable memory the real driver would not take them.)
 */
static void
beside_waiting_copies(void)
{
	enum { WAITING = 7, PIECE = 512 * KIB };
	unsigned char *waiting = malloc(WAITING * PIECE);
	unsigned char *host = malloc(5 * MIB);
	CUstream gated, stream;
	CUdeviceptr device;
	atomic_bool done = false;
	bool right;

	OK(cuMemHostRegister(waiting, WAITING * PIECE, 0));
	OK(cuMemAlloc(&device, 5 * MIB));
	OK(cuStreamCreate(&gated, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(gated, wait_until, &done));
	for (int i = 0; i < WAITING; i++)
		OK(cuMemcpyHtoDAsync(device + i * PIECE, waiting + i * PIECE,
				     PIECE, gated));
	right = there_and_back(device, host, MIB, 1, stream) &&
		there_and_back(device, host, 4 * MIB, 2, stream);
	atomic_store(&done, true);
	OK(cuStreamSynchronize(gated));
	fact("beside copies that wait for them", right);
	OK(cuStreamDestroy(gated));
	OK(cuStreamDestroy(stream));
	OK(cuMemHostUnregister(waiting));
	OK(cuMemFree(device));
	free(waiting);
	free(host);
}

struct worker {
	pthread_t thread;
	CUcontext context;
	unsigned int index;
	bool right;
};

static void *
copy_often(void *arg)
{
	struct worker *w = arg;
	/* Some with helpers and some without. */
	size_t size = w->index % 3 ? MIB + w->index : 5 * MIB + w->index;
	unsigned char *host = malloc(size + 64);
	CUdeviceptr device;
	CUstream stream;

	OK(cuCtxSetCurrent(w->context));
	OK(cuMemAlloc(&device, size + 64));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	w->right = true;
	for (unsigned int i = 0; i < ROUNDS; i++)
		w->right &= there_and_back(device, host, size, w->index + i,
					   stream);
	OK(cuStreamDestroy(stream));
	OK(cuMemFree(device));
	free(host);
	return NULL;
}

/* All hold staging memory, and there is not enough for all they would like. */
static void
by_many_threads(CUcontext context)
{
	struct worker workers[THREADS];
	bool right = true;

	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .context = context, .index = i };
		if (pthread_create(&workers[i].thread, NULL, copy_often,
				   &workers[i]))
			exit(1);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		right &= workers[i].right;
	}
	fact("twelve threads at once", right);
}

/* While another thread copies; the child has memory to itself and ends. */
static void
beside_forks(CUcontext context)
{
	struct worker w = { .context = context };
	bool right = true;

	if (pthread_create(&w.thread, NULL, copy_often, &w))
		exit(1);
	for (int i = 0; i < 10; i++) {
		int status = 0;
		pid_t pid = fork();

		if (!pid)
			_exit(count_helpers());
		right &= pid > 0 && waitpid(pid, &status, 0) == pid &&
			 WIFEXITED(status) && !WEXITSTATUS(status);
	}
	pthread_join(w.thread, NULL);
	fact("children forked beside a copy have no helper", right);
	fact("the copy is right", w.right);
}

int
main(void)
{
	CUcontext context;
	CUdevice device;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	of_all_sizes();
	fprintf(stderr, "%d helpers\n", count_helpers());
	beside_waiting_copies();
	by_many_threads(context);
	beside_forks(context);
	OK(cuDevicePrimaryCtxRelease(device));
	return facts_end();
}
