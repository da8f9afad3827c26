/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multiprocessors: sets of them, resources and green contexts.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_GREEN_H
#define SERVER_SOFT_SOFT_GREEN_H

#include "server/soft/soft_ctx.h"

/*
 * Multiprocessors of a device, ascending. Numbers, not a mask: a resource
 * names a run of them, and a grid's block asks for the one it runs on.
 */
struct soft_sms {
	struct soft_device *device;
	unsigned count;
	uint16_t number[SOFT_SMS_MAX];
};

/* What cuDevResourceGenerateDesc makes. The API cannot destroy it, and
 * resources of green contexts point at it: it stays. */
struct soft_desc {
	struct soft_sms sms;
};

struct soft_green {
	struct soft_ctx *ctx;
	const struct soft_desc *desc;
	struct soft_device *device;
};

/* All of desc, or of the device when it is NULL, as a resource. */
void soft_resource_fill(CUdevResource *out, const struct soft_device *device,
			const struct soft_desc *desc);
CUresult soft_resource_type_check(CUdevResourceType type);
/* The multiprocessors that work of ctx may use. */
unsigned soft_ctx_sms(const struct soft_ctx *ctx);

/*
 * soft_sms.c: a thread that executes grids stands for a share of the
 * device's multiprocessors. In a green context it needs free ones of the
 * context's own, so contexts that have the same ones share threads too.
 */
struct soft_sms_taken {
	const struct soft_sms *of;     /* NULL: nothing taken */
	unsigned count;
	uint16_t number[SOFT_SMS_MAX];
};

/* Under soft_sched.lock. False: all of them have their threads. */
bool soft_sms_free_locked(const struct soft_sms *sms);
void soft_sms_take_locked(const struct soft_sms *sms,
			  struct soft_sms_taken *taken);
void soft_sms_give_locked(struct soft_sms_taken *taken);

#endif
