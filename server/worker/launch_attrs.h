/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch as the driver takes it, made of a frame's head and attributes.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_LAUNCH_ATTRS_H
#define SERVER_WORKER_LAUNCH_ATTRS_H

#include "proto/launch.h"
#include "server/worker/call.h"

struct wkr_launch {
	struct launch_head head;
	CUlaunchConfig config; /* hStream is the caller's to set */
	CUlaunchAttribute attrs[LAUNCH_ATTRS_MAX + 1];
};

/* Every size is checked against the head; handles are translated. */
CUresult wkr_launch_config(struct wkr_call *call, const void *head,
			   size_t head_size, const void *attrs,
			   size_t attrs_size, struct wkr_launch *out);

#endif
