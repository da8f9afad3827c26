/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a broker from inside somebody's process.
 *
 * The host must not notice: no SIGCHLD, nothing for its wait() to find, no
 * descriptor of it held open, no copy of its memory made. So:
 *   1. clone() without an exit signal makes an intermediate process, which
 *      shares our memory while we are suspended (as vfork does) and is
 *      invisible to wait() without __WCLONE;
 *   2. it clones the process that executes mpsd and exits at once, because
 *      exec would give that one an exit signal again;
 *   3. we take the intermediate one off with __WCLONE; mpsd is init's.
 * Between clone and exec all signals are blocked, and everything is a raw
 * system call: the two share memory with threads of the host that go on.
 */
#include "shim/start.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/sock.h"

#define DEFAULT_IDLE_S "60"
#define READY_MS 15000
#define LOCK_MS 20000
#define STACK_SIZE (64u * 1024u)
/* close_range() came with Linux 5.9; unified number on all machines. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define say(...) snprintf(why, why_size, __VA_ARGS__)

enum shim_no_broker
shim_no_broker(void)
{
	const char *set = getenv("MPSSHIM_NO_BROKER");

	if (set && !strcmp(set, "native"))
		return SHIM_NO_BROKER_NATIVE;
	if (set && !strcmp(set, "error"))
		return SHIM_NO_BROKER_ERROR;
	return SHIM_NO_BROKER_START;
}

/* ---- where things are ---------------------------------------------------*/

/* On the heap: the first call may come from a thread with a stack of 16 KiB. */
struct room {
	char dir[PATH_MAX], path[108];          /* of the socket */
	char own[PATH_MAX], program[PATH_MAX];  /* mpsd */
	char lock[PATH_MAX + 16];
	char dir_arg[PATH_MAX + 16], driver_arg[PATH_MAX + 16], idle_arg[64];
};

static int
directory_of(const char *file, char *out, size_t size)
{
	_cleanup_free_ char *real = realpath(file, NULL);
	char *slash;

	if (!real)
		return -errno;
	slash = strrchr(real, '/');
	if (!slash)
		return err_origin(-ENOENT);
	*slash = 0;
	return snprintf(out, size, "%s", real) < (int)size ? 0 : -ENAMETOOLONG;
}

int
shim_own_directory(char *out, size_t size)
{
	const char *slash;
	Dl_info info;

	/* In a program, dladdr() only gives what was typed to start it. */
	if (dladdr((void *)(uintptr_t)shim_own_directory, &info) &&
	    info.dli_fname) {
		slash = strrchr(info.dli_fname, '/');
		if (slash && strstr(slash, ".so"))
			return directory_of(info.dli_fname, out, size);
	}
	return directory_of("/proc/self/exe", out, size);
}

/* Build tree and installation: bin/ beside lib/, or we are in bin/. */
static int
find_mpsd(struct room *room)
{
	static const char *const places[] = {
		"mpsd", "../bin/mpsd", "../../bin/mpsd",
	};
	const char *set = getenv("MPSSHIM_MPSD");
	char *out = room->program;
	const int size = sizeof(room->program);
	int r;

	if (set && *set)
		return snprintf(out, (size_t)size, "%s", set) < size &&
		       !access(out, X_OK) ? 0 : -ENOENT;
	r = shim_own_directory(room->own, sizeof(room->own));
	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (snprintf(out, (size_t)size, "%s/%s", room->own,
			     places[i]) < size && !access(out, X_OK))
			return 0;
	return -ENOENT;
}

/* ---- the two processes --------------------------------------------------*/

struct launch {
	const char *program;
	char *const *argv;
	char *const *envp;
	int null_fd, ready_fd;          /* both above 9 */
	uint8_t *stack;                 /* of the second process */
	int error;                      /* errno of exec */
};

static void
close_from_4(void)
{
	struct rlimit limit = { .rlim_cur = 1024 };
	unsigned int end;

	if (!syscall(SYS_close_range, 4u, ~0u, 0u))
		return;
	syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
	end = limit.rlim_cur < 1u << 20 ? (unsigned int)limit.rlim_cur :
		1u << 20;
	for (unsigned int fd = 4; fd < end; fd++)
		syscall(SYS_close, fd);
}

static int
become_mpsd(void *arg)
{
	struct launch *launch = arg;

	syscall(SYS_setsid);
	syscall(SYS_chdir, "/");
	for (int fd = 0; fd < 3; fd++)
		syscall(SYS_dup3, launch->null_fd, fd, 0);
	syscall(SYS_dup3, launch->ready_fd, 3, 0);
	close_from_4();
	/* All signals stay blocked: mpsd sets its own mask. */
	syscall(SYS_execve, launch->program, launch->argv, launch->envp);
	launch->error = errno;
	syscall(SYS_exit_group, 127);
	return 127;
}

static int
intermediate(void *arg)
{
	struct launch *launch = arg;
	int pid;

	pid = clone(become_mpsd, launch->stack + STACK_SIZE,
		    CLONE_VM | CLONE_VFORK | SIGCHLD, launch);
	if (pid < 0)
		launch->error = errno;
	syscall(SYS_exit_group, 0);
	return 0;
}

static int
run(struct launch *launch)
{
	uint64_t all = ~UINT64_C(0), old;
	uint8_t *stacks;
	int pid, r = 0;

	stacks = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return err_origin(-errno);
	launch->stack = stacks + STACK_SIZE;
	/* The kernel's own mask, with the signals that libc keeps. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof(all));
	pid = clone(intermediate, stacks + STACK_SIZE, CLONE_VM | CLONE_VFORK,
		    launch);
	if (pid < 0)
		r = -errno;
	while (pid > 0 && syscall(SYS_wait4, pid, NULL, __WCLONE, NULL) < 0 &&
	       errno == EINTR)
		;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	munmap(stacks, 2 * STACK_SIZE);
	if (!r && launch->error)
		r = -launch->error;
	return r < 0 ? err_origin(r) : 0;
}

/* ---- what mpsd gets -----------------------------------------------------*/

/* A log file that is relative is each program's own; the broker's lies beside
 * its socket. */
static bool
is_relative_log(const char *entry)
{
	const char *file = strchr(entry, ':');

	return !strncmp(entry, "MPSSHIM_LOG=", 12) && file && file[1] != '/';
}

/* Everything but what would load code into it: the preload above all. */
static char **
environment(void)
{
	size_t n = 0, kept = 0;
	char **out;

	while (environ && environ[n])
		n++;
	out = calloc(n + 1, sizeof(*out));
	for (size_t i = 0; out && i < n; i++) {
		bool loader = !strncmp(environ[i], "LD_", 3);

		/* The driver may be found through this one. */
		if ((!loader || !strncmp(environ[i], "LD_LIBRARY_PATH=", 16)) &&
		    !is_relative_log(environ[i]))
			out[kept++] = environ[i];
	}
	return out;
}

/* Above 9, out of the way of what become_mpsd() sets up. */
static int
high(int *fd)
{
	int copy;

	if (*fd > 9)
		return 0;
	copy = fcntl(*fd, F_DUPFD_CLOEXEC, 10);
	if (copy < 0)
		return err_origin(-errno);
	close(*fd);
	*fd = copy;
	return 0;
}

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* mpsd's word: a newline when it listens, else a line that says why not. */
static int
await(int fd, char *why, size_t why_size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t last = now_ms() + READY_MS, left;
	size_t got = 0;

	for (;;) {
		ssize_t n;

		left = last - now_ms();
		n = poll(&p, 1, left > 0 ? (int)left : 0);
		if (!n) {
			say("mpsd was started but does not become ready");
			return -ETIMEDOUT;
		}
		if (n > 0)
			n = read(fd, why + got, why_size - 1 - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (!got && *why == '\n') {
			*why = 0;
			return 0;
		}
		got += (size_t)n;
	}
	why[got] = 0;
	if (!got)
		say("mpsd ended before it was ready");
	return -ECHILD;
}

/* mpsd starts in the root directory; a relative driver is meant from here. */
static bool
driver_argument(char *out, size_t size)
{
	const char *set = getenv("MPSSHIM_DRIVER");
	_cleanup_free_ char *real = set && *set != '/' && strchr(set, '/') ?
		realpath(set, NULL) : NULL;

	return real && snprintf(out, size, "--driver=%s", real) < (int)size;
}

static int
launch_mpsd(struct room *room, char *why, size_t why_size)
{
	_cleanup_close_ int null_fd = -1, ready = -1, ready_end = -1;
	const char *idle = getenv("MPSSHIM_IDLE_S");
	char *argv[] = { (char *)"mpsd", (char *)"--ready-fd=3", room->dir_arg,
			 room->idle_arg, NULL, NULL };
	_cleanup_free_ char **envp = environment();
	struct launch launch = { .program = room->program, .argv = argv };
	int fds[2], r;

	if (find_mpsd(room) < 0) {
		say("mpsd is not found beside this library (MPSSHIM_MPSD)");
		return -ENOENT;
	}
	snprintf(room->dir_arg, sizeof(room->dir_arg), "--socket-dir=%s",
		 room->dir);
	snprintf(room->idle_arg, sizeof(room->idle_arg), "--idle=%.32s",
		 idle && *idle ? idle : DEFAULT_IDLE_S);
	if (driver_argument(room->driver_arg, sizeof(room->driver_arg)))
		argv[4] = room->driver_arg;
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	r = null_fd < 0 || pipe2(fds, O_CLOEXEC) < 0 ? -errno : 0;
	if (!r) {
		ready = fds[0];
		ready_end = fds[1];
		r = high(&null_fd);
	}
	if (!r)
		r = high(&ready_end);
	if (!r && !envp)
		r = -ENOMEM;
	launch.envp = envp;
	launch.null_fd = null_fd;
	launch.ready_fd = ready_end;
	if (!r)
		r = run(&launch);
	if (r < 0) {
		say("cannot start %.160s: %s", room->program, strerror(-r));
		return r;
	}
	close(steal_fd(&ready_end));
	return await(ready, why, why_size);
}

/* ---- one at a time ------------------------------------------------------*/

static bool
listens(const char *path)
{
	int fd = sock_connect(path);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static void
nap_5ms(void)
{
	struct timespec t = { .tv_nsec = 5000000 };

	nanosleep(&t, NULL);
}

/* One starter at a time in a directory. The lock of a starter that dies
 * falls with it. */
static int
lock_start(struct room *room, char *why, size_t why_size)
{
	int64_t last = now_ms() + LOCK_MS;
	_cleanup_close_ int fd = -1;
	const char *path = room->lock;

	snprintf(room->lock, sizeof(room->lock), "%s/start.lock", room->dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		say("%.200s: %s", path, strerror(errno));
		return -errno;
	}
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || now_ms() > last) {
			say("%.200s: %s", path, strerror(errno));
			return -errno;
		}
		nap_5ms();
	}
	return steal_fd(&fd);
}

static int
start_in(struct room *room, char *why, size_t why_size)
{
	_cleanup_close_ int lock = -1;
	int r;

	r = sock_directory(room->dir);
	if (r < 0) {
		say("socket directory %.200s: %s", room->dir,
		    r == -EPERM ? "it is not yours, or others may write in it" : strerror(-r));
		return r;
	}
	lock = lock_start(room, why, why_size);
	if (lock < 0)
		return lock;
	r = listens(room->path) ? 0 : launch_mpsd(room, why, why_size);
	/* One that somebody started by hand in this moment will do. */
	if (r < 0 && listens(room->path))
		r = 0;
	/* A copy of the descriptor in a forked process must not keep it. */
	flock(lock, LOCK_UN);
	return r;
}

int
shim_broker_connect(char *why, size_t why_size)
{
	_cleanup_free_ struct room *room = malloc(sizeof(*room));
	int r;

	if (!room) {
		say("out of memory");
		return -ENOMEM;
	}
	r = sock_paths(room->dir, sizeof(room->dir), room->path,
		       sizeof(room->path));
	if (r == -EINVAL) {
		say("CUDA_MPS_PIPE_DIRECTORY is the relative path %.80s, which "
		    "is another directory wherever a program goes: set an "
		    "absolute one", getenv("CUDA_MPS_PIPE_DIRECTORY"));
		return r;
	}
	if (r < 0) {
		say("the socket's path is longer than the system's 107 bytes: "
		    "%.200s", room->dir);
		return r;
	}
	r = sock_connect(room->path);
	if (r >= 0)
		return r;
	if ((r != -ENOENT && r != -ECONNREFUSED) ||
	    shim_no_broker() != SHIM_NO_BROKER_START) {
		say("no broker at %.200s: %s", room->path, strerror(-r));
		return r;
	}
	r = start_in(room, why, why_size);
	if (r < 0)
		return r;
	r = sock_connect(room->path);
	if (r < 0)
		say("no broker at %.200s: %s", room->path, strerror(-r));
	return r;
}
