/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs rows on the driver library.
 *
 * A fault poisons the process that used the driver, so rows run in children
 * that write to shared memory. A child takes the rows in order and marks
 * each one before it starts it; when the child ends early, that row is to
 * blame and a new child goes on behind it.
 */
#include "tests/ptx/forms.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/drv.h"

enum {
	VECTOR_SIZE = FORM_OPERANDS * FORM_THREADS * 8,
	SCRATCH_SIZE = FORM_THREADS * FORM_SCRATCH,
	STEP_SECONDS = 20,   /* a load or a row that takes longer hangs */
};

struct runner {
	CUdeviceptr in, out, scratch;
	uint8_t pattern[SCRATCH_SIZE];
	uint64_t words[FORM_OPERANDS * FORM_THREADS];
};

static void
reason_set(struct form_result *result, enum form_state state,
	   const char *format, int rc, const char *text)
{
	const char *newline = strchr(text, '\n');
	int length = newline ? (int)(newline - text) : (int)strlen(text);

	snprintf(result->reason, sizeof(result->reason), format, rc, length,
		 text);
	result->state = state;
}

static void
runner_init(struct runner *r)
{
	int i;

	drv_start();
	OK(drv.cuMemAlloc(&r->in, VECTOR_SIZE));
	OK(drv.cuMemAlloc(&r->out, VECTOR_SIZE));
	OK(drv.cuMemAlloc(&r->scratch, SCRATCH_SIZE));
	for (i = 0; i < SCRATCH_SIZE; i++)
		r->pattern[i] = (uint8_t)(i * 29 + i / 32 * 37 + 129);
}

static CUmodule
module_load(const struct form *form, size_t count, char *log, size_t log_size,
	    CUresult *out_rc)
{
	CUjit_option option[] = { CU_JIT_ERROR_LOG_BUFFER,
				  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *value[] = { log, (void *)(uintptr_t)log_size };
	CUmodule module = NULL;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	alarm(STEP_SECONDS);
	log[0] = 0;
	form_module_print(f, form, count);
	fclose(f);
	*out_rc = drv.cuModuleLoadDataEx(&module, text, 2, option, value);
	free(text);
	return *out_rc ? NULL : module;
}

static CUresult
kernel_run(struct runner *r, const struct form *form, CUfunction f)
{
	void *args[] = { &r->out, &r->in, &r->scratch, r->pattern };
	unsigned k;
	CUresult rc;

	memset(r->words, 0, sizeof(r->words));
	for (k = 0; k < form->nin; k++)
		memcpy(&r->words[k * FORM_THREADS], form->set[k]->word,
		       sizeof(form->set[k]->word));
	rc = drv.cuMemcpyHtoD(r->in, r->words, VECTOR_SIZE);
	if (!rc)
		rc = drv.cuMemcpyHtoD(r->scratch, r->pattern, SCRATCH_SIZE);
	if (!rc)
		rc = drv.cuMemsetD8(r->out, 0, VECTOR_SIZE);
	if (!rc)
		rc = drv.cuLaunchKernel(f, 1, 1, 1, FORM_THREADS, 1, 1, 0,
					NULL, args, NULL);
	if (!rc)
		rc = drv.cuMemcpyDtoH(r->words, r->out, VECTOR_SIZE);
	return rc;
}

static void
form_run_loaded(struct runner *r, const struct form *form, CUmodule module,
		size_t index, struct form_result *result)
{
	char name[32];
	CUfunction f;
	CUresult rc;

	alarm(STEP_SECONDS);
	/* Stands if the process does not come back. */
	reason_set(result, FORM_BROKE, "the process ended or hung%.0d%.*s", 0,
		   "");
	snprintf(name, sizeof(name), "form_%zu", index);
	rc = drv.cuModuleGetFunction(&f, module, name);
	if (!rc)
		rc = kernel_run(r, form, f);
	if (rc) {
		reason_set(result, FORM_BROKE, "error %d%.*s", rc, "");
		_exit(TEST_PASS);
	}
	memcpy(result->out, r->words, sizeof(result->out));
	result->state = FORM_RAN;
}

static void
form_run_alone(struct runner *r, const struct form *form,
	       struct form_result *result)
{
	char log[4096];
	CUresult rc;
	CUmodule module;

	reason_set(result, FORM_BROKE, "the load ended the process%.0d%.*s",
		   0, "");
	module = module_load(form, 1, log, sizeof(log), &rc);
	if (!module)
		reason_set(result, FORM_REJECTED, "%d: %.*s", rc, log);
	else
		form_run_loaded(r, form, module, 0, result);
	if (module)
		drv.cuModuleUnload(module);
}

static void
batch_run(struct runner *r, const struct form *form,
	  struct form_result *result, size_t count)
{
	char log[4096];
	CUresult rc;
	CUmodule module = module_load(form, count, log, sizeof(log), &rc);
	size_t i;

	for (i = 0; i < count; i++) {
		if (module)
			form_run_loaded(r, &form[i], module, i, &result[i]);
		else
			form_run_alone(r, &form[i], &result[i]);
	}
	if (module)
		drv.cuModuleUnload(module);
}

static void
child_run(const struct form *form, struct form_result *result, size_t count)
{
	static struct runner r;
	size_t i;

	alarm(STEP_SECONDS);
	runner_init(&r);
	for (i = 0; i < count; i += FORM_BATCH) {
		size_t n = count - i < FORM_BATCH ? count - i : FORM_BATCH;

		batch_run(&r, &form[i], &result[i], n);
	}
	_exit(TEST_PASS);
}

static size_t
first_not_run(const struct form_result *result, size_t count)
{
	size_t i = 0;

	while (i < count && result[i].state != FORM_NOT_RUN)
		i++;
	return i;
}

void
form_run(const struct form *form, struct form_result *result, size_t count)
{
	size_t size = count * sizeof(*result), at = 0;
	struct form_result *shared = mmap(NULL, size, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		test_fail("no memory for %zu results", count);
	while (at < count) {
		int status = 0;
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (pid == 0)
			child_run(form + at, shared + at, count - at);
		if (pid < 0 || waitpid(pid, &status, 0) < 0)
			test_fail("cannot start a child process");
		/* The driver did not start: no other child would do better. */
		if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP)
			break;
		/* A batch that kills its process while it loads leaves no
		 * mark: its first row takes the blame. */
		if (first_not_run(shared + at, count - at) == 0)
			reason_set(&shared[at], FORM_BROKE,
				   "no row ran, child status 0x%x%.*s",
				   status, "");
		if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_FAIL)
			break;
		at += first_not_run(shared + at, count - at);
	}
	memcpy(result, shared, size);
	munmap(shared, size);
}
