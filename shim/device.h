/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device attributes as this process sees them.
 * Used by entry points, by launch validation and by the export tables.
 */
#ifndef SHIM_DEVICE_H
#define SHIM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "shim/process.h"

/* Index the attributes of every visible device. After shim_connect; again
 * in a forked child that connects anew. */
void shim_device_prepare(void);

static inline bool
shim_device_exists(CUdevice device)
{
	return device >= 0 && device < shim_process.ndevices;
}

/* False when neither the driver nor an override has a value. */
bool shim_device_lookup(CUdevice device, CUdevice_attribute attribute,
			int *out_value);
/* The value, or 0 when there is none. */
int shim_device_attribute(CUdevice device, CUdevice_attribute attribute);

/* Attributes that every launch is checked against. */
struct shim_limits {
	uint32_t grid[3], block[3];
	uint32_t threads;           /* in a block */
	int shared;                 /* of a block, without opting in; bytes */
};
extern struct shim_limits shim_limits[SHIM_MAX_DEVICES];

static inline const struct shim_limits *
shim_device_limits(CUdevice device)
{
	return &shim_limits[device];
}

#endif
