/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a Launch message: the one hot frame.
 * Written by the shim, read and checked by the worker.
 */
#ifndef PROTO_LAUNCH_H
#define PROTO_LAUNCH_H

#include <stdint.h>

#define LAUNCH_HEAD_VERSION 1
/* Parameter blocks up to 32764 bytes exist since CUDA 12.1. */
#define LAUNCH_PARAMS_MAX 32764
#define LAUNCH_ATTRS_MAX 16

enum {
	LAUNCH_COOPERATIVE = 1,
};

struct launch_head {
	uint16_t version;
	uint16_t flags;
	uint32_t nattrs;
	uint64_t function;    /* client handle */
	uint64_t stream;      /* client handle, never a special value */
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared;      /* dynamic, bytes */
	uint32_t zero;
};
_Static_assert(sizeof(struct launch_head) == 56, "wire layout");

/* A CUlaunchAttribute: plain values only; handles in it are client handles
 * and translated one by one. */
struct launch_attr {
	uint32_t id;          /* CUlaunchAttributeID */
	uint32_t zero;
	uint8_t value[64];    /* CUlaunchAttributeValue */
};
_Static_assert(sizeof(struct launch_attr) == 72, "wire layout");

#endif
