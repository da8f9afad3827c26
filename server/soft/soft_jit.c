/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT options. Of the inputs none changes what the executor does: they are
 * wishes to an optimiser. The outputs, logs and time, are served.
 */
#include <stdio.h>
#include <string.h>

#include "server/soft/soft_module.h"

CUresult
soft_jit_open(struct soft_jit *jit, unsigned count,
	      const CUjit_option *options, void **values)
{
	memset(jit, 0, sizeof(*jit));
	jit->started_ns = soft_now_ns();
	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		if ((int)options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
		switch (options[i]) {
		case CU_JIT_WALL_TIME:
			jit->wall_slot = &values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER:
			jit->info = values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			jit->info_size = (unsigned)(uintptr_t)values[i];
			jit->info_size_slot = &values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER:
			jit->error = values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			jit->error_size = (unsigned)(uintptr_t)values[i];
			jit->error_size_slot = &values[i];
			break;
		default:
			break;
		}
	}
	return CUDA_SUCCESS;
}

static void
report(char *buffer, size_t size, void **size_slot, const char *text)
{
	size_t length = strlen(text);

	if (!buffer || !size) {
		if (size_slot)
			*size_slot = NULL;
		return;
	}
	if (length >= size)
		length = size - 1;
	memcpy(buffer, text, length);
	buffer[length] = '\0';
	if (size_slot)
		*size_slot = (void *)(uintptr_t)length;
}

void
soft_jit_close(struct soft_jit *jit)
{
	report(jit->error, jit->error_size, jit->error_size_slot, jit->log);
	report(jit->info, jit->info_size, jit->info_size_slot, "");
	if (jit->wall_slot) {
		/* The value's slot itself receives a float, milliseconds. */
		float ms = (float)((double)(soft_now_ns() - jit->started_ns) /
				   1e6);

		memcpy(jit->wall_slot, &ms, sizeof(ms));
	}
}
