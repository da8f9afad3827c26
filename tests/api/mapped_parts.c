/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of pages, registered for kernels: several in one page, and what else
 * lies there, which other threads and a child go on using.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/api/facts.h"

#define PAGE_WORDS 1024u
/* Words that a launch adds 1 to. */
#define PART 256u

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry inc(.param .u64 to)\n"
	"{ .reg .u64 p, o; .reg .u32 t, v;"
	" ld.param.u64 p,[to]; mov.u32 t,%tid.x; mul.wide.u32 o,t,4;"
	" add.u64 p,p,o; ld.global.u32 v,[p]; add.u32 v,v,1;"
	" st.global.u32 [p],v; ret; }\n";
static CUfunction inc;

/* Parts of one page, the first two next to each other. */
static const unsigned int parts[] = { 16, 16 + PART, 600 };
#define PARTS 3u

static void
add_one(CUdeviceptr p)
{
	void *args[] = { &p };

	OK(cuLaunchKernel(inc, 1, 1, 1, PART, 1, 1, 0, NULL, args, NULL));
	OK(cuCtxSynchronize());
}

static uint32_t *
pages(unsigned int count)
{
	uint32_t *words = mmap(NULL, count * 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (words == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	for (unsigned int i = 0; i < count * PAGE_WORDS; i++)
		words[i] = i;
	return words;
}

static CUdeviceptr
get(uint32_t *words, size_t size)
{
	CUdeviceptr p;

	OK(cuMemHostRegister(words, size, CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&p, words, 0));
	return p;
}

static bool
is(const uint32_t *words, unsigned int from, unsigned int count, uint32_t more)
{
	for (unsigned int i = from; i < from + count; i++)
		if (words[i] != i + more)
			return false;
	return true;
}

/* What lies beside the parts is as it was. */
static bool
rest_is(const uint32_t *words, uint32_t more)
{
	return is(words, 0, parts[0], more) &&
	       is(words, parts[1] + PART, parts[2] - parts[1] - PART, more) &&
	       is(words, parts[2] + PART, PAGE_WORDS - parts[2] - PART, more);
}

/* Registered in their order, unregistered in another. */
static void
in_one_page(const unsigned int order[PARTS])
{
	uint32_t *words = pages(1), more[PARTS] = {0};
	CUdeviceptr p[PARTS];
	bool right = true;

	for (unsigned int i = 0; i < PARTS; i++) {
		p[i] = get(words + parts[i], PART * 4);
		add_one(p[i]);
		more[i]++;
	}
	for (unsigned int n = 0; n < PARTS; n++) {
		for (unsigned int i = n; i < PARTS; i++) {
			add_one(p[order[i]]);
			more[order[i]]++;
		}
		OK(cuMemHostUnregister(words + parts[order[n]]));
		for (unsigned int i = 0; i < PARTS; i++)
			right = right && is(words, parts[i], PART, more[i]);
	}
	printf("     unregistered: %u, %u, %u\n", order[0], order[1],
	       order[2]);
	fact("parts of a page are kept apart", right);
	fact("what lies beside them stays", rest_is(words, 0));
	munmap(words, 4096);
}

static void
overlapping(void)
{
	uint32_t *words = pages(1);
	CUdeviceptr p = get(words + 16, PART * 4);

	answers("parts that overlap",
		cuMemHostRegister(words + 17, 8, CU_MEMHOSTREGISTER_DEVICEMAP),
		CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	add_one(p);
	OK(cuMemHostUnregister(words + 16));
	p = get(words + 17, PART * 4);
	add_one(p);
	OK(cuMemHostUnregister(words + 17));
	fact("each is there", words[16] == 17 && is(words, 17, PART - 1, 2) &&
			      words[16 + PART] == 17 + PART);
	munmap(words, 4096);
}

/* The child has the page as it was, the parent goes on in its own. */
static void
forked(void)
{
	uint32_t *words = pages(1);
	CUdeviceptr p = get(words + parts[0], PART * 4);
	int go[2], status = 1;
	pid_t child;
	char c;

	if (pipe(go) < 0)
		exit(1);
	child = fork();
	if (!child) {
		bool right = read(go[0], &c, 1) == 1 &&
			     is(words, 0, PAGE_WORDS, 0);

		memset(words, 0, 4096);
		_exit(!right);
	}
	words[0] = words[PAGE_WORDS - 1] = 7;
	if (write(go[1], "", 1) != 1)
		exit(1);
	waitpid(child, &status, 0);
	fact("a child has the rest of the page as it was", status == 0);
	add_one(p);
	fact("and the parent keeps its own",
	     words[0] == 7 && words[PAGE_WORDS - 1] == 7 &&
	     is(words, parts[0], PART, 1) && is(words, 400, 600, 0));
	OK(cuMemHostUnregister(words + parts[0]));
	munmap(words, 4096);
	close(go[0]);
	close(go[1]);
}

/* Runs in the child before whatever the library has it do. */
static void
dawdle(void)
{
	struct timespec nap = { .tv_nsec = 100000000 };

	nanosleep(&nap, NULL);
}

static void
on_alarm(int sig)
{
	(void)sig;
}

/* The same in a program whose timer interrupts every system call, and with a
 * child that takes its time. */
static void
forked_in_alarms(void)
{
	const struct itimerval often = { { 0, 5000 }, { 0, 5000 } };
	const struct itimerval never = {0};
	struct sigaction action = {
		.sa_handler = on_alarm, .sa_flags = SA_RESTART,
	};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	forked();
	setitimer(ITIMER_REAL, &never, NULL);
}

/* ---- while another thread writes beside them ---- */

static struct {
	volatile uint32_t *words;
	_Atomic bool end;
	_Atomic uint32_t rounds;         /* each adds 1 beside the parts */
} writer;

static void *
count(void *arg)
{
	(void)arg;
	while (!writer.end) {
		for (unsigned int i = 0; i < parts[0]; i++)
			writer.words[i]++;
		for (unsigned int i = parts[2] + PART; i < PAGE_WORDS; i++)
			writer.words[i]++;
		writer.rounds++;
	}
	return NULL;
}

/* Whether threads in system calls can be held up depends on the system. */
static bool
can_hold(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP |
			    UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	bool can = fd >= 0 && !ioctl(fd, UFFDIO_API, &api);

	if (fd >= 0)
		close(fd);
	return can;
}

static void
beside_a_thread(void)
{
	uint32_t *words = pages(1);
	uint32_t more = 0;
	pthread_t thread;
	CUdeviceptr p;

	if (!can_hold()) {
		printf("     this system lets us hold up no other threads\n");
		return;
	}
	writer.words = words;
	if (pthread_create(&thread, NULL, count, NULL))
		exit(1);
	while (!writer.rounds)
		usleep(100);
	for (int i = 0; i < 20; i++) {
		p = get(words + parts[0], PART * 4);
		add_one(get(words + parts[2], PART * 4));
		add_one(p);
		more++;
		OK(cuMemHostUnregister(words + parts[i % 2 ? 0 : 2]));
		OK(cuMemHostUnregister(words + parts[i % 2 ? 2 : 0]));
	}
	writer.end = true;
	pthread_join(thread, NULL);
	fact("beside another thread", is(words, parts[0], PART, more) &&
				      is(words, parts[2], PART, more));
	fact("which loses nothing",
	     is(words, 0, parts[0], writer.rounds) &&
	     is(words, parts[2] + PART, PAGE_WORDS - parts[2] - PART,
		writer.rounds));
	munmap(words, 4096);
}

int
main(void)
{
	static const unsigned int orders[][PARTS] = {
		{ 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 1, 2, 0 },
	};
	CUmodule module;
	CUcontext ctx;

	pthread_atfork(NULL, NULL, dawdle);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&inc, module, "inc"));
	for (unsigned int i = 0; i < sizeof(orders) / sizeof(*orders); i++)
		in_one_page(orders[i]);
	overlapping();
	forked();
	forked_in_alarms();
	beside_a_thread();
	return facts_end();
}
