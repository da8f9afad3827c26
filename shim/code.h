/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code as the broker knows it: by hash, with the options to load it by.
 * Used by modules and libraries; it is what a journal needs to rebuild them.
 */
#ifndef SHIM_CODE_H
#define SHIM_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "api_cuda.h"
#include "proto/sha256.h"
#include "shim/image.h"
#include "shim/jit.h"

struct shim_code {
	uint8_t hash[SHA256_SIZE];
	uint64_t size;
	enum module_kind kind;
	struct jit_value options[JIT_VALUES_MAX];
	uint32_t noptions;
	/* The caller's own bytes, when it promises to keep them. */
	const void *preserved;
};

/* Give the broker the image unless it has it; afterwards the worker of
 * `device` can load it by its hash. */
CUresult shim_code_upload(const struct image *image, int device,
			  struct shim_code *out_code);
/* Once more, for a worker that may not have it. */
CUresult shim_code_ensure(const struct shim_code *code, int device);

/* image_find, image_find_sized and reading a file, with CUDA's codes. */
CUresult shim_code_find(struct image *image, const void *from);
CUresult shim_code_read_file(struct image *image, const char *path);
/* All of a file, whatever it is. */
CUresult shim_code_read_bytes(struct image *image, const char *path);

#endif
