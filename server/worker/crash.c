/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver dies in a call: say in which one and whose it was, to the log
 * and to the broker, and end as one does who was not asked. A call that has
 * killed a worker must not be made again in the next one.
 *
 * Runs in a signal handler, in a process of which nothing is sure: no memory
 * is allocated, no lock is waited for long, and a second signal of the thread
 * ends it at once. Another thread that dies meanwhile says so, too, and lets
 * the first one speak to the end.
 */
#include "server/worker/crash.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "proto/frame.h"
#include "server/worker/client.h"
#include "server/worker/risk.h"

/* A compiler that has used up its stack has none left for us. */
#define ROOM (64u * 1024u)
/* Milliseconds, for other threads to have sent what they send. */
#define TURN_TRIES 100

__thread struct wkr_at wkr_at;
static _Atomic bool crashing, told;

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static uintptr_t
where(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)context->uc_mcontext.pc;
#endif
}

/* The next byte of a file, or -1. */
struct text {
	int fd;
	size_t at, size;
	char bytes[512];
};

static int
next(struct text *t)
{
	if (t->at == t->size) {
		ssize_t n = read(t->fd, t->bytes, sizeof(t->bytes));

		if (n <= 0)
			return -1;
		t->at = 0;
		t->size = (size_t)n;
	}
	return (unsigned char)t->bytes[t->at++];
}

/* One line of /proc/self/maps; false: there is none. */
static bool
next_line(struct text *t, char *out, size_t size)
{
	size_t n = 0;
	int c;

	while ((c = next(t)) >= 0 && c != '\n')
		if (n + 1 < size)
			out[n++] = (char)c;
	out[n] = '\0';
	return n || c >= 0;
}

/* "libcuda.so.1+0x1234": the file mapped at `at`, and the place in it, as
 * disassemblers count. */
static void
name_place(uintptr_t at, char *out, size_t size)
{
	unsigned long from, to, offset;
	struct text t = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
	char line[512], *file;

	snprintf(out, size, "0x%lx", (unsigned long)at);
	while (t.fd >= 0 && next_line(&t, line, sizeof(line))) {
		if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) != 3 ||
		    at < from || at >= to)
			continue;
		file = strrchr(line, '/');
		if (file)
			snprintf(out, size, "%.64s+0x%lx", file + 1,
				 (unsigned long)at - from + offset);
		break;
	}
	if (t.fd >= 0)
		close(t.fd);
}

/* Of sending, unless it is this thread that was about to send. */
static bool
take_turn(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (int i = 0; i < TURN_TRIES; i++) {
		if (pthread_mutex_trylock(&wkr.control_lock) == 0)
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

/* The broker learns whose call it was; without, it sees the end alone. */
static void
tell_broker(int signal_number, const char *message)
{
	struct {
		struct frame_header header;
		uint8_t body[512];
	} frame;
	Mps__WorkerFault m = MPS__WORKER_FAULT__INIT;
	Mps__Control control = MPS__CONTROL__INIT;
	size_t size;

	if (!wkr_at.client || !wkr_at.its_call)
		return;
	m.message = (char *)message;
	m.client = wkr_at.client->id;
	m.signal = (uint32_t)signal_number;
	control.body_case = MPS__CONTROL__BODY_WORKER_FAULT;
	control.worker_fault = &m;
	size = mps__control__get_packed_size(&control);
	/* Another thread may be in the middle of a frame. */
	if (size > sizeof(frame.body) || !take_turn())
		return;
	frame.header = (struct frame_header){
		.size = (uint32_t)size, .type = FRAME_CONTROL,
	};
	mps__control__pack(&control, frame.body);
	send(WKR_CONTROL_FD, &frame, sizeof(frame.header) + size,
	     MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The same instruction, or abort(), or this raise() ends it, when the handler
 * returns: as it would have without one, also to whoever keeps cores. */
static void
let_go(int number)
{
	signal(number, SIG_DFL);
	raise(number);
}

static void
hear_first(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (int i = 0; i < 2 * TURN_TRIES && !atomic_load(&told); i++)
		nanosleep(&nap, NULL);
}

static void
crashed(int number, siginfo_t *info, void *context)
{
	static __thread bool again;
	char place[128], thread[16] = "", whose[96] = "nobody's call";
	char text[400], code[WKR_RISK_CODE];
	const char *what = atomic_load(&wkr_at.what);
	bool first;
	int n;

	if (again) {
		let_go(number);
		return;
	}
	again = true;
	first = !atomic_exchange(&crashing, true);
	wkr_risk_crash();
	wkr_risk_code(code);
	prctl(PR_GET_NAME, thread);
	name_place(where(context), place, sizeof(place));
	if (wkr_at.client)
		snprintf(whose, sizeof(whose), "client %llu (pid %d)",
			 (unsigned long long)wkr_at.client->id,
			 wkr_at.client->pid);
	n = snprintf(text, sizeof(text),
		     "device %d: signal %d in %s of %s%s, thread %s, at %s, "
		     "address %p\n", wkr.ordinal, number,
		     what ? what : "no call", whose, code, thread,
		     place, info->si_addr);
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) == n)
		text[n - 1] = '\0';
	if (first) {
		tell_broker(number, text);
		atomic_store(&told, true);
	} else {
		hear_first();
	}
	let_go(number);
}

void
wkr_crash_thread(void)
{
	stack_t room = {.ss_size = ROOM};

	room.ss_sp = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room.ss_sp != MAP_FAILED)
		sigaltstack(&room, NULL);
}

void
wkr_crash_init(void)
{
	struct sigaction action = {
		.sa_sigaction = crashed,
		.sa_flags = SA_SIGINFO | SA_ONSTACK,
	};

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
}

void
wkr_crash_first(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (int i = 0; i < TURN_TRIES && atomic_load(&crashing); i++)
		nanosleep(&nap, NULL);
}
