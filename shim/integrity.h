/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The integrity answer that a CUDA runtime asks its driver for.
 * Used by the export tables (tables.c) and by tests.
 */
#ifndef SHIM_INTEGRITY_H
#define SHIM_INTEGRITY_H

#include <stddef.h>
#include <stdint.h>

#define INTEGRITY_SIZE 16

/* One visible device as the entry points describe it. */
struct integrity_device {
	uint8_t uuid[16];      /* cuDeviceGetUuid, not _v2 */
	int32_t pci_domain, pci_bus, pci_device;
};

/* What runtime and driver must agree on. */
struct integrity_input {
	uint32_t driver_version;   /* cuDriverGetVersion */
	uint32_t version;          /* the question: runtime version + 0, 1, 2 */
	uint32_t pid, thread;      /* getpid(); low half of pthread_self() */
	uint64_t cudart_table;     /* addresses handed to the caller */
	uint64_t integrity_table;
	uint64_t function;         /* as stored in the table */
	uint64_t unix_seconds;     /* the question's second argument */
};

void integrity_md2(const void *data, size_t size,
		   uint8_t out_digest[INTEGRITY_SIZE]);

void integrity_answer(const struct integrity_input *input,
		      const struct integrity_device *devices, size_t count,
		      uint8_t out_answer[INTEGRITY_SIZE]);

#endif
