/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of export tables that nobody is known to call.
 * Used by tables*.c only.
 *
 * Each answers CUDA_ERROR_NOT_SUPPORTED. They are functions of their own, so
 * that the log can say which slot a new library wants. A table lists them
 * once, as a macro of X(table, number): with SLOT_DEFINE it defines them,
 * with SLOT_INIT it puts them into the table. Slots that the real table
 * leaves NULL stay NULL: callers test for that.
 */
#ifndef SHIM_SLOTS_H
#define SHIM_SLOTS_H

#include "shim/tables.h"

#define SLOT_DEFINE(table, n) \
	static CUresult \
	table##_##n(void) \
	{ \
		static _Atomic int said; \
 \
		return shim_slot_unknown(#table "[" #n "]", &said, \
					 __builtin_return_address(0)); \
	}
#define SLOT_INIT(table, n) [n] = (shim_slot *)table##_##n,

/* The first word of a table. */
#define SLOT_SIZE(table) (shim_slot *)(uintptr_t)sizeof(table)

#endif
