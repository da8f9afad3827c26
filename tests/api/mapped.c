/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own memory, registered and used by kernels: what it holds
 * before, between and after, and what cannot be registered.
 */
#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/facts.h"

#define SIZE (UINT64_C(3) << 20)
#define WORDS (SIZE / 4)
#define PAGE 4096u

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry inc(.param .u64 to)\n"
	"{ .reg .u64 p, o; .reg .u32 i, t, b, v;"
	" ld.param.u64 p,[to];"
	" mov.u32 i,%ctaid.x; mov.u32 b,%ntid.x; mov.u32 t,%tid.x;"
	" mad.lo.u32 i,i,b,t; mul.wide.u32 o,i,4; add.u64 p,p,o;"
	" ld.global.u32 v,[p]; add.u32 v,v,1; st.global.u32 [p],v; ret; }\n";
static CUfunction inc;
static CUstream stream;

static void
inc_all(CUdeviceptr p, uint64_t words)
{
	void *args[] = { &p };

	OK(cuLaunchKernel(inc, (unsigned int)(words / 256), 1, 1, 256, 1, 1, 0,
			  stream, args, NULL));
}

static uint32_t *
map(uint64_t size, int flags)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_ANONYMOUS | flags, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static void
count_up(uint32_t *words, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		words[i] = (uint32_t)i;
}

static bool
counts(const uint32_t *words, uint64_t n, uint32_t from)
{
	for (uint64_t i = 0; i < n; i++)
		if (words[i] != (uint32_t)i + from)
			return false;
	return true;
}

static void
both_ways(unsigned int flags, const char *text)
{
	uint32_t *words = map(SIZE, MAP_PRIVATE);
	unsigned int got = 0, type = 0;
	CUdeviceptr p, q;

	count_up(words, WORDS);
	OK(cuMemHostRegister(words, SIZE, flags));
	OK(cuMemHostGetDevicePointer(&p, words, 0));
	printf("     %s\n", text);
	fact("it keeps what it holds", counts(words, WORDS, 0));
	inc_all(p, WORDS);
	OK(cuStreamSynchronize(stream));
	fact("what kernels write is there", counts(words, WORDS, 1));
	count_up(words, WORDS);
	inc_all(p, WORDS);
	inc_all(p, WORDS);
	OK(cuStreamSynchronize(stream));
	fact("kernels read what is written there", counts(words, WORDS, 2));
	OK(cuMemHostGetFlags(&got, words + 5));
	fact("it is mapped", got == CU_MEMHOSTALLOC_DEVICEMAP);
	OK(cuMemHostGetDevicePointer(&q, words + 5, 0));
	fact("its parts too", q == p + 20);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	fact("it is host memory to kernels", type == CU_MEMORYTYPE_HOST);
	OK(cuPointerGetAttribute(&q, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				 (uintptr_t)words));
	fact("its attribute says where", p == q);
	OK(cuMemAlloc(&q, SIZE));
	OK(cuMemcpyHtoDAsync(q, words, SIZE, stream));
	inc_all(q, WORDS);
	OK(cuMemcpyDtoHAsync(words, q, SIZE, stream));
	OK(cuStreamSynchronize(stream));
	fact("copies from and to it", counts(words, WORDS, 3));
	OK(cuMemsetD32Async(p, 7, 100, stream));
	OK(cuStreamSynchronize(stream));
	fact("fills of it", words[99] == 7 && words[100] == 103);
	inc_all(p, WORDS);
	OK(cuMemHostUnregister(words));
	fact("it keeps it when it is unregistered",
	     words[99] == 8 && counts(words + 100, WORDS - 100, 104));
	words[0] = 1;
	answers("then it has no address", cuMemHostGetDevicePointer(&p, words,
								    0),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(q));
	munmap(words, SIZE);
}

/* Anywhere in a block of malloc's. */
static void
odd_places(void)
{
	uint32_t *block = calloc(1, 40000), *words = block + 33;
	uint32_t *second = malloc(40000);
	CUdeviceptr p;

	block[32] = 77;
	count_up(words, 1024);
	words[1024] = 78;
	OK(cuMemHostRegister(words, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&p, words, 0));
	inc_all(p, 1024);
	OK(cuStreamSynchronize(stream));
	fact("a part of a page: kernels reach it", counts(words, 1024, 1));
	fact("and nothing beside it", words[-1] == 77 && words[1024] == 78);
	free(second);
	second = malloc(60000);
	OK(cuMemHostUnregister(words));
	fact("it is still there", counts(words, 1024, 1) && words[-1] == 77 &&
				  words[1024] == 78);
	free(block);
	free(second);
}

/* Unregistered in another order, unmapped before it is unregistered. */
static void
odd_orders(void)
{
	uint32_t *a = map(4 * PAGE, MAP_PRIVATE), *b = a + PAGE / 4;
	uint32_t *c = a + 2 * PAGE / 4;
	CUdeviceptr p, q, s;

	count_up(a, PAGE);
	OK(cuMemHostRegister(a, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(cuMemHostRegister(c, 2 * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(cuMemHostRegister(b, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	answers("overlapping", cuMemHostRegister(b, 2 * PAGE,
						 CU_MEMHOSTREGISTER_DEVICEMAP),
		CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	OK(cuMemHostGetDevicePointer(&p, a, 0));
	OK(cuMemHostGetDevicePointer(&q, b, 0));
	OK(cuMemHostGetDevicePointer(&s, c, 0));
	inc_all(p, 1024);
	inc_all(q, 1024);
	inc_all(s, 2048);
	OK(cuStreamSynchronize(stream));
	fact("neighbours", counts(a, PAGE, 1));
	OK(cuMemHostUnregister(c));
	OK(cuMemHostUnregister(a));
	inc_all(q, 1024);
	OK(cuStreamSynchronize(stream));
	fact("one of them left", counts(a, 1024, 1) &&
				 counts(c, 2048, 2049));
	OK(cuMemHostUnregister(b));
	fact("none left", b[0] == 1026 && b[1023] == 2049);
	munmap(a, 4 * PAGE);
	a = map(2 * PAGE, MAP_PRIVATE);
	OK(cuMemHostRegister(a, 2 * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	a[0] = 5;
	munmap(a, PAGE);
	if (mmap(a, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		 MAP_FIXED, -1, 0) != a)
		exit(1);
	a[1] = 6;
	a[1024] = 7;
	OK(cuMemHostUnregister(a));
	fact("another mapping's contents stay", a[0] == 0 && a[1] == 6 &&
						a[1024] == 7);
	munmap(a, 2 * PAGE);
}

static void
refused(void)
{
	uint32_t *a = map(4 * PAGE, MAP_PRIVATE);

	munmap(a + PAGE / 4, PAGE);
	answers("partly unmapped", cuMemHostRegister(
			a, 4 * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP),
		CUDA_ERROR_INVALID_VALUE);
	a[0] = 3;
	answers("it is not registered", cuMemHostUnregister(a),
		CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	munmap(a, 4 * PAGE);
}

/* A child's memory is its own, whatever the parent's is registered for. */
static void
forked(void)
{
	uint32_t *words = map(2 * PAGE, MAP_PRIVATE);
	CUdeviceptr p;
	int status = 1;
	pid_t child;

	count_up(words, 2048);
	OK(cuMemHostRegister(words, 2 * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&p, words, 0));
	child = fork();
	if (!child) {
		bool right = counts(words, 2048, 0);

		memset(words, 0, 2 * PAGE);
		_exit(!right);
	}
	waitpid(child, &status, 0);
	fact("a child has it", status == 0);
	fact("what a child writes is the child's", counts(words, 2048, 0));
	inc_all(p, 2048);
	OK(cuStreamSynchronize(stream));
	fact("it stays the parent's", counts(words, 2048, 1));
	OK(cuMemHostUnregister(words));
	munmap(words, 2 * PAGE);
}

static void
locked(void)
{
	uint32_t *words = map(2 * PAGE, MAP_PRIVATE);
	CUdeviceptr p;

	if (mlock(words, 2 * PAGE))
		perror("mlock");
	count_up(words, 2048);
	OK(cuMemHostRegister(words, 2 * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&p, words, 0));
	inc_all(p, 2048);
	OK(cuStreamSynchronize(stream));
	fact("locked memory", counts(words, 2048, 1));
	OK(cuMemHostUnregister(words));
	munmap(words, 2 * PAGE);
}

/* Whole pages while another thread lives. */
static void *
wait_for(void *barrier)
{
	pthread_barrier_wait(barrier);
	return NULL;
}

static void
threaded(void)
{
	pthread_barrier_t barrier;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, wait_for, &barrier);
	both_ways(CU_MEMHOSTREGISTER_DEVICEMAP, "another thread is there");
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
}

static int
descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	while (folder != NULL && readdir(folder) != NULL)
		count++;
	closedir(folder);
	return count;
}

/* How /proc/self/maps has the page: "rw-p". */
static void
access_of(const void *page, char out[5])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512];

	strcpy(out, "none");
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 &&
		    from <= (uintptr_t)page && (uintptr_t)page < to)
			sscanf(line, "%*s %4s", out);
	fclose(maps);
}

static void
given_back(void)
{
	char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char access[5];
	int before = 0;

	for (int i = 0; i < 20; i++) {
		OK(cuMemHostRegister(p, 1 << 20,
				     CU_MEMHOSTREGISTER_DEVICEMAP));
		OK(cuMemHostUnregister(p));
		if (i == 2)
			before = descriptors();
	}
	fact("registering leaves no descriptor", descriptors() == before);
	OK(cuMemHostRegister(p, 1 << 20, CU_MEMHOSTREGISTER_DEVICEMAP));
	mprotect(p, 1 << 20, PROT_READ);
	OK(cuMemHostUnregister(p));
	access_of(p, access);
	fact("nor what was forbidden allowed", !strcmp(access, "r--p"));
	munmap(p, 1 << 20);
}

int
main(void)
{
	CUmodule module;
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&inc, module, "inc"));
	both_ways(CU_MEMHOSTREGISTER_DEVICEMAP, "registered to be mapped");
	both_ways(0, "asked where it is mapped");
	odd_places();
	odd_orders();
	refused();
	forked();
	locked();
	threaded();
	given_back();
	return facts_end();
}
