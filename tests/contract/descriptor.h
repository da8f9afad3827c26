/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported memory in other processes than its maker's.
 * For the programs of tests/contract only.
 *
 * These programs call CUDA in children alone: a process that called it must
 * not fork, and one that holds a descriptor must not have called it.
 */
#ifndef TESTS_CONTRACT_DESCRIPTOR_H
#define TESTS_CONTRACT_DESCRIPTOR_H

#include <sys/types.h>

#include "tests/contract/drv.h"

/* Device memory that can be exported, and its descriptor. */
int descriptor_make(size_t size, CUmemGenericAllocationHandle *out_handle);
void descriptor_send(int sock, int fd);
/* -1 when none came. */
int descriptor_receive(int sock);
/* Wait for a child; what it skipped or failed this program does too. */
void child_join(pid_t pid, const char *who);

#endif
