/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question at a time to the broker.
 *
 * The host owns this process's descriptors: it may close ours, or every one
 * there is, and open its own files at the same numbers. So each use first
 * compares what the number means now with what it meant when we got it; a
 * lost socket is an error of ours, never a write to somebody's file.
 */
#include "shim/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/mpsenv.h"
#include "proto/sock.h"
#include "shim/process.h"
#include "shim/relax.h"

/* Above what hosts close in a loop or use with select(). */
#define HIGH_FD 512
/* Waits look at the socket this often. */
#define SLICE_MS 100
/* A frame that has begun to arrive is complete by then. */
#define FRAME_MS 10000
/* Starting a worker includes cuInit of the real driver on every device. */
#define HELLO_MS 120000
#define WARN_MS 10000

int
shim_fd_init(struct shim_fd *out, int fd)
{
	struct stat st;
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

	/* Under a small RLIMIT_NOFILE it stays where it is. */
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	if (fstat(fd, &st) < 0) {
		int r = -errno;

		close(fd);
		return err_origin(r);
	}
	*out = (struct shim_fd){ fd, st.st_dev, st.st_ino };
	return 0;
}

bool
shim_fd_is_ours(const struct shim_fd *fd)
{
	struct stat st;

	return fd->fd >= 0 && !fstat(fd->fd, &st) && st.st_dev == fd->dev &&
	       st.st_ino == fd->ino;
}

/* poll() without its cancellation point. */
static int
raw_poll(struct pollfd *p, int timeout_ms)
{
	struct timespec ts = {
		.tv_sec = timeout_ms / 1000,
		.tv_nsec = timeout_ms % 1000 * 1000000L,
	};

	return (int)syscall(SYS_ppoll, p, 1, &ts, NULL, 0);
}

bool
shim_fd_alive(const struct shim_fd *fd)
{
	struct pollfd p = { .fd = fd->fd, .events = POLLRDHUP };

	if (!shim_fd_is_ours(fd))
		return false;
	return raw_poll(&p, 0) <= 0 ||
	       !(p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

/* By the clock: a program's signals may end each slice at once. */
int
shim_fd_wait(const struct shim_fd *fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd->fd, .events = POLLIN };
	uint64_t begin = shim_now_ns(), ms = 0;
	bool warned = false;

	do {
		if (!shim_fd_is_ours(fd))
			return -EPIPE;
		if (raw_poll(&p, SLICE_MS) > 0)
			return p.revents & POLLIN ? 0 : -EPIPE;
		ms = (shim_now_ns() - begin) / 1000000u;
		if (ms >= WARN_MS && !warned)
			log_line(LOG_WARN, "the broker has not answered for "
				 "%d s; still waiting", WARN_MS / 1000);
		warned = ms >= WARN_MS;
	} while (timeout_ms < 0 || ms < (uint64_t)timeout_ms);
	return -ETIMEDOUT;
}

int
shim_control_open(int fd)
{
	return shim_fd_init(&shim_process.control, fd);
}

void
shim_control_close(void)
{
	if (shim_fd_is_ours(&shim_process.control))
		close(shim_process.control.fd);
	shim_process.control.fd = -1;
}

/* Send and await the answer of the same id. 0 or -errno. */
static int
exchange(const struct shim_fd *fd, Mps__Control *message,
	 Mps__Control **out_answer, int *fds, int *nfds, int timeout_ms)
{
	Mps__Control *answer = NULL;
	int r;

	message->id = atomic_fetch_add(&shim_process.next_id, 1) + 1;
	if (!shim_fd_is_ours(fd))
		return -EPIPE;
	r = sock_send_control(fd->fd, message, NULL, 0, FRAME_MS);
	if (r < 0)
		return r;
	r = shim_fd_wait(fd, timeout_ms);
	if (r < 0)
		return r;
	/* Whatever fails here leaves the stream in the middle of a frame. */
	r = sock_recv_control(fd->fd, &answer, fds, nfds, FRAME_MS);
	if (r < 0)
		return err_trace(-EPIPE);
	if (answer->id != message->id) {
		mps__control__free_unpacked(answer, NULL);
		return err_origin(-EBADMSG);
	}
	*out_answer = answer;
	return 0;
}

static Mps__HelloReply *
hello_on(const struct shim_fd *fd, bool ask_only)
{
	char exe[256] = "", *job = getenv("MPSSHIM_JOB");
	const char *solo = getenv("MPSSHIM_SOLO");
	Mps__Control message = MPS__CONTROL__INIT, *answer = NULL;
	Mps__Hello hello = MPS__HELLO__INIT;
	Mps__HelloReply *reply = NULL;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	bool good;

	exe[n > 0 ? n : 0] = 0;
	hello.wire = WIRE_NUMBER;
	hello.exe = exe;
	hello.job = job ? job : (char *)"";
	hello.ask_only = ask_only;
	hello.solo = solo && !strcmp(solo, "1");
	hello.device_limit = mpsenv_memory_limit(&good);
	hello.pid = (int32_t)getpid();
	message.body_case = MPS__CONTROL__BODY_HELLO;
	message.hello = &hello;
	if (exchange(fd, &message, &answer, NULL, NULL, HELLO_MS) < 0)
		return NULL;
	if (answer->body_case == MPS__CONTROL__BODY_HELLO_REPLY) {
		reply = answer->hello_reply;
		answer->hello_reply = NULL;
		answer->body_case = MPS__CONTROL__BODY__NOT_SET;
	}
	mps__control__free_unpacked(answer, NULL);
	return reply;
}

Mps__HelloReply *
shim_control_hello(bool ask_only)
{
	return hello_on(&shim_process.control, ask_only);
}

int
shim_control_version(int fd)
{
	struct stat st;
	Mps__HelloReply *reply;
	struct shim_fd ours;
	int version = 0;

	if (fstat(fd, &st) < 0)
		return 0;
	ours = (struct shim_fd){ fd, st.st_dev, st.st_ino };
	reply = hello_on(&ours, true);
	if (reply) {
		version = (int)reply->driver_version;
		mps__hello_reply__free_unpacked(reply, NULL);
	}
	return version;
}

bool
shim_broker_alive(void)
{
	return shim_fd_alive(&shim_process.control);
}

CUresult
shim_ask(Mps__Control *message, Mps__Control__BodyCase want,
	 Mps__Control **out_answer, int *fds, int *nfds)
{
	int room = nfds ? *nfds : 0, state, r;
	Mps__Control *answer = NULL;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&shim_process.lock);
	r = exchange(&shim_process.control, message, &answer, fds, nfds, -1);
	pthread_mutex_unlock(&shim_process.lock);
	pthread_setcancelstate(state, NULL);
	if (r == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (r < 0) {
		if (nfds)
			*nfds = 0;
		return shim_broker_lost("the connection to the broker is "
					"lost");
	}
	if (answer->body_case == want ||
	    answer->body_case == MPS__CONTROL__BODY_DONE) {
		*out_answer = answer;
		return CUDA_SUCCESS;
	}
	for (int i = 0; nfds && i < *nfds && i < room; i++)
		close(fds[i]);
	if (nfds)
		*nfds = 0;
	mps__control__free_unpacked(answer, NULL);
	return shim_process_fail(CUDA_ERROR_MPS_RPC_FAILURE,
				 "the broker answered something else");
}

CUresult
shim_ask_done(Mps__Control *message)
{
	Mps__Control *answer;
	CUresult r = shim_ask(message, MPS__CONTROL__BODY_DONE, &answer, NULL,
			      NULL);

	if (r != CUDA_SUCCESS)
		return r;
	r = (CUresult)answer->done->status;
	if (r != CUDA_SUCCESS && *answer->done->message)
		log_line(LOG_INFO, "broker: %s", answer->done->message);
	mps__control__free_unpacked(answer, NULL);
	return r;
}

CUresult
shim_ask_back(Mps__Control *message, const char *what)
{
	CUresult r = shim_ask_done(message);

	if (r != CUDA_SUCCESS && !atomic_load(&shim_process.sticky))
		log_line(LOG_WARN, "%s could not be given back (%d)", what,
			 (int)r);
	return r;
}
