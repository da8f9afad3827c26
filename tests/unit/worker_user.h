/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client with kernels and streams, on top of the worker rig. Its kernels
 * spin until the test lets them go.
 * Included by tests/unit/check_worker*.c.
 */
#ifndef TESTS_UNIT_WORKER_USER_H
#define TESTS_UNIT_WORKER_USER_H

#include <check.h>

#include "api_cuda.h"
#include "proto/function.h"
#include "proto/handle.h"
#include "tests/unit/worker_rig.h"

#define USER_STREAMS 8 /* of each client */

/* As mpsStreamCreate numbers them. */
enum kind { BLOCKING, NON_BLOCKING, LEGACY };

static const char user_ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry bump(.param .u64 p)\n{\n"
	" .reg .b32 %r<3>; .reg .b64 %d<2>;\n"
	" ld.param.u64 %d1, [p];\n ld.global.u32 %r1, [%d1];\n"
	" add.u32 %r2, %r1, 1;\n st.global.u32 [%d1], %r2;\n ret;\n}\n"
	".visible .entry spin(.param .u64 p)\n{\n"
	" .reg .b32 %r<2>; .reg .b64 %d<2>; .reg .pred %p;\n"
	" ld.param.u64 %d1, [p];\n"
	"L:\n ld.volatile.global.u32 %r1, [%d1];\n"
	" setp.eq.u32 %p, %r1, 0;\n @%p bra L;\n ret;\n}\n"
	".visible .entry announce(.param .u64 go, .param .u64 running)\n{\n"
	" .reg .b32 %r<2>; .reg .b64 %d<3>; .reg .pred %p;\n"
	" ld.param.u64 %d1, [go];\n ld.param.u64 %d2, [running];\n"
	" atom.add.u32 %r1, [%d2], 1;\n"
	"L:\n ld.volatile.global.u32 %r1, [%d1];\n"
	" setp.eq.u32 %p, %r1, 0;\n @%p bra L;\n ret;\n}\n";

struct user {
	struct rig_client c;
	uint64_t bump, spin, announce;
	uint64_t stream[USER_STREAMS];
};

static inline void
user_stream(struct user *u, uint64_t *out, enum kind kind_of)
{
	uint64_t id = rig_mint(&u->c, HANDLE_STREAM), context = 7;
	const uint64_t *p = &id;
	uint32_t kind = kind_of;
	int32_t priority = 0;

	rig_post(&u->c, API_mpsStreamCreate,
		 (void *[]){&p, &context, &kind, &priority});
	*out = id;
}

static inline uint64_t
user_function(struct user *u, uint64_t module, const char *name)
{
	static struct function_info info;
	uint64_t id = rig_mint(&u->c, HANDLE_FUNCTION);
	uint32_t cap = sizeof(info);
	const uint64_t *p = &id;
	void *out = &info;

	ck_assert_int_eq(rig_call(&u->c, API_mpsModuleFunction,
				  (void *[]){&module, &name, &p, &out, &cap}),
			 0);
	return id;
}

static inline void
user_start(struct rig *rig, struct user *u, uint64_t id)
{
	uint64_t module, image_size = sizeof(user_ptx), hash_size = 32;
	uint64_t options_size = 0;
	uint32_t kind = 0, cap = 256, kernels, *k = &kernels;
	const uint64_t *p = &module;
	const void *options = NULL;
	char info[256], error[256];
	void *i = info, *e = error;
	uint8_t hash[32];
	const void *h = hash;

	rig_client_start(rig, &u->c, id, false);
	module = rig_mint(&u->c, HANDLE_MODULE);
	ck_assert_uint_eq(rig_image(rig, user_ptx, sizeof(user_ptx), hash), 0);
	ck_assert_int_eq(
		rig_call(&u->c, API_mpsModuleLoad,
			 (void *[]){&p, &h, &hash_size, &image_size, &kind,
				    &options, &options_size, &k, &i, &cap,
				    &e, &cap}),
		0);
	u->bump = user_function(u, module, "bump");
	u->spin = user_function(u, module, "spin");
	u->announce = user_function(u, module, "announce");
	for (int s = 0; s < USER_STREAMS; s++)
		user_stream(u, &u->stream[s], NON_BLOCKING);
}

#endif
