/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crew.
 *
 * Helpers are made at the first large copy, in a thread's call and of its
 * cores, and end after a second without one, so that a process of which only
 * they are left ends too. Between two jobs of a copy they look for the next
 * one before they sleep: a sleep takes as long as a job.
 *
 * A forked child has none of them and never comes here: it has no CUDA.
 *
 * Memory order. Who adds: job into the queue, posts + 1 (seq_cst), then reads
 * sleepers. Who sleeps: sleepers + 1 (seq_cst), then the kernel compares posts
 * with what it was before the queue was found empty. In the single order of
 * these either the job is found or the sleeper is woken.
 */
#include "shim/crew.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "shim/relax.h"
#include "shim/thread.h"

/* They call nothing but what is here; a handler of the host's for a fault in
 * its own memory needs more. */
#define STACK_SIZE (256u * 1024u)
#define CORES_EACH 4u
/* Sleeps of at most 100 ms without a job before a helper ends. */
#define IDLE_SLEEPS 10

enum job_state {
	JOB_OPEN,
	JOB_AWAITED,    /* its caller sleeps */
	JOB_DONE,
};

/* What one thread has taken of a job. */
struct bit {
	struct shim_crew_job *job;
	size_t at, size;
};

static struct {
	pthread_mutex_t lock;           /* guards what follows */
	struct shim_crew_job *first, **end;
	unsigned int count;             /* helpers */
	unsigned int opened;            /* copies under way */
} crew = { .lock = PTHREAD_MUTEX_INITIALIZER, .end = &crew.first };
static _Atomic uint32_t posts;          /* jobs ever added: futex word */
static _Atomic uint32_t sleepers;

/* ---- bytes ---- */

/*
 * What is written past the caches is not read into them first: 11 GB/s from
 * warm staging memory instead of 7, 16 GB/s into it instead of 13 (Xeon,
 * 2.8 GHz, one thread).
 */
static void
move_past_caches(uint8_t *to, const uint8_t *from, size_t size)
{
#ifdef __SSE2__
	size_t head = -(uintptr_t)to % 64;

	if (head > size)
		head = size;
	memcpy(to, from, head);
	for (to += head, from += head, size -= head; size >= 64;
	     to += 64, from += 64, size -= 64) {
		__m128i a = _mm_loadu_si128((const __m128i *)from);
		__m128i b = _mm_loadu_si128((const __m128i *)(from + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(from + 32));
		__m128i d = _mm_loadu_si128((const __m128i *)(from + 48));

		_mm_stream_si128((__m128i *)to, a);
		_mm_stream_si128((__m128i *)(to + 16), b);
		_mm_stream_si128((__m128i *)(to + 32), c);
		_mm_stream_si128((__m128i *)(to + 48), d);
	}
	/* Such stores are ordered by nothing else, not even by a release. */
	_mm_sfence();
#endif
	memcpy(to, from, size);
}

static void
run(const struct bit *bit)
{
	struct shim_crew_job *job = bit->job;
	uint8_t *to = (uint8_t *)job->to + bit->at;
	const uint8_t *from = (const uint8_t *)job->from + bit->at;

	if (job->past_caches)
		move_past_caches(to, from, bit->size);
	else
		memcpy(to, from, bit->size);
	/* Whoever does the last bit has the others' bytes in its own order. */
	if (atomic_fetch_sub_explicit(&job->left, 1, memory_order_acq_rel) > 1)
		return;
	/* Release: the bytes are there for who sees DONE. The job may be gone
	 * after this; a wake of its address then wakes nobody, or somebody
	 * who looks again. */
	if (atomic_exchange_explicit(&job->state, JOB_DONE,
				     memory_order_acq_rel) == JOB_AWAITED)
		shim_futex_wake(&job->state, 1, false);
}

/* ---- the queue ---- */

/* A bit of the oldest job. */
static bool
take_locked(struct bit *bit)
{
	struct shim_crew_job *job = crew.first;

	if (!job)
		return false;
	bit->job = job;
	bit->at = job->taken;
	bit->size = job->size - job->taken;
	if (bit->size > CREW_BIT)
		bit->size = CREW_BIT;
	job->taken += bit->size;
	if (job->taken == job->size) {
		crew.first = job->next;
		if (!crew.first)
			crew.end = &crew.first;
	}
	return true;
}

/* False: there is nothing to do. */
static bool
work(void)
{
	struct bit bit;
	bool any;

	pthread_mutex_lock(&crew.lock);
	any = take_locked(&bit);
	pthread_mutex_unlock(&crew.lock);
	if (any)
		run(&bit);
	return any;
}

void
shim_crew_add(struct shim_crew_job *job, unsigned int helpers)
{
	uint32_t bits = (uint32_t)((job->size + CREW_BIT - 1) / CREW_BIT);

	job->next = NULL;
	job->taken = 0;
	atomic_store_explicit(&job->state, JOB_OPEN, memory_order_relaxed);
	atomic_store_explicit(&job->left, bits, memory_order_relaxed);
	pthread_mutex_lock(&crew.lock);
	*crew.end = job;
	crew.end = &job->next;
	pthread_mutex_unlock(&crew.lock);
	atomic_fetch_add(&posts, 1);
	if (helpers && atomic_load(&sleepers))
		shim_futex_wake(&posts, (int)helpers, false);
}

bool
shim_crew_is_done(struct shim_crew_job *job)
{
	return atomic_load_explicit(&job->state, memory_order_acquire) ==
	       JOB_DONE;
}

void
shim_crew_finish(struct shim_crew_job *job)
{
	uint32_t open = JOB_OPEN;

	while (!shim_crew_is_done(job) && work())
		;
	/* Nothing is left to take: others do the last bits of this one. */
	if (shim_spin(&job->state, JOB_OPEN))
		return;
	/* Acquire on failure: DONE publishes the bytes. */
	if (!atomic_compare_exchange_strong_explicit(
			&job->state, &open, JOB_AWAITED,
			memory_order_acq_rel, memory_order_acquire))
		return;
	while (!shim_crew_is_done(job))
		shim_futex_wait(&job->state, JOB_AWAITED, false);
}

/* ---- helpers ---- */

/* A fault in the host's memory is the host's to handle, wherever it happens:
 * a blocked one would end the process. */
static void
let_faults_in(void)
{
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

/* False: no copy is under way, and the helper does not count any more. */
static bool
stay(void)
{
	bool yes;

	pthread_mutex_lock(&crew.lock);
	yes = crew.opened > 0 || crew.first;
	if (!yes)
		crew.count--;
	pthread_mutex_unlock(&crew.lock);
	return yes;
}

static void *
helper(void *arg)
{
	int sleeps = 0;

	(void)arg;
	pthread_setname_np(pthread_self(), "cuda-copy");
	let_faults_in();
	for (;;) {
		uint32_t seen = atomic_load(&posts);

		if (work() || shim_spin(&posts, seen)) {
			sleeps = 0;
			continue;
		}
		atomic_fetch_add(&sleepers, 1);
		shim_futex_wait(&posts, seen, false);
		atomic_fetch_sub(&sleepers, 1);
		if (atomic_load(&posts) != seen)
			sleeps = 0;
		else if (++sleeps >= IDLE_SLEEPS && !stay())
			return NULL;
	}
}

unsigned int
shim_crew_size(void)
{
	unsigned int cores = 0;
	cpu_set_t set;

	/* More cores than the set holds are an error, and are many. */
	if (sched_getaffinity(0, sizeof(set), &set))
		return CREW_MAX;
	cores = (unsigned int)CPU_COUNT(&set);
	return cores / CORES_EACH < CREW_MAX ? cores / CORES_EACH : CREW_MAX;
}

void
shim_crew_open(unsigned int helpers)
{
	pthread_mutex_lock(&crew.lock);
	crew.opened++;
	while (crew.count < helpers &&
	       !shim_thread_start(helper, NULL, STACK_SIZE))
		crew.count++;
	pthread_mutex_unlock(&crew.lock);
}

void
shim_crew_close(void)
{
	pthread_mutex_lock(&crew.lock);
	crew.opened--;
	pthread_mutex_unlock(&crew.lock);
}

unsigned int
shim_crew_count(void)
{
	unsigned int count;

	pthread_mutex_lock(&crew.lock);
	count = crew.count;
	pthread_mutex_unlock(&crew.lock);
	return count;
}
