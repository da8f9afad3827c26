/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Becoming a client: cuInit's work, and the forked child's refusal.
 */
#include "shim/process.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/mpsenv.h"
#include "proto/settings.h"
#include "proto/sock.h"
#include "shim/control.h"
#include "shim/start.h"
#include "shim/visible.h"

/* A load may well wait for as long as a kernel of a training step takes. */
#define WAIT_WARN_S 10

struct shim_process shim_process = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.control = { .fd = -1 },
};

/* MPSSHIM_PERF: names in the order of the SHIM_NO_* bits. */
static const char *const perf_names[] = {
	"no_ring", "no_post", "no_cache", "no_pin", "no_share", "no_word",
	"no_swap",
};

static unsigned int
read_perf(const char *spec)
{
	unsigned int perf = 0;

	while (spec && *spec) {
		size_t size = strcspn(spec, ",");

		for (unsigned i = 0;
		     i < sizeof(perf_names) / sizeof(*perf_names); i++) {
			if (strlen(perf_names[i]) == size &&
			    !memcmp(perf_names[i], spec, size))
				perf |= 1u << i;
		}
		spec += size + (spec[size] == ',');
	}
	return perf;
}

/* With few cores, whoever spins keeps the worker from the answer. */
static unsigned int
spin_budget(void)
{
	cpu_set_t set;
	int cpus = 1;

	if (!sched_getaffinity(0, sizeof(set), &set))
		cpus = CPU_COUNT(&set);
	if (cpus < 2)
		return 0;
	return cpus < 4 ? 20000 : 50000;
}

/* NVIDIA's, which whoever comes from MPS has set. */
static void
read_mps_environment(void)
{
	char line[256];
	bool good;

	for (unsigned int i = 0; mpsenv_idle(i, line, sizeof(line)); i++)
		log_line(LOG_WARN, "%s", line);
	mpsenv_memory_limit(&good);
	if (!good)
		log_line(LOG_ERROR, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT is not "
			 "all understood (it takes DEVICE=SIZE,..., as 0=10G); "
			 "the rest of it is ignored");
}

static uint64_t
read_wait_warn(void)
{
	const char *text = getenv("MPSSHIM_WAIT_WARN_S");
	char *end;
	uint64_t s;

	if (!text || !*text)
		return WAIT_WARN_S * UINT64_C(1000000000);
	s = strtoull(text, &end, 10);
	return (*end || s > 1u << 20 ? WAIT_WARN_S : s) * UINT64_C(1000000000);
}

static void
read_environment(void)
{
	const char *text = getenv("MPSSHIM_SYNC_FREE");
	char why[256];

	log_init("mpsshim", LOG_WARN);
	if (!settings_good(SETTINGS_SHIM, why, sizeof(why)))
		log_once(LOG_ERROR, "%s; it is ignored", why);
	read_mps_environment();
	shim_process.perf = read_perf(getenv("MPSSHIM_PERF"));
	shim_process.sync_free = text && !strcmp(text, "1");
	shim_process.spin_ns = spin_budget();
	shim_process.wait_warn_ns = read_wait_warn();
}

/*
 * The word that says whether we are up lies in a page of its own that the
 * kernel zeroes in a forked child, which then reads SHIM_DOWN.
 */
static int
make_live(void)
{
	void *page;

	if (atomic_load_explicit(&shim_process.live, memory_order_relaxed))
		return 0;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return err_origin(-errno);
	if (madvise(page, 4096, MADV_WIPEONFORK) < 0) {
		int r = -errno;

		munmap(page, 4096);
		return err_origin(r);
	}
	atomic_store_explicit(&shim_process.live, page, memory_order_release);
	return 0;
}

static void
set_live(enum shim_live state)
{
	/* Release: pairs with shim_enter_init's acquire. */
	atomic_store_explicit(shim_process.live, state, memory_order_release);
}

static enum shim_live
get_live(void)
{
	_Atomic uint32_t *live = atomic_load_explicit(&shim_process.live,
						      memory_order_acquire);

	return live ? (enum shim_live)atomic_load_explicit(
		live, memory_order_acquire) : SHIM_DOWN;
}

/* One line for the user, once a process: what failed, where, what to do. */
static CUresult
complain(CUresult code, const char *what, const char *advice)
{
	log_once(LOG_ERROR, "%s, socket %s: %s", what,
		 shim_process.socket[0] ? shim_process.socket : "(none)",
		 advice);
	return code;
}

/* A connection that has been greeted, or NULL, why not and what to do. */
static Mps__HelloReply *
greet(char *why, size_t why_size, const char **out_advice)
{
	Mps__HelloReply *hello = NULL;
	int fd;

	/* A broker about to end for want of clients may accept and leave:
	 * the next one does not. */
	for (int i = 0; i < 2 && !hello; i++) {
		fd = shim_broker_connect(why, why_size);
		if (fd == -ECHILD)
			*out_advice = "no broker can be started";
		if (fd == -EINVAL)
			*out_advice = "or start the program with mpsrun";
		if (fd < 0)
			return NULL;
		if (shim_control_open(fd) < 0) {
			snprintf(why, why_size, "no descriptor is free");
			return NULL;
		}
		hello = shim_control_hello(false);
		if (!hello)
			shim_control_close();
	}
	if (!hello)
		snprintf(why, why_size, "the broker hung up instead of "
			 "answering our greeting");
	return hello;
}

/* What the broker's refusal means for the user. */
static const char *
advice_for(CUresult code)
{
	if (code == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
		return "use libmpsshim.so and mpsd of one release";
	if (code == CUDA_ERROR_MPS_SERVER_NOT_READY)
		return "start the program again later, or end them with "
		       "`mpsctl quit --force`";
	return "mpsd.log beside the socket says more";
}

static void
choose_devices(void)
{
	const Mps__HelloReply *hello = shim_process.hello;
	int real[SHIM_MAX_DEVICES];

	shim_process.ndevices = shim_visible(
		getenv("CUDA_VISIBLE_DEVICES"), hello->devices,
		(int)hello->n_devices, real, SHIM_MAX_DEVICES);
	for (int i = 0; i < shim_process.ndevices; i++) {
		shim_process.devices[i].info = hello->devices[real[i]];
		shim_process.devices[i].real = hello->devices[real[i]]->ordinal;
	}
}

static CUresult
connect_locked(void)
{
	const char *advice = "start the program with mpsrun, or start mpsd";
	/* The first call may come from a thread with a stack of 16 KiB. */
	static char dir[PATH_MAX];
	char why[256] = "no broker answers";
	Mps__HelloReply *hello;
	CUresult code;

	read_environment();
	if (make_live() < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (sock_paths(dir, sizeof(dir), shim_process.socket,
		       sizeof(shim_process.socket)) < 0)
		*shim_process.socket = 0;
	hello = greet(why, sizeof(why), &advice);
	if (!hello)
		return complain(CUDA_ERROR_MPS_CONNECTION_FAILED, why, advice);
	code = (CUresult)hello->status;
	if (code != CUDA_SUCCESS) {
		complain(code, *hello->message ? hello->message :
			 "the broker refuses us", advice_for(code));
		mps__hello_reply__free_unpacked(hello, NULL);
		shim_control_close();
		return code;
	}
	shim_process.hello = hello;
	shim_process.driver_version = hello->driver_version &&
		hello->driver_version < CUDA_VERSION ?
		(int)hello->driver_version : CUDA_VERSION;
	choose_devices();
	if (shim_process.ndevices <= 0) {
		/* Without devices we are nobody's client. */
		shim_control_close();
		mps__hello_reply__free_unpacked(hello, NULL);
		shim_process.hello = NULL;
		return shim_process.ndevices ? CUDA_ERROR_INVALID_DEVICE
					     : CUDA_ERROR_NO_DEVICE;
	}
	set_live(SHIM_UP);
	return CUDA_SUCCESS;
}

/* The answer without connecting, if there is one already. */
static bool
settled(CUresult *out_code)
{
	switch (get_live()) {
	case SHIM_UP:
		*out_code = CUDA_SUCCESS;
		return true;
	case SHIM_FAILED:
		*out_code = (CUresult)atomic_load(&shim_process.sticky);
		return true;
	case SHIM_DOWN:
		return false;
	}
	return false;
}

CUresult
shim_connect(void)
{
	int none = 0, mine = (int)getpid(), state;
	CUresult r;

	if (settled(&r))
		return r;
	/*
	 * The pid is claimed before the lock is taken: a child forked at any
	 * moment after this finds another's pid, refuses, and never touches
	 * a lock that nobody in it will release.
	 */
	if (!atomic_compare_exchange_strong(&shim_process.pid, &none, mine) &&
	    none != mine)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&shim_process.lock);
	if (!settled(&r)) {
		atomic_store(&shim_process.pid, mine);
		r = connect_locked();
		if (r != CUDA_SUCCESS)
			atomic_store(&shim_process.pid, 0);
	}
	pthread_mutex_unlock(&shim_process.lock);
	pthread_setcancelstate(state, NULL);
	return r;
}

CUresult
shim_process_fail(CUresult code, const char *why)
{
	uint32_t none = CUDA_SUCCESS;

	if (atomic_compare_exchange_strong(&shim_process.sticky, &none, code)) {
		if (why)
			complain(code, why, "every CUDA call of this process "
				 "fails from here on; start the program again");
		set_live(SHIM_FAILED);
	}
	return (CUresult)atomic_load(&shim_process.sticky);
}

int
shim_driver_version(void)
{
	static _Atomic int known;
	_cleanup_free_ char *dir = NULL;
	int version = atomic_load(&known), fd;
	char path[108];

	if (get_live() != SHIM_DOWN)
		return shim_process.driver_version;
	if (version)
		return version;
	dir = malloc(PATH_MAX);
	if (!dir || sock_paths(dir, PATH_MAX, path, sizeof(path)) < 0)
		return CUDA_VERSION;
	fd = sock_connect(path);
	if (fd < 0)
		return CUDA_VERSION;
	version = shim_control_version(fd);
	close(fd);
	if (version <= 0 || version > CUDA_VERSION)
		version = CUDA_VERSION;
	atomic_store(&known, version);
	return version;
}
