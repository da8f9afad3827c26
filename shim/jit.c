/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT options. Values that fit a void * travel to the driver library as they
 * are; log buffers and the wall time are the caller's memory and are filled
 * here from what comes back.
 */
#include "shim/jit.h"

#include <string.h>
#include <time.h>

#include "proto/log.h"

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static CUresult
add_value(struct jit_options *jit, CUjit_option option, void *value)
{
	if (jit->count == JIT_VALUES_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	jit->values[jit->count++] = (struct jit_value){
		.option = option, .value = (uintptr_t)value,
	};
	return CUDA_SUCCESS;
}

static CUresult
parse_one(struct jit_options *jit, CUjit_option option, void **value)
{
	switch (option) {
	case CU_JIT_INFO_LOG_BUFFER:
		jit->info = *value;
		return CUDA_SUCCESS;
	case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
		jit->info_size = value;
		jit->info_cap = (uint32_t)(uintptr_t)*value;
		return CUDA_SUCCESS;
	case CU_JIT_ERROR_LOG_BUFFER:
		jit->error = *value;
		return CUDA_SUCCESS;
	case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
		jit->error_size = value;
		jit->error_cap = (uint32_t)(uintptr_t)*value;
		return CUDA_SUCCESS;
	case CU_JIT_WALL_TIME:
		jit->wall_time = value;
		return CUDA_SUCCESS;
	case CU_JIT_GLOBAL_SYMBOL_NAMES:
	case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
	case CU_JIT_GLOBAL_SYMBOL_COUNT:
	case CU_JIT_REFERENCED_KERNEL_NAMES:
	case CU_JIT_REFERENCED_KERNEL_COUNT:
	case CU_JIT_REFERENCED_VARIABLE_NAMES:
	case CU_JIT_REFERENCED_VARIABLE_COUNT:
		log_line(LOG_INFO, "JIT option %d refers to the client's "
			 "memory and is refused", (int)option);
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		if ((int)option < 0 || option >= CU_JIT_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
		return add_value(jit, option, *value);
	}
}

CUresult
jit_parse(struct jit_options *jit, unsigned int count,
	  const CUjit_option *options, void **values)
{
	CUresult r = CUDA_SUCCESS;

	*jit = (struct jit_options){ .begun_ns = now_ns() };
	if (count > 0 && (options == NULL || values == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	if (count > CU_JIT_NUM_OPTIONS)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = parse_one(jit, options[i], &values[i]);
	/* A buffer without a size, or a size without a buffer, is no log. */
	if (jit->info == NULL)
		jit->info_cap = 0;
	if (jit->error == NULL)
		jit->error_cap = 0;
	return r;
}

static void
hand_out(char *to, uint32_t cap, void **size, const char *text)
{
	size_t n = 0;

	if (to != NULL && cap > 0) {
		n = strnlen(text, cap - 1);
		memcpy(to, text, n);
		to[n] = '\0';
	}
	if (size != NULL)
		*size = (void *)(uintptr_t)n;
}

void
jit_finish(struct jit_options *jit, const char *info, const char *error)
{
	float ms = (float)(now_ns() - jit->begun_ns) / 1e6f;

	hand_out(jit->info, jit->info_cap, jit->info_size, info);
	hand_out(jit->error, jit->error_cap, jit->error_size, error);
	if (jit->wall_time != NULL) {
		*jit->wall_time = NULL;
		memcpy(jit->wall_time, &ms, sizeof(ms));
	}
}
