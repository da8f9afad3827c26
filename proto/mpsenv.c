/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/mpsenv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What does nothing in one context that all share, but at these values says
 * what is so anyway. */
static const struct {
	const char *name, *neutral, *why;
} idle[] = {
	{ "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100",
	  "clients share all multiprocessors" },
	{ "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING", "0",
	  "clients share all multiprocessors" },
	{ "CUDA_MPS_SM_PARTITION", "", "clients share all multiprocessors" },
	{ "CUDA_MPS_CLIENT_PRIORITY", "0",
	  "clients have the priorities of their streams" },
};

int
mpsenv_size(const char *text, uint64_t *out_bytes)
{
	unsigned long long value;
	unsigned int shift = 0;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno)
		return -EINVAL;
	if (*end == 'G' || *end == 'g')
		shift = 30;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	end += shift != 0;
	end += shift && (*end == 'B' || *end == 'b');
	if (*end || !value || value > UINT64_MAX >> shift)
		return -EINVAL;
	*out_bytes = (uint64_t)value << shift;
	return 0;
}

uint64_t
mpsenv_memory_limit(bool *out_good)
{
	const char *set = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	uint64_t least = 0, value;

	*out_good = true;
	while (set && *set) {
		size_t n = strcspn(set, ",");
		const char *equals = memchr(set, '=', n);
		char text[32] = "";

		if (equals)
			snprintf(text, sizeof(text), "%.*s",
				 (int)(n - (size_t)(equals + 1 - set)),
				 equals + 1);
		if (mpsenv_size(text, &value) < 0)
			*out_good = false;
		else if (!least || value < least)
			least = value;
		set += n + (set[n] == ',');
	}
	return least;
}

bool
mpsenv_idle(unsigned int i, char *line, unsigned int size)
{
	for (unsigned int at = 0; at < sizeof(idle) / sizeof(*idle); at++) {
		const char *set = getenv(idle[at].name);

		if (!set || !*set || !strcmp(set, idle[at].neutral) || i--)
			continue;
		snprintf(line, size, "%s=%.80s has no effect: %s",
			 idle[at].name, set, idle[at].why);
		return true;
	}
	return false;
}
