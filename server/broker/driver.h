/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which driver library the workers load.
 * Used once, when the broker starts.
 */
#ifndef BROKER_DRIVER_H
#define BROKER_DRIVER_H

#include <limits.h>
#include <stddef.h>
#include <stdbool.h>

struct brk_driver {
	char path[PATH_MAX];    /* absolute */
	bool software;          /* it is our software device */
};

/*
 * choice: "auto", "cuda", "soft" or a path; own_dir: where this program's
 * binary lies. 0, or -ENOENT with one line for the user in why.
 */
int brk_driver_choose(struct brk_driver *driver, const char *choice,
		      const char *own_dir, char *why, size_t why_size);

#endif
