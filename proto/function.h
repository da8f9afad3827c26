/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client must know of a kernel to launch it without asking again, and
 * how it has code loaded. Filled by the worker (mpsModuleFunction), read by the shim.
 *
 * Layouts come from cuFuncGetParamInfo in the driver library. Attributes are
 * CUfunction_attribute values by id; from then on the shim keeps them per
 * client (a shared CUfunction's attributes are never changed).
 */
#ifndef PROTO_FUNCTION_H
#define PROTO_FUNCTION_H

#include <stdint.h>

/* mpsModuleLoad's `kind`. */
enum module_kind {
	MODULE_BARE,            /* fatbin, ELF or PTX text, as found */
	MODULE_FATBINS,         /* a version 2 wrapper: u32 count, u32 zero,
				 * u64 sizes[count], then the fatbins, packed */
	MODULE_ALONE = 0x100,   /* a bit: share no load with others */
	MODULE_STAYS = 0x200,   /* a bit: the client cannot leave the worker
				 * that others share */
	MODULE_FLAGS = MODULE_ALONE | MODULE_STAYS,
};
/* Its answer beside CUresults: only a worker of the client's own (Solo in
 * proto/wire.proto) can do it rightly; `error` says why. */
#define MODULE_WANTS_SOLO 0x7fff0003u

#define FUNCTION_ATTRIBUTES 16   /* CU_FUNC_ATTRIBUTE_MAX is 16 in CUDA 13.0 */
#define FUNCTION_PARAMS_MAX 1020 /* keeps the struct inside a reply slot */

struct function_param {
	uint32_t offset, size;   /* bytes */
};

struct function_info {
	int32_t attributes[FUNCTION_ATTRIBUTES];
	uint32_t attribute_mask; /* bit i: attributes[i] was answered */
	uint32_t nparams;
	uint32_t param_bytes;    /* end of the last parameter */
	uint32_t launch_error;   /* CUresult of every launch, when there is
				  * no code of it for this device; else 0 */
	struct function_param params[FUNCTION_PARAMS_MAX];
};
/* Only the first nparams params travel. */
#define FUNCTION_INFO_SIZE(n) \
	(sizeof(struct function_info) - \
	 (FUNCTION_PARAMS_MAX - (n)) * sizeof(struct function_param))

#endif
