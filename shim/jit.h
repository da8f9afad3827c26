/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT options of a load call, sorted into what travels and what comes back.
 * Used by module and library loading.
 */
#ifndef SHIM_JIT_H
#define SHIM_JIT_H

#include <stdint.h>

#include "api_cuda.h"

/* Options that are plain values, as mpsModuleLoad takes them. */
struct jit_value {
	uint32_t option;       /* CUjit_option */
	uint32_t zero;
	uint64_t value;
};
#define JIT_VALUES_MAX 32
/* A reply slot holds both logs; longer ones are cut, as in a small buffer. */
#define JIT_LOG_MAX 4096u

struct jit_options {
	struct jit_value values[JIT_VALUES_MAX];
	uint32_t count;

	/* The caller's; what a log has been cut to is stored in *_size. */
	char *info, *error;
	void **info_size, **error_size;
	void **wall_time;      /* a float, in milliseconds */
	uint32_t info_cap, error_cap;   /* bytes */
	uint64_t begun_ns;
};

/*
 * CUDA_ERROR_INVALID_VALUE for what is no option, CUDA_ERROR_NOT_SUPPORTED
 * for options that refer to more memory of the caller.
 */
CUresult jit_parse(struct jit_options *jit, unsigned int count,
		   const CUjit_option *options, void **values);
/* Hand out logs (NUL-terminated) and the time that it took. */
void jit_finish(struct jit_options *jit, const char *info, const char *error);

#endif
