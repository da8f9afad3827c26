/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA_VISIBLE_DEVICES.
 */
#include "shim/visible.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define UUID_TEXT 40   /* GPU-8-4-4-4-12 */

static bool
uuid_text(const Mps__Device *device, char text[UUID_TEXT + 1])
{
	const uint8_t *u = device->uuid.data;

	if (device->uuid.len != 16)
		return false;
	snprintf(text, UUID_TEXT + 1,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3], u[4],
		 u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
	return true;
}

/* The only device whose UUID begins as the entry does, or -1. What follows a
 * whole UUID is ignored. */
static int
by_uuid(const char *entry, size_t size, Mps__Device *const *devices,
	int ndevices)
{
	char text[UUID_TEXT + 1];
	int found = -1;

	/* "GPU-" alone would be a prefix of everything. */
	if (size <= 4 || memcmp(entry, "GPU-", 4))
		return -1;
	if (size > UUID_TEXT)
		size = UUID_TEXT;
	for (int i = 0; i < ndevices; i++) {
		if (!uuid_text(devices[i], text) ||
		    strncasecmp(text, entry, size))
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

/* A number may be followed by anything ("0x1" is 0). */
static bool
is_number(const char *entry, size_t size, long *out_value)
{
	char *end;

	*out_value = strtol(entry, &end, 10);
	return end != entry && (size_t)(end - entry) <= size;
}

static int
one_device(const char *entry, size_t size, bool numbers,
	   Mps__Device *const *devices, int ndevices)
{
	long value;

	if (is_number(entry, size, &value) != numbers)
		return -1;
	if (!numbers)
		return by_uuid(entry, size, devices, ndevices);
	return value >= 0 && value < ndevices ? (int)value : -1;
}

int
shim_visible(const char *spec, Mps__Device *const *devices, int ndevices,
	     int *out, int max)
{
	int count = 0;
	bool numbers;
	long first;

	if (!spec) {
		for (; count < ndevices && count < max; count++)
			out[count] = count;
		return count;
	}
	numbers = is_number(spec, strcspn(spec, ","), &first);
	while (count < max) {
		size_t size = strcspn(spec, ",");
		int device = one_device(spec, size, numbers, devices,
					ndevices);

		if (device < 0)
			return count;
		for (int i = 0; i < count; i++)
			if (out[i] == device)
				return -1;
		out[count++] = device;
		if (!spec[size])
			return count;
		spec += size + 1;
	}
	return count;
}
