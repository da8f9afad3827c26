/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that goes before libmpsshim.so in LD_PRELOAD, with the same SONAME:
 * every driver call of the program is forwarded and its times are noted in
 * $TIMED_DIR/PID.calls, an array of struct timed_call that begins with one
 * whose start is the number of entries. $TIMED_DRIVER is what it forwards to.
 */
#include "tests/gpu/stall/timed.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The file is sparse: only what is written takes room. */
#define CAPACITY (UINT64_C(1) << 22)

void (*timed_real[TIMED_COUNT])(void);

static void *own[TIMED_COUNT];
static struct timed_call *calls;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define NAME(name, kind) #name,
static const char *const names[] = { TIMED_NAMES(NAME) };

static void
fail(const char *what)
{
	fprintf(stderr, "timed.so: %s\n", what);
	abort();
}

/* A function that the library lacks is not called by whoever asked for it:
 * all that cuda.h has are there. */
static void
find_all(void)
{
	const char *driver = getenv("TIMED_DRIVER");
	void *real = driver ? dlopen(driver, RTLD_NOW | RTLD_LOCAL) : NULL;
	Dl_info info;
	void *self;

	if (!real)
		fail(driver ? dlerror() : "TIMED_DRIVER is not set");
	if (!dladdr(names, &info))
		fail("where am I?");
	self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	if (!self)
		fail(dlerror());
	for (int i = 0; i < TIMED_COUNT; i++) {
		void *symbol = dlsym(real, names[i]);

		own[i] = dlsym(self, names[i]);
		if (!symbol || !own[i] || symbol == own[i])
			fail(names[i]);
		memcpy(&timed_real[i], &symbol, sizeof(symbol));
	}
}

static void
start(void)
{
	const char *directory = getenv("TIMED_DIR");
	char path[4096];
	int fd;

	find_all();
	if (!directory)
		fail("TIMED_DIR is not set");
	snprintf(path, sizeof(path), "%s/%d.calls", directory, (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, CAPACITY * sizeof(*calls)) < 0)
		fail(path);
	calls = mmap(NULL, CAPACITY * sizeof(*calls), PROT_READ | PROT_WRITE,
		     MAP_SHARED, fd, 0);
	if (calls == MAP_FAILED)
		fail("no room for the calls");
	close(fd);
}

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Also of a forked child, which writes on in the file of its parent. */
struct timed_call *
timed_begin(enum timed_id id)
{
	static __thread uint32_t thread;
	struct timed_call *call;
	uint64_t at;

	pthread_once(&once, start);
	if (!thread)
		thread = (uint32_t)syscall(SYS_gettid);
	at = 1 + __atomic_fetch_add(&calls->start, 1, __ATOMIC_RELAXED);
	if (at >= CAPACITY)
		fail("more calls than there is room for");
	call = &calls[at];
	call->id = id;
	call->thread = thread;
	call->start = now_ns();
	return call;
}

void
timed_end(struct timed_call *call)
{
	call->end = now_ns();
}

void *
timed_own(void *real)
{
	for (int i = 0; i < TIMED_COUNT; i++) {
		void *symbol;

		memcpy(&symbol, &timed_real[i], sizeof(symbol));
		if (symbol == real)
			return own[i];
	}
	return real;
}
