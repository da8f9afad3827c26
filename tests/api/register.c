/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nvcc makes of `vecadd<<<…>>>`, by hand: register a fatbin, launch
 * through the runtime. The runtime is opened by path, so that one binary
 * tries every release of it, each with its own start-up and its own check
 * that the driver is genuine.
 *
 *     register LIBCUDART [FATBIN]
 *
 * Prints the releases of runtime and driver and exits 0 when the sums are
 * right. FATBIN replaces the built-in one; it must hold the same kernel,
 *     extern "C" __global__ void
 *     vecadd(const float *, const float *, float *, unsigned)
 * and the variable `__device__ unsigned counted`.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define N 5000u

/* A fatbin of one uncompressed PTX entry, as nvcc lays it out. */
static const char ptx[] =
	".version 7.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .global .align 4 .u32 counted = 0;\n"
	".visible .entry vecadd(.param .u64 pa, .param .u64 pb,\n"
	"                       .param .u64 pc, .param .u32 pn)\n"
	"{\n"
	"  .reg .pred %p; .reg .b32 %r<7>; .reg .b64 %d<9>; .reg .f32 %f<4>;\n"
	"  ld.param.u64 %d1, [pa]; ld.param.u64 %d2, [pb];\n"
	"  ld.param.u64 %d3, [pc]; ld.param.u32 %r1, [pn];\n"
	"  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	"  mad.lo.u32 %r5, %r2, %r3, %r4;\n"
	"  setp.ge.u32 %p, %r5, %r1; @%p bra DONE;\n"
	"  mul.wide.u32 %d4, %r5, 4;\n"
	"  add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4;\n"
	"  add.u64 %d7, %d3, %d4;\n"
	"  ld.global.f32 %f1, [%d5]; ld.global.f32 %f2, [%d6];\n"
	"  add.rn.f32 %f3, %f1, %f2; st.global.f32 [%d7], %f3;\n"
	"  mov.u64 %d8, counted; atom.global.add.u32 %r6, [%d8], 1;\n"
	"DONE: ret;\n"
	"}\n";

struct fatbin {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size;              /* of what follows */
	struct {
		uint16_t kind, unknown;
		uint32_t header_size;
		uint64_t padded_size;
		uint32_t compressed_size, options;
		uint16_t minor, major;
		uint32_t sm;
		uint32_t name, name_size;
		uint64_t flags, zero, plain_size;
		/* NVIDIA's driver reads the options of every PTX entry. */
		uint64_t options_at;
		char options_text[8];
	} entry;
	char code[(sizeof(ptx) + 7) & ~7ul];
};

static struct fatbin built_in = {
	.magic = 0xba55ed50,
	.version = 1,
	.header_size = 16,
	.size = sizeof(struct fatbin) - 16,
	.entry = {
		.kind = 1,          /* PTX */
		.unknown = 0x101,
		.header_size = sizeof(built_in.entry),
		.padded_size = sizeof(built_in.code),
		.options = 64,
		.options_at = 72,
		.major = 7,
		.sm = 50,
		.flags = 0x11,      /* 64 bit, Linux */
	},
};

/* The runtime keeps the address of this, until the fatbin is unregistered. */
static struct {
	int magic, version;
	const void *fatbin;
	void *file_name;
} wrapper __attribute__((section(".nvFatBinSegment"), aligned(8))) = {
	.magic = 0x466243b1,
	.version = 1,
	.fatbin = &built_in,
};

/* nvcc's host side of the kernel and of the variable: only their addresses
 * count. */
static char kernel_stub;
static char counted_shadow[4];

/* Functions whose meaning is the same in all releases from 11 to 13. */
#define API(X) \
	X(cudaDeviceSynchronize) X(cudaDriverGetVersion) \
	X(cudaEventCreate) X(cudaEventDestroy) \
	X(cudaEventRecord) X(cudaEventSynchronize) \
	X(cudaFree) X(cudaGetDeviceCount) \
	X(cudaGetErrorName) X(cudaGetLastError) X(cudaLaunchKernel) \
	X(cudaMalloc) X(cudaMemcpy) X(cudaMemcpyFromSymbol) \
	X(cudaRuntimeGetVersion) X(cudaStreamCreate) \
	X(cudaStreamDestroy) X(cudaStreamSynchronize)

/* Called by what nvcc emits, declared in no public header. */
static void **(*register_fatbin)(void *);
static void (*register_end)(void **);
static void (*unregister_fatbin)(void **);
static void (*register_function)(void **, const char *, char *, const char *,
				 int, void *, void *, void *, void *, int *);
static void (*register_var)(void **, char *, char *, const char *, int, size_t,
			    int, int);

static struct {
#define FIELD(name) __typeof__(name) *name;
	API(FIELD)
#undef FIELD
} rt;

static void
check(cudaError_t result, const char *what)
{
	if (result == cudaSuccess)
		return;
	printf("register: %s: %s (%d)\n", what,
	       rt.cudaGetErrorName ? rt.cudaGetErrorName(result) : "?",
	       (int)result);
	exit(1);
}
#define CHECK(call) check(rt.call, #call)

static void
find(void *lib, void *out_function, const char *name)
{
	void *symbol = dlsym(lib, name);

	if (!symbol) {
		printf("register: %s\n", dlerror());
		exit(1);
	}
	memcpy(out_function, &symbol, sizeof(symbol));
}

static void
open_runtime(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		printf("register: %s\n", dlerror());
		exit(1);
	}
#define FIND(name) find(lib, &rt.name, #name);
	API(FIND)
#undef FIND
	find(lib, &register_fatbin, "__cudaRegisterFatBinary");
	find(lib, &register_end, "__cudaRegisterFatBinaryEnd");
	find(lib, &unregister_fatbin, "__cudaUnregisterFatBinary");
	find(lib, &register_function, "__cudaRegisterFunction");
	find(lib, &register_var, "__cudaRegisterVar");
}

static void
map_fatbin(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		perror(path);
		exit(1);
	}
	wrapper.fatbin = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE,
			      fd, 0);
	if (wrapper.fatbin == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* Add on a stream and compare; NULL when all sums are right. */
static void *
add(void *name)
{
	float *host = malloc(3 * N * sizeof(*host));
	size_t bytes = N * sizeof(*host);
	unsigned int n = N, wrong = 0;
	float *a, *b, *c;
	void *args[] = {&a, &b, &c, &n};
	cudaStream_t stream;
	cudaEvent_t event;

	if (!host)
		return name;
	for (unsigned int i = 0; i < N; i++) {
		host[i] = (float)i;
		host[N + i] = 0.25f * (float)i;
	}
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&event));
	CHECK(cudaMalloc((void **)&a, bytes));
	CHECK(cudaMalloc((void **)&b, bytes));
	CHECK(cudaMalloc((void **)&c, bytes));
	CHECK(cudaMemcpy(a, host, bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(b, host + N, bytes, cudaMemcpyHostToDevice));
	CHECK(cudaLaunchKernel(&kernel_stub, (dim3){(N + 127) / 128, 1, 1},
			       (dim3){128, 1, 1}, args, 0, stream));
	CHECK(cudaEventRecord(event, stream));
	CHECK(cudaEventSynchronize(event));
	CHECK(cudaMemcpy(host + 2 * N, c, bytes, cudaMemcpyDeviceToHost));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(c));
	CHECK(cudaEventDestroy(event));
	CHECK(cudaStreamDestroy(stream));
	for (unsigned int i = 0; i < N; i++)
		wrong += host[2 * N + i] != host[i] + host[N + i];
	free(host);
	return wrong ? name : NULL;
}

int
main(int argc, char **argv)
{
	int runtime = 0, driver = 0, devices = 0;
	unsigned int counted = 0;
	pthread_t thread;
	void **handle, *bad, *bad_thread;

	if (argc < 2) {
		fprintf(stderr, "usage: register LIBCUDART [FATBIN]\n");
		return 2;
	}
	memcpy(built_in.code, ptx, sizeof(ptx));
	if (argc > 2)
		map_fatbin(argv[2]);
	open_runtime(argv[1]);
	handle = register_fatbin(&wrapper);
	register_function(handle, &kernel_stub, "vecadd", "vecadd", -1, NULL,
			  NULL, NULL, NULL, NULL);
	register_var(handle, counted_shadow, "counted", "counted", 0,
		     sizeof(counted_shadow), 0, 0);
	register_end(handle);
	CHECK(cudaRuntimeGetVersion(&runtime));
	CHECK(cudaDriverGetVersion(&driver));
	printf("runtime %d on driver %d: ", runtime, driver);
	fflush(stdout);

	/* Start-up, with the runtime's check of the driver's integrity. */
	CHECK(cudaGetDeviceCount(&devices));
	CHECK(cudaFree(NULL));
	CHECK(cudaGetLastError());

	bad = add("main thread");
	if (pthread_create(&thread, NULL, add, "second thread") != 0)
		return 1;
	pthread_join(thread, &bad_thread);
	CHECK(cudaMemcpyFromSymbol(&counted, counted_shadow, sizeof(counted),
				   0, cudaMemcpyDeviceToHost));
	CHECK(cudaGetLastError());
	unregister_fatbin(handle);
	if (bad || bad_thread || counted != 2 * N) {
		printf("wrong sums: %s %s, %u of %u counted\n",
		       bad ? (char *)bad : "", bad_thread ? "second thread" :
		       "", counted, 2 * N);
		return 1;
	}
	printf("%d device%s, all sums right\n", devices,
	       devices == 1 ? "" : "s");
	return 0;
}
