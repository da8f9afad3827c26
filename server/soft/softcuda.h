/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libsoftcuda.so offers beyond the CUDA driver API.
 * Called by the worker and by tests, through cuGetExportTable().
 *
 * Environment, read once by cuInit():
 *   SOFTCUDA_DEVICES   number of devices, 1 to 16 (1); 0 is "no device"
 *   SOFTCUDA_SMS       multiprocessors of each (8)
 *   SOFTCUDA_MEMORY    bytes of device memory, with K, M or G (4G)
 *   SOFTCUDA_ACCOUNT   processes of the user with the same name share the
 *                      device's memory, as all do that have none; `private`:
 *                      it is this process's alone
 *   SOFTCUDA_CONTEXT   bytes of device memory that a context takes, likewise
 *                      (0)
 *   SOFTCUDA_NAME      device name
 *   SOFTCUDA_CC        compute capability (9.0)
 *   SOFTCUDA_THREADS   threads that execute grids (cores, at least 2)
 *   SOFTCUDA_RELAX     pessimism to leave out, a list of:
 *       load    loading code does not wait for anything
 *       free    cuMemFree, cuMemFreeHost, cuMemHostUnregister,
 *               cuArrayDestroy, cuLibraryUnload do not wait
 *       unload  cuModuleUnload does not wait
 *       limit   cuCtxSetLimit does not wait
 *       local   growing local memory does not wait
 *       stall   whoever waits does not hold up other callers
 *       queue   a stream takes any number of operations
 *       hol     a hardware queue whose head waits blocks nobody
 *       green   cuGreenCtxCreate does not wait, and a green context may be
 *               current in several threads
 *       all     all of these
 *   SOFTCUDA_FAULT     faults to inject, a list of:
 *       init=CODE       cuInit answers CODE
 *       launch:N=CODE   the N-th grid of the process ends with CODE
 *       kernel:NAME=CODE  every grid of kernel NAME ends with CODE
 *       alloc:N         the N-th device allocation answers 2
 *       wild            a handle that is none, and NULL where the real driver
 *                       looks at it, end the process by SIGSEGV, as there
 *       load:TEXT       so does the load or link of an image with TEXT in it
 *       use:NAME        so does cuFuncLoad of kernel NAME
 */
#ifndef SERVER_SOFT_SOFTCUDA_H
#define SERVER_SOFT_SOFTCUDA_H

#include <stddef.h>
#include <stdint.h>
#include <cuda.h>

#define SOFTCUDA_TABLE_ID "mpsshim soft v1"   /* with its NUL: 16 bytes */

struct softcuda_table {
	size_t size;                /* of this struct, bytes */
	/* Who a stream works for. Grids of tag 0 count for nobody. */
	CUresult (*set_stream_tag)(CUstream stream, uint64_t tag);
	/*
	 * Wall time during which at least two pool threads were executing
	 * blocks of grids with two different non-zero tags.
	 */
	CUresult (*overlap_ns)(uint64_t *out_ns);
	/* Wall time during which a pool thread executed blocks of tag. */
	CUresult (*kernel_ns)(uint64_t tag, uint64_t *out_ns);
	/* Bytes of device memory that nobody has; needs no context. */
	CUresult (*memory_left)(int ordinal, uint64_t *out_bytes);
};

#endif
