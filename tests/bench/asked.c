/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that a program asks for by allocation calls, its libraries'
 * calls included: an auditor of the dynamic linker (LD_AUDIT), so that it is
 * the same natively and under mpsrun. asked.py reads what it writes.
 *
 * cudart finds driver functions by dlsym and cuGetProcAddress; both answers
 * become a function of ours, which calls the right one and appends a line to
 * the file PID in the folder that BENCH_ASKED names:
 *
 *	+ KIND ADDRESS BYTES        - KIND ADDRESS 0
 *
 * KIND is m (memory) or h (a handle of cuMemCreate, until it is released).
 * Arrays and managed memory are not counted: "! array 0 0" says that there is
 * some.
 *
 * An auditor has a C library of its own, which has not started in threads of
 * the program: nothing here calls more of it than system calls and strcmp.
 */
#include <cuda.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef cuGetProcAddress
#undef cuMemAlloc
#undef cuMemAllocPitch
#undef cuMemFree

enum { LINE = 128, FROM_ENVIRONMENT = 4096 };

static char folder[FROM_ENVIRONMENT];
static int file = -1;

static char *
put_text(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	return at;
}

static char *
put_number(char *at, uint64_t value)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	while (n)
		*at++ = digits[--n];
	return at;
}

/* One write, so that lines of several threads do not mix. A line that cannot
 * be written would be memory that nobody counts: the program ends. */
static void
say(const char *what, uint64_t address, uint64_t bytes)
{
	char line[LINE], path[FROM_ENVIRONMENT + 32], *at;
	int fd = __atomic_load_n(&file, __ATOMIC_ACQUIRE), none = -1;

	if (fd < 0) {
		at = put_text(put_text(path, folder), "/");
		*put_number(at, (uint64_t)getpid()) = '\0';
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			  0600);
		if (fd >= 0 && !__atomic_compare_exchange_n(
				&file, &none, fd, 0, __ATOMIC_ACQ_REL,
				__ATOMIC_ACQUIRE)) {
			close(fd);
			fd = none;
		}
	}
	at = put_text(put_text(line, what), " ");
	at = put_text(put_number(at, address), " ");
	at = put_text(put_number(at, bytes), "\n");
	if (write(fd, line, (size_t)(at - line)) != at - line)
		_exit(99);
}

/* name, its parameters, how it is called, and what is said when it has
 * succeeded. The twins for per-thread streams are functions of their own. */
#define CALLS(CALL)							\
	CALL(cuMemAlloc_v2, (CUdeviceptr *p, size_t n), (p, n),		\
	     say("+ m", *p, n))						\
	CALL(cuMemAllocPitch_v2,					\
	     (CUdeviceptr *p, size_t *pitch, size_t w, size_t h,	\
	      unsigned int e), (p, pitch, w, h, e),			\
	     say("+ m", *p, w * h))					\
	CALL(cuMemAllocAsync, (CUdeviceptr *p, size_t n, CUstream s),	\
	     (p, n, s), say("+ m", *p, n))				\
	CALL(cuMemAllocAsync_ptsz,					\
	     (CUdeviceptr *p, size_t n, CUstream s), (p, n, s),		\
	     say("+ m", *p, n))						\
	CALL(cuMemAllocFromPoolAsync,					\
	     (CUdeviceptr *p, size_t n, CUmemoryPool pool, CUstream s),	\
	     (p, n, pool, s), say("+ m", *p, n))			\
	CALL(cuMemAllocFromPoolAsync_ptsz,				\
	     (CUdeviceptr *p, size_t n, CUmemoryPool pool, CUstream s),	\
	     (p, n, pool, s), say("+ m", *p, n))			\
	CALL(cuMemCreate,						\
	     (CUmemGenericAllocationHandle *p, size_t n,		\
	      const CUmemAllocationProp *prop, unsigned long long f),	\
	     (p, n, prop, f),						\
	     prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ?	\
	     say("+ h", *p, n) : (void)0)				\
	CALL(cuMemFree_v2, (CUdeviceptr p), (p), say("- m", p, 0))	\
	CALL(cuMemFreeAsync, (CUdeviceptr p, CUstream s), (p, s),	\
	     say("- m", p, 0))						\
	CALL(cuMemFreeAsync_ptsz, (CUdeviceptr p, CUstream s), (p, s),	\
	     say("- m", p, 0))						\
	CALL(cuMemRelease, (CUmemGenericAllocationHandle p), (p),	\
	     say("- h", p, 0))						\
	CALL(cuMemAllocManaged,						\
	     (CUdeviceptr *p, size_t n, unsigned int f), (p, n, f),	\
	     say("! managed", 0, 0))					\
	CALL(cuArrayCreate_v2,						\
	     (CUarray *p, const CUDA_ARRAY_DESCRIPTOR *d), (p, d),	\
	     say("! array", 0, 0))					\
	CALL(cuArray3DCreate_v2,					\
	     (CUarray *p, const CUDA_ARRAY3D_DESCRIPTOR *d), (p, d),	\
	     say("! array", 0, 0))					\
	CALL(cuMipmappedArrayCreate,					\
	     (CUmipmappedArray *p, const CUDA_ARRAY3D_DESCRIPTOR *d,	\
	      unsigned int n), (p, d, n), say("! array", 0, 0))

#define WRAP(name, parameters, arguments, then)				\
	static CUresult (*real_##name) parameters;			\
	static CUresult							\
	our_##name parameters						\
	{								\
		CUresult r = real_##name arguments;			\
		if (r == CUDA_SUCCESS)					\
			then;						\
		return r;						\
	}
CALLS(WRAP)

/* What the program gets instead of `found`. The driver has one function of a
 * name for all who ask. */
#define IF_NAME(name, parameters, arguments, then)			\
	if (!strcmp(symbol, #name)) {					\
		real_##name = (CUresult (*) parameters)found;		\
		return (void *)our_##name;				\
	}

static void *
instead_of(const char *symbol, void *found)
{
	CALLS(IF_NAME)
	return found;
}

/* Names without version: which is meant, the caller's version says, and all
 * of these changed with CUDA 3.2. */
static void *
instead_of_entry(const char *symbol, cuuint64_t flags, void *found)
{
	static const char *const versioned[] = {
		"cuMemAlloc", "cuMemAllocPitch", "cuMemFree", "cuArrayCreate",
		"cuArray3DCreate",
	};
	char name[64];

	if (strlen(symbol) > sizeof(name) - 8)
		return found;
	strcpy(name, symbol);
	for (unsigned i = 0; i < sizeof(versioned) / sizeof(*versioned); i++)
		if (!strcmp(symbol, versioned[i]))
			strcat(name, "_v2");
	if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM &&
	    !strncmp(symbol, "cuMem", 5) && strlen(symbol) > 5 &&
	    !strcmp(symbol + strlen(symbol) - 5, "Async"))
		strcat(name, "_ptsz");
	return instead_of(name, found);
}

static CUresult (*real_get)(const char *, void **, int, cuuint64_t);
static CUresult (*real_get_v2)(const char *, void **, int, cuuint64_t,
			       CUdriverProcAddressQueryResult *);

static CUresult our_get(const char *, void **, int, cuuint64_t);
static CUresult our_get_v2(const char *, void **, int, cuuint64_t,
			   CUdriverProcAddressQueryResult *);

static void
exchange(const char *symbol, void **found, int version, cuuint64_t flags)
{
	if (!found || !*found || version < 3020)
		return;
	if (strcmp(symbol, "cuGetProcAddress"))
		*found = instead_of_entry(symbol, flags, *found);
	else if (version < 12000)
		*found = (void *)our_get;
	else
		*found = (void *)our_get_v2;
}

static CUresult
our_get(const char *symbol, void **found, int version, cuuint64_t flags)
{
	CUresult r = real_get(symbol, found, version, flags);

	if (r == CUDA_SUCCESS)
		exchange(symbol, found, version, flags);
	return r;
}

static CUresult
our_get_v2(const char *symbol, void **found, int version, cuuint64_t flags,
	   CUdriverProcAddressQueryResult *why)
{
	CUresult r = real_get_v2(symbol, found, version, flags, why);

	if (r == CUDA_SUCCESS)
		exchange(symbol, found, version, flags);
	return r;
}

unsigned int
la_version(unsigned int version)
{
	const char *given = getenv("BENCH_ASKED");

	/* 0: the linker goes on without us. */
	if (!given || strlen(given) >= sizeof(folder))
		return 0;
	strcpy(folder, given);
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned int
la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
	(void)map;
	(void)space;
	(void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t
la_symbind64(Elf64_Sym *symbol, unsigned int index, uintptr_t *from,
	     uintptr_t *to, unsigned int *flags, const char *name)
{
	void *found = (void *)symbol->st_value;

	(void)index;
	(void)from;
	(void)to;
	(void)flags;
	if (strncmp(name, "cu", 2))
		return symbol->st_value;
	if (!strcmp(name, "cuGetProcAddress")) {
		real_get = (CUresult (*)(const char *, void **, int,
					 cuuint64_t))found;
		return (uintptr_t)our_get;
	}
	if (!strcmp(name, "cuGetProcAddress_v2")) {
		real_get_v2 = (CUresult (*)(
			const char *, void **, int, cuuint64_t,
			CUdriverProcAddressQueryResult *))found;
		return (uintptr_t)our_get_v2;
	}
	return (uintptr_t)instead_of(name, found);
}
