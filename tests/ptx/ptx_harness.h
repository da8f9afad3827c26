/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small device around the PTX executor: memory, printed text, threads.
 * Used by tests/ptx only.
 */
#ifndef TESTS_PTX_HARNESS_H
#define TESTS_PTX_HARNESS_H

#include "server/soft/ptx.h"

#include <pthread.h>

#include <stdatomic.h>

/* Bytes of device memory; also what lies behind it is not mapped. */
#define HARNESS_MEMORY (8u << 20)

struct harness {
	struct ptx_module *module;
	struct ptx_env env;
	_Atomic uint64_t generation;
	uint8_t *memory;
	size_t used;
	char complaint[256];      /* of the last assertion that failed */
	char text[65536];         /* what the kernels printed */
	size_t text_size;
	pthread_mutex_t lock;
	char log[1024];
	int parse_result;
	enum ptx_fault fault;
	char detail[512];
	/* of the next launch */
	unsigned grid[3], block[3], cluster[3], threads;
	size_t dyn_shared;
	bool cooperative;
};

/* Parses, places, links. Only parse_result and log are set on failure. */
void harness_open(struct harness *h, const char *ptx);
void harness_close(struct harness *h);
/* Device memory, zeroed, aligned to 256 bytes. */
void *harness_alloc(struct harness *h, size_t size);
/* Runs the named kernel to its end; args are copied as the block. */
enum ptx_fault harness_run(struct harness *h, const char *kernel,
			   const void *args, size_t size);
const struct ptx_symbol *harness_symbol(struct harness *h, const char *name);

#endif
