/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting, and finding out that it is in vain.
 *
 * A wait first spins, because a reply takes a quarter of a microsecond and a
 * sleep fifteen, then sleeps in slices of at most 100 ms. Between slices it
 * looks whether worker and broker still live: a lost one ends every wait
 * within a second, and nothing here waits without such an end.
 */
#include "shim/chan_own.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/log.h"
#include "shim/process.h"

#define SLICE_NS 100000000L
#define SPIN_TURNS 64u
#define NAP_MIN_NS UINT64_C(20000)
#define NAP_SHIFT_MAX 5u             /* up to 0.64 ms */
#define WARN_NS UINT64_C(10000000000)
/* For the reason of a worker's end: 300 ms in all. */
#define REASON_NS UINT64_C(10000000)
#define REASON_TRIES 30

uint64_t
shim_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void
shim_nap(uint64_t ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};
	int saved = errno;

	/* All of it: who counts naps means the time. */
	while (syscall(SYS_nanosleep, &ts, &ts) < 0 && errno == EINTR)
		;
	errno = saved;
}

static inline void
cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

bool
shim_spin(_Atomic uint32_t *word, uint32_t value)
{
	_Atomic uint64_t none = 0;

	return shim_spin_either(word, value, &none, 1);
}

bool
shim_spin_either(_Atomic uint32_t *word, uint32_t value,
		 _Atomic uint64_t *other, uint64_t come)
{
	uint64_t end = 0;

	for (;;) {
		for (int i = 0; i < 32; i++) {
			if (atomic_load_explicit(word, memory_order_acquire) !=
				    value ||
			    atomic_load_explicit(other, memory_order_acquire) ==
				    come)
				return true;
			cpu_relax();
		}
		if (!end)
			end = shim_now_ns() + shim_process.spin_ns;
		else if (shim_now_ns() >= end)
			return false;
	}
}

void
shim_futex_wait(_Atomic uint32_t *word, uint32_t value, bool shared)
{
	struct timespec slice = { .tv_nsec = SLICE_NS };
	int saved = errno;

	syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE,
		value, &slice, NULL, 0);
	errno = saved;
}

void
shim_futex_wake(_Atomic uint32_t *word, int count, bool shared)
{
	int saved = errno;

	syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE,
		count, NULL, NULL, 0);
	errno = saved;
}

/* Its end is seen before its reason, which it or the broker writes. */
static CUresult
why_worker_died(struct shim_chan *chan)
{
	uint32_t dead;

	for (int i = 0; i < REASON_TRIES; i++) {
		dead = atomic_load_explicit(&chan->channel.page->dead,
					    memory_order_acquire);
		if (dead)
			return (CUresult)dead;
		shim_nap(REASON_NS);
	}
	return CUDA_ERROR_LAUNCH_FAILED;
}

/* Natively the driver writes it here, before any call returns the error. */
static void
say_text(struct shim_chan *chan)
{
	const char *text = chan->channel.page->text;
	size_t size = strnlen(text, CHANNEL_TEXT);

	if (size && !atomic_exchange(&chan->said, true))
		log_text(text, size);
}

/* Once a process: what it cannot know from a code that might be its own. */
static void
lose_worker(struct shim_chan *chan, CUresult code)
{
	const char *slash = strrchr(shim_process.socket, '/');
	const char *why = chan->channel.page->why;

	say_text(chan);
	shim_chan_fail(chan, code);
	log_once(LOG_ERROR, "what this program had on the GPU is lost (error "
		 "%d): %.*s; the broker's log (%.*s/mpsd.log, unless it was "
		 "started with another) says more; every CUDA call of this "
		 "process fails from here on; start the program again",
		 (int)code, (int)strnlen(why, CHANNEL_WHY), why,
		 slash ? (int)(slash - shim_process.socket) : 1,
		 slash ? shim_process.socket : ".");
}

/* Acquire: whatever was written before it is seen. */
static CUresult
death_of(const struct shim_chan *chan)
{
	return (CUresult)atomic_load_explicit(&chan->channel.page->dead,
					      memory_order_acquire);
}

/* Whom it ends the broker tells why, and closes the connection then. */
CUresult
shim_broker_lost(const char *why)
{
	const CUresult told = CUDA_ERROR_MPS_CLIENT_TERMINATED;
	bool ended = false;

	for (int i = 0; i < shim_process.ndevices; i++) {
		struct shim_chan *chan = shim_process.devices[i].chan;

		if (!chan || death_of(chan) != told)
			continue;
		if (shim_chan_sticky(chan) == CUDA_SUCCESS)
			lose_worker(chan, told);
		ended = true;
	}
	return ended ? shim_process_fail(told, NULL) :
	       shim_process_fail(CUDA_ERROR_MPS_RPC_FAILURE, why);
}

CUresult
shim_chan_health(struct shim_chan *chan)
{
	CUresult dead = death_of(chan), r = shim_chan_sticky(chan);

	if (r != CUDA_SUCCESS)
		return r;
	shim_notice(chan);
	if (dead) {
		lose_worker(chan, dead);
	} else if (!shim_broker_alive()) {
		shim_chan_fail(chan, shim_broker_lost("the broker is gone"));
	} else if (!shim_fd_is_ours(&chan->data)) {
		shim_process_fail(CUDA_ERROR_MPS_RPC_FAILURE,
				  "the program closed our socket to the "
				  "worker");
		shim_chan_fail(chan, CUDA_ERROR_MPS_RPC_FAILURE);
	} else if (!shim_fd_alive(&chan->data)) {
		lose_worker(chan, why_worker_died(chan));
	}
	return shim_chan_sticky(chan);
}

CUresult
shim_relax(struct shim_chan *chan, struct shim_relax *relax)
{
	uint64_t now;

	if (relax->turn++ < SPIN_TURNS && shim_process.spin_ns) {
		for (int i = 0; i < 32; i++)
			cpu_relax();
		return CUDA_SUCCESS;
	}
	now = shim_now_ns();
	if (!relax->begin_ns)
		relax->begin_ns = now;
	if (now >= relax->check_ns) {
		CUresult r = shim_chan_health(chan);

		if (r != CUDA_SUCCESS)
			return r;
		relax->check_ns = now + SLICE_NS;
	}
	if (now - relax->begin_ns > WARN_NS)
		log_once(LOG_INFO, "a call has waited 10 s for the worker");
	shim_nap(NAP_MIN_NS << (relax->turn / SPIN_TURNS < NAP_SHIFT_MAX ?
				relax->turn / SPIN_TURNS : NAP_SHIFT_MAX));
	return CUDA_SUCCESS;
}
