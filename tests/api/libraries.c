/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and destroys a handle of one of NVIDIA's libraries, opened by
 * name, so that nothing needs its headers.
 *
 *     libraries NAME [present]
 *     libraries gemm STATUS
 *
 * Exit status: 0 created (or, with `present`, found on this machine); 1 the
 * library's own error, or why it cannot be opened, which is printed.
 * `gemm` multiplies two matrices with cuBLAS, whose kernels are machine code,
 * and exits 0 when cublasSgemm gave STATUS.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Room for the largest: NCCL's unique id. */
union handle {
	void *pointer;
	int number;
	char id[128];
};

/* Values of the public headers. */
enum {
	CUFFT_C2C = 0x29,
	CURAND_PSEUDO_DEFAULT = 100,
	CUBLAS_OP_N = 0,
};

typedef int by_pointer(void *);
typedef int by_value(void *);
typedef int plan_create(int *, int, int, int);
typedef int plan_destroy(int);
typedef int typed_create(void *, int);

static int
create_plain(void *create, union handle *h)
{
	return ((by_pointer *)create)(h);
}

static int
create_plan(void *create, union handle *h)
{
	return ((plan_create *)create)(&h->number, 1024, CUFFT_C2C, 1);
}

static int
create_generator(void *create, union handle *h)
{
	return ((typed_create *)create)(h, CURAND_PSEUDO_DEFAULT);
}

static int
destroy_plain(void *destroy, union handle *h)
{
	return ((by_value *)destroy)(h->pointer);
}

static int
destroy_plan(void *destroy, union handle *h)
{
	return ((plan_destroy *)destroy)(h->number);
}

static const struct library {
	const char *name, *sonames[3];
	const char *create_name, *destroy_name;
	int (*create)(void *function, union handle *);
	int (*destroy)(void *function, union handle *);
} libraries[] = {
	{"cublas", {"libcublas.so.13", "libcublas.so.12"}, "cublasCreate_v2",
	 "cublasDestroy_v2", create_plain, destroy_plain},
	{"cublasLt", {"libcublasLt.so.13", "libcublasLt.so.12"},
	 "cublasLtCreate", "cublasLtDestroy", create_plain, destroy_plain},
	{"cudnn", {"libcudnn.so.9"}, "cudnnCreate", "cudnnDestroy",
	 create_plain, destroy_plain},
	{"cufft", {"libcufft.so.12", "libcufft.so.11"}, "cufftPlan1d",
	 "cufftDestroy", create_plan, destroy_plan},
	{"curand", {"libcurand.so.10"}, "curandCreateGenerator",
	 "curandDestroyGenerator", create_generator, destroy_plain},
	{"cusolver", {"libcusolver.so.12", "libcusolver.so.11"},
	 "cusolverDnCreate", "cusolverDnDestroy", create_plain, destroy_plain},
	{"cusparse", {"libcusparse.so.12"}, "cusparseCreate",
	 "cusparseDestroy", create_plain, destroy_plain},
	{"nccl", {"libnccl.so.2"}, "ncclGetUniqueId", NULL, create_plain,
	 NULL},
};

static void *
open_library(const struct library *l)
{
	void *lib = NULL;

	for (int i = 0; !lib && l->sonames[i]; i++)
		lib = dlopen(l->sonames[i], RTLD_NOW | RTLD_LOCAL);
	return lib;
}

static int
try_library(const struct library *l, bool only_open)
{
	void *lib = open_library(l), *create, *destroy = NULL;
	struct timespec a, b;
	union handle h;
	int r;

	if (!lib) {
		printf("%s\n", dlerror());
		return 1;
	}
	if (only_open)
		return 0;
	create = dlsym(lib, l->create_name);
	if (l->destroy_name)
		destroy = dlsym(lib, l->destroy_name);
	if (!create || (l->destroy_name && !destroy)) {
		printf("%s\n", dlerror());
		return 1;
	}
	memset(&h, 0, sizeof(h));
	clock_gettime(CLOCK_MONOTONIC, &a);
	r = l->create(create, &h);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%s: %d in %.0f ms", l->create_name, r,
	       (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6);
	fflush(stdout);
	if (r == 0 && destroy) {
		r = l->destroy(destroy, &h);
		printf(", %s: %d", l->destroy_name, r);
	}
	printf("\n");
	return r != 0;
}

typedef int sgemm(void *, int, int, int, int, int, const float *,
		  uintptr_t, int, uintptr_t, int, const float *, uintptr_t,
		  int);
typedef int mem_alloc(uintptr_t *, size_t);
typedef int mem_copy(void *, uintptr_t, size_t);

static int
try_gemm(int expected)
{
	enum { SIDE = 16 };
	const struct library *l = &libraries[0];
	void *lib = open_library(l), *driver = dlopen("libcuda.so.1", RTLD_NOW);
	static float words[SIDE * SIDE];
	mem_alloc *alloc;
	mem_copy *copy;
	union handle h;
	uintptr_t memory;
	float one = 1.0f;
	sgemm *multiply;
	int status, after;

	if (!lib || !driver) {
		printf("%s\n", dlerror());
		return 1;
	}
	multiply = (sgemm *)dlsym(lib, "cublasSgemm_v2");
	alloc = (mem_alloc *)dlsym(driver, "cuMemAlloc_v2");
	copy = (mem_copy *)dlsym(driver, "cuMemcpyDtoH_v2");
	if (!multiply || !alloc || !copy ||
	    l->create(dlsym(lib, l->create_name), &h) != 0 ||
	    alloc(&memory, 3 * sizeof(words)) != 0) {
		printf("no handle or no memory\n");
		return 1;
	}
	status = multiply(h.pointer, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE,
			  SIDE, &one, memory, SIDE, memory + sizeof(words),
			  SIDE, &one, memory + 2 * sizeof(words), SIDE);
	after = copy(words, memory, sizeof(words));
	printf("cublasSgemm: %d, then a copy: %d\n", status, after);
	return status != expected || after != 0;
}

int
main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		if (argc >= 2 && strcmp(argv[1], libraries[i].name) == 0)
			return try_library(&libraries[i], argc > 2);
	}
	if (argc == 3 && strcmp(argv[1], "gemm") == 0)
		return try_gemm(atoi(argv[2]));
	fprintf(stderr, "usage: libraries NAME [present] | gemm STATUS\n");
	return 2;
}
