/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that the front end emits on its own behalf.
 * Private to server/soft/ptx_*.c.
 */
#ifndef SERVER_SOFT_PTX_OPS_H
#define SERVER_SOFT_PTX_OPS_H

#include "server/soft/ptx_ir.h"

/*
 * Addresses of the parameter space: the kernel's block from 0 on, the
 * frame's own area (a device function's parameters) from here on.
 */
#define PTX_PARAM_FRAME 0x800000u

ptx_exec_fn ptx_exec_shared_address;  /* dst0 = shared[target] + imm */
ptx_exec_fn ptx_exec_local_address;   /* dst0 = frame's local + imm */
ptx_exec_fn ptx_exec_not_pred;        /* predicate dst0 = !src0 */

/* Fills exec and what it needs; false for an unknown register. flags is set
 * when the register is a predicate. */
bool ptx_sreg_find(const char *name, size_t size, struct ptx_insn *i);

#endif
