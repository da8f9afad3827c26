/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands for memory, a pool or an event in another process.
 * Used by shim/ipc*.c, and by the broker for the one message in a token.
 *
 * Programs pass it on as CUipcMemHandle, CUipcEventHandle or
 * CUmemPoolPtrExportData, of 64 bytes each. A token is one end of a socket
 * pair in which it waits to be looked at, never taken out; the broker has the
 * other end and sees when nobody holds this one any more.
 */
#ifndef PROTO_IPC_H
#define PROTO_IPC_H

#include <stdint.h>

/* Random; whoever has it may open what it is of. */
#define IPC_KEY 16
#define IPC_MAGIC UINT64_C(0x316370696d706d73)  /* "smpmipc1" */

enum ipc_kind {
	IPC_MEMORY = 1,         /* cuIpcGetMemHandle */
	IPC_EVENT,              /* cuIpcGetEventHandle */
	IPC_POOL_MEMORY,        /* cuMemPoolExportPointer */
	IPC_TOKEN_MEMORY,       /* cuMemExportToShareableHandle */
	IPC_TOKEN_POOL,         /* cuMemPoolExportToShareableHandle */
};

struct ipc_handle {
	uint64_t magic;
	uint32_t kind;
	uint32_t device;        /* EVENT: the broker's ordinal */
	uint64_t id;            /* of the broker's export; EVENT: 0 */
	uint64_t client;        /* whose it is */
	uint8_t key[IPC_KEY];
	uint8_t zero[16];
};
_Static_assert(sizeof(struct ipc_handle) == 64, "as CUDA's");

#endif
