/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small CUDA program that also does what programs do around CUDA: forks,
 * closes descriptors, counts its children. check_guest.sh runs it.
 *
 *     guest_cuda MODE
 *
 * Exit status: 0 right; 3 CUDA refused with an error, which is printed;
 * 1 wrong. Prints what it saw on stdout.
 */
#include <cuda.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	RIGHT = 0,
	WRONG = 1,
	REFUSED = 3,
	WORDS = 100000,
	HIGH = 1024,    /* descriptors up to here are closed and reused */
};

static int
refused(const char *what, CUresult result)
{
	printf("%s: %d\n", what, (int)result);
	return REFUSED;
}
#define TRY(call) \
	do { \
		CUresult tried = (call); \
		if (tried != CUDA_SUCCESS) \
			return refused(#call, tried); \
	} while (0)

/* Fill device memory and read it back. */
static int
use_memory(unsigned int pattern)
{
	static unsigned int host[WORDS];
	CUdeviceptr memory;

	TRY(cuMemAlloc(&memory, sizeof(host)));
	TRY(cuMemsetD32(memory, pattern, WORDS));
	TRY(cuMemcpyDtoH(host, memory, sizeof(host)));
	TRY(cuMemFree(memory));
	for (int i = 0; i < WORDS; i++) {
		if (host[i] != pattern) {
			printf("word %d is %#x, not %#x\n", i, host[i],
			       pattern);
			return WRONG;
		}
	}
	return RIGHT;
}

static int
use_cuda(void)
{
	CUcontext ctx;
	CUdevice device;

	TRY(cuInit(0));
	TRY(cuDeviceGet(&device, 0));
	TRY(cuDevicePrimaryCtxRetain(&ctx, device));
	TRY(cuCtxSetCurrent(ctx));
	return use_memory(0x5a5a1234);
}

static int
mode_run(void)
{
	int r = use_cuda();

	if (r == RIGHT)
		printf("memory right\n");
	return r;
}

static void *
run_in_thread(void *out)
{
	*(int *)out = use_cuda();
	return NULL;
}

/* The first call of all comes from a thread with the least stack there is. */
static int
mode_small_stack(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r = WRONG;

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN) ||
	    pthread_create(&thread, &attr, run_in_thread, &r) ||
	    pthread_join(thread, NULL))
		return WRONG;
	pthread_attr_destroy(&attr);
	return r;
}

/* Until it is killed. */
static int
mode_stay(void)
{
	int r = use_cuda();

	while (r == RIGHT)
		pause();
	return r;
}

/* Runs `child` in a fork; its exit status, 128 + signal, or -1. */
static int
in_child(int (*child)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		/* A hang must not outlive the test. */
		alarm(20);
		status = child();
		fflush(stdout);
		_exit(status);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) :
	       128 + WTERMSIG(status);
}

/* Parent and child both begin with CUDA after the fork. */
static int
mode_fork_before(void)
{
	int child = in_child(use_cuda), parent = use_cuda();
	int again = in_child(use_cuda);

	printf("child %d, parent %d, child of a user %d\n", child, parent,
	       again);
	return child == RIGHT && parent == RIGHT && again == REFUSED ? RIGHT :
	       WRONG;
}

/* Every call must give CUDA_ERROR_NOT_INITIALIZED, cuInit too. */
static int
child_of_user(void)
{
	CUdeviceptr memory;
	CUcontext ctx;
	CUdevice device;
	int count;
	CUresult results[] = {
		cuMemAlloc(&memory, 4096), cuCtxGetCurrent(&ctx),
		cuCtxSynchronize(), cuDeviceGetCount(&count),
		cuDeviceGet(&device, 0), cuInit(0),
		cuMemAlloc(&memory, 4096),
	};

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i] != CUDA_ERROR_NOT_INITIALIZED) {
			printf("call %zu in the child: %d\n", i,
			       (int)results[i]);
			return WRONG;
		}
	}
	return RIGHT;
}

static int
mode_fork_after(void)
{
	int r = use_cuda(), child;

	if (r != RIGHT)
		return r;
	child = in_child(child_of_user);
	r = use_memory(0x77770000);
	printf("child %d, parent afterwards %d\n", child, r);
	return child == RIGHT && r == RIGHT ? RIGHT : WRONG;
}

/* A process that used CUDA becomes another program, and runs others. */
static int
mode_exec(void)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int r = use_cuda(), status = system("exit 7");

	if (r != RIGHT || n < 0)
		return r ? r : WRONG;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		return WRONG;
	self[n] = '\0';
	fflush(stdout);
	execl(self, self, "run", (char *)NULL);
	return WRONG;
}

/*
 * A daemon closes all descriptors and opens its own files, ours are gone:
 * calls give errors or still succeed, and its files stay empty.
 */
static int
mode_close_all(void)
{
	char name[] = "/tmp/guest_cuda.XXXXXX";
	int r = use_cuda(), file, failed = 0;
	struct stat st;
	CUdeviceptr memory;

	if (r != RIGHT)
		return r;
	for (int fd = 3; fd < HIGH; fd++)
		close(fd);
	file = mkostemp(name, O_CLOEXEC);
	if (file < 0 || unlink(name) < 0)
		return WRONG;
	for (int fd = file + 1; fd < HIGH; fd++)
		dup2(file, fd);
	/* 256 MiB cannot come out of what the process already has. */
	for (int i = 0; i < 8; i++) {
		CUresult result = cuMemAlloc(&memory, 256u << 20);

		failed += result != CUDA_SUCCESS;
		if (i == 0)
			printf("a new piece of memory: %d, ", (int)result);
	}
	r = use_memory(0x01010101);
	if (fstat(file, &st) < 0)
		return WRONG;
	printf("memory that it had: %s; %lld bytes in its own file\n",
	       r == RIGHT ? "right" : "error", (long long)st.st_size);
	return failed == 8 && r != WRONG && st.st_size == 0 ? RIGHT : WRONG;
}

static volatile sig_atomic_t alarms;

static void
count_alarm(int number)
{
	(void)number;
	alarms++;
}

/* A timer interrupts whatever waits, ten thousand times a second. */
static int
mode_alarms(void)
{
	const struct itimerval often = { { 0, 100 }, { 0, 100 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = count_alarm };
	int r;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	r = use_cuda();
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%s alarms\n", alarms > 1000 ? "many" : "few");
	return r;
}

static volatile sig_atomic_t deaths;

static void
count_death(int number)
{
	(void)number;
	deaths++;
}

/* A broker started from inside is no child of ours. */
static int
mode_no_child(void)
{
	int r, waited;

	signal(SIGCHLD, count_death);
	r = use_cuda();
	waited = waitpid(-1, NULL, WNOHANG);
	if (r != RIGHT)
		return r;
	printf("%d SIGCHLD, wait: %s\n", (int)deaths,
	       waited < 0 && errno == ECHILD ? "no child" : "a child");
	return deaths == 0 && waited < 0 && errno == ECHILD ? RIGHT : WRONG;
}

static int
entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* How many descriptors and threads using CUDA costs; none below 100. */
static int
mode_count(void)
{
	int before = entries("/proc/self/fd"), low = dup(0), r = use_cuda();
	int after = entries("/proc/self/fd") - (low >= 0), next = dup(0);

	printf("descriptors: %d more, threads: %d\n", after - before,
	       entries("/proc/self/task") - 2);
	if (r != RIGHT)
		return r;
	return next == low + 1 ? RIGHT : WRONG;
}

static int
mode_twice(void)
{
	/* stdout may be closed: what is printed must not reach our socket. */
	int r = mode_run();

	fflush(stdout);
	return r ? r : use_memory(0x22220000);
}

static const struct {
	const char *name;
	int (*run)(void);
} modes[] = {
	{"alarms", mode_alarms},
	{"close-all", mode_close_all},
	{"count", mode_count},
	{"exec", mode_exec},
	{"fork-after", mode_fork_after},
	{"fork-before", mode_fork_before},
	{"no-child", mode_no_child},
	{"run", mode_run},
	{"small-stack", mode_small_stack},
	{"stay", mode_stay},
	{"twice", mode_twice},
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (argc == 2 && strcmp(argv[1], modes[i].name) == 0)
			return modes[i].run();
	}
	fprintf(stderr, "usage: guest_cuda MODE\n");
	return 2;
}
