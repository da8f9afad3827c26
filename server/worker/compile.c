/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image of PTX that a worker has ended over may have ended the driver's
 * compiler. The next worker has it compiled by another process: if that ends
 * as well, nobody else does.
 *
 * Only then: on an H200 the process takes a context of its own, 230 ms and 526
 * MiB for as long as it lives, which is what the ballast is for. Nearly all
 * code comes as machine code, or is compiled without a crash.
 *
 * Both sides have one file: the question, the image behind it, and the answer
 * in a place of its own. The answer is believed as far as its lengths fit.
 */
#include "server/worker/compile.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/shmem.h"
#include "server/fatbin.h"

#define FILE_FD 3
#define RISK_PAGE_FD 4
/* Loads of others wait meanwhile. The largest PTX seen takes a minute. */
#define PATIENCE_NS (UINT64_C(120) * 1000000000u)
#define NAP_NS 1000000
/* Should nobody be there any more to end it. */
#define CPU_SECONDS 600
/* Of the file: question, image and answer. */
#define FILE_BYTES (UINT64_C(1) << 30)

struct question {
	uint64_t image_size;
	uint32_t type; /* CUjitInputType */
	uint32_t noptions;
	uint32_t names[WKR_JIT_MAX];
	uint64_t values[WKR_JIT_MAX];
};

struct answer {
	uint32_t tried; /* else it could not begin */
	uint32_t result;
	uint64_t code_size;
	char info[WKR_COMPILE_LOG], error[WKR_COMPILE_LOG];
};

static uint64_t
answer_at(uint64_t image_size)
{
	return (sizeof(struct question) + image_size + 4095) &
	       ~UINT64_C(4095);
}

/* ---- what is asked */

static bool
is_elf(const uint8_t *data, size_t size)
{
	return size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0;
}

/* Machine code runs on what has the same major number. */
static bool
has_machine_code(const uint8_t *data, size_t size)
{
	struct fatbin_entry e;
	size_t at = 0;

	while (fatbin_next(data, size, &at, &e))
		if (e.kind == FATBIN_ELF && e.sm / 10 == wkr.sm / 10 &&
		    e.sm <= wkr.sm)
			return true;
	return false;
}

bool
wkr_compile_is_for(const struct wkr_image *image, bool wrapper)
{
	size_t size = fatbin_size(image->data, image->size);

	if (wrapper || is_elf(image->data, image->size))
		return false;
	return !size || !has_machine_code(image->data, size);
}

static int
write_all(int fd, const void *data, size_t size, uint64_t at)
{
	while (size) {
		ssize_t n = pwrite(fd, data, size, (off_t)at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data = (const uint8_t *)data + n;
		size -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

static int
ask(const struct wkr_image *image, const struct wkr_jit *jit)
{
	struct question q = {
		.image_size = image->size,
		.type = fatbin_size(image->data, image->size) ?
				CU_JIT_INPUT_FATBINARY :
				CU_JIT_INPUT_PTX,
		.noptions = jit->count,
	};
	_cleanup_close_ int fd = shmem_file("mpsshim-compile");
	int r;

	if (fd < 0)
		return fd;
	for (unsigned i = 0; i < jit->count; i++) {
		q.names[i] = jit->names[i];
		q.values[i] = (uint64_t)(uintptr_t)jit->values[i];
	}
	/* With the zeroes that end a text. */
	r = ftruncate(fd, (off_t)answer_at(image->size + 1)) < 0 ? -errno : 0;
	if (r == 0)
		r = write_all(fd, &q, sizeof(q), 0);
	if (r == 0)
		r = write_all(fd, image->data, image->size, sizeof(q));
	return r < 0 ? r : steal_fd(&fd);
}

/* ---- the other process, from here */

static int
start(int fd, pid_t *out_pid)
{
	char program[] = "/proc/self/exe", device[16];
	char *argv[] = {
		(char *)"mpsd-worker", (char *)"--compile",
		(char *)"--driver",    (char *)wkr.driver_path,
		(char *)"--device",    device,
		NULL,
	};
	posix_spawn_file_actions_t actions;
	int r;

	snprintf(device, sizeof(device), "%d", wkr.ordinal);
	posix_spawn_file_actions_init(&actions);
	/* In the place of our socket; and nothing more of ours. */
	posix_spawn_file_actions_adddup2(&actions, fd, FILE_FD);
	posix_spawn_file_actions_addclose(&actions, RISK_PAGE_FD);
	r = posix_spawn(out_pid, program, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* Its wait status, or that of one that had to be killed. */
static int
await(pid_t pid)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	uint64_t end = wkr_now_ns() + PATIENCE_NS;
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (wkr_now_ns() > end)
			kill(pid, SIGKILL);
		nanosleep(&nap, NULL);
	}
	return status;
}

/* The answer, once the process has ended: it changes no more. */
static int
read_answer(int fd, uint64_t at, struct wkr_compiled *out,
	    CUresult *out_result)
{
	struct answer *a;
	struct stat st;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size > FILE_BYTES ||
	    (uint64_t)st.st_size < at + sizeof(*a))
		return WKR_COMPILE_E_CRASHED;
	out->mapped = (size_t)st.st_size - at;
	out->map = mmap(NULL, out->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			fd, (off_t)at);
	if (out->map == MAP_FAILED) {
		out->map = NULL;
		return WKR_COMPILE_E_NOT_TRIED;
	}
	a = out->map;
	if (!a->tried)
		return WKR_COMPILE_E_NOT_TRIED;
	if (a->code_size >= out->mapped - sizeof(*a))
		return WKR_COMPILE_E_CRASHED;
	out->code = a + 1;
	((uint8_t *)(a + 1))[a->code_size] = 0;
	a->info[WKR_COMPILE_LOG - 1] = a->error[WKR_COMPILE_LOG - 1] = 0;
	out->info = a->info;
	out->error = a->error;
	*out_result = (CUresult)a->result;
	return 0;
}

int
wkr_compile(const struct wkr_image *image, const struct wkr_jit *jit,
	    struct wkr_compiled *out, CUresult *out_result)
{
	_cleanup_close_ int fd = ask(image, jit);
	uint64_t begin = wkr_now_ns();
	int status;
	pid_t pid;

	*out = (struct wkr_compiled){0};
	if (fd < 0 || start(fd, &pid) < 0)
		return WKR_COMPILE_E_NOT_TRIED;
	status = await(pid);
	log_line(LOG_WARN, "code that a worker has ended over was compiled by "
		 "process %d in %llu ms: %s %d", (int)pid,
		 (unsigned long long)((wkr_now_ns() - begin) / 1000000u),
		 WIFSIGNALED(status) ? "signal" : "exit status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	if (status)
		return WKR_COMPILE_E_CRASHED;
	return read_answer(fd, answer_at(image->size + 1), out, out_result);
}

void
wkr_compiled_drop(struct wkr_compiled *compiled)
{
	if (compiled->map)
		munmap(compiled->map, compiled->mapped);
	compiled->map = NULL;
}

/* ---- the other process, from inside. It trusts who has started it. */

static CUresult
compile(const struct question *q, struct answer *a, CUlinkState *state,
	void **out_code, size_t *out_size)
{
	const uint8_t *image = (const uint8_t *)(q + 1);
	struct wkr_jit jit = {.count = q->noptions};
	CUresult r;

	for (unsigned i = 0; i < q->noptions; i++) {
		jit.names[i] = (CUjit_option)q->names[i];
		jit.values[i] = (void *)(uintptr_t)q->values[i];
	}
	wkr_jit_add_log(&jit, CU_JIT_INFO_LOG_BUFFER,
			CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, a->info,
			sizeof(a->info));
	wkr_jit_add_log(&jit, CU_JIT_ERROR_LOG_BUFFER,
			CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, a->error,
			sizeof(a->error));
	r = wkr.drv.cuLinkCreate_v2(jit.count, jit.names, jit.values, state);
	if (r == CUDA_SUCCESS)
		r = wkr.drv.cuLinkAddData_v2(*state, (CUjitInputType)q->type,
					     (void *)image, q->image_size + 1,
					     "image", 0, NULL, NULL);
	if (r == CUDA_SUCCESS)
		r = wkr.drv.cuLinkComplete(*state, out_code, out_size);
	return r;
}

static int
reply(uint64_t at, struct answer *a, const void *code)
{
	/* One more for the NUL behind it. */
	uint64_t size = at + sizeof(*a) + a->code_size + 1;

	if (ftruncate(FILE_FD, (off_t)size) < 0 ||
	    write_all(FILE_FD, a, sizeof(*a), at) < 0 ||
	    write_all(FILE_FD, code, a->code_size, at + sizeof(*a)) < 0)
		return EXIT_FAILURE;
	return EXIT_SUCCESS;
}

int
wkr_compile_main(void)
{
	const struct rlimit file = {FILE_BYTES, FILE_BYTES};
	const struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS};
	_cleanup_free_ struct answer *a = calloc(1, sizeof(*a));
	const struct question *q;
	char message[512] = "";
	CUlinkState state;
	void *code = NULL;
	size_t size = 0;
	struct stat st;

	/* Of the thread that waits for it, which is there until the end. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &file);
	setrlimit(RLIMIT_CPU, &cpu);
	if (!a || fstat(FILE_FD, &st) < 0)
		return EXIT_FAILURE;
	q = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, FILE_FD, 0);
	if (q == MAP_FAILED)
		return EXIT_FAILURE;
	if (wkr_start_driver(message, sizeof(message)) == CUDA_SUCCESS) {
		a->tried = 1;
		a->result = compile(q, a, &state, &code, &size);
		a->code_size = size;
	} else {
		log_line(LOG_WARN, "no process to compile in: %s", message);
	}
	return reply(answer_at(q->image_size + 1), a, code);
}
