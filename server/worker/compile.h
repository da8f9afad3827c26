/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX to machine code in a process of its own, which may crash.
 * Used by server/worker/module.c, which has it, and main.c, which is it.
 */
#ifndef SERVER_WORKER_COMPILE_H
#define SERVER_WORKER_COMPILE_H

#include "server/worker/jit.h"
#include "server/worker/module.h"

#define WKR_COMPILE_LOG 4096u

struct wkr_compiled {
	void *map;           /* NULL: nothing to give back */
	size_t mapped;       /* bytes */
	const void *code;    /* ends with a NUL, should it be text */
	const char *info, *error;
};

enum {
	WKR_COMPILE_E_CRASHED = 1,  /* it ended, or did not in time */
	WKR_COMPILE_E_NOT_TRIED,    /* there is no such process to be had */
};

/* Would the driver compile it for this device? */
bool wkr_compile_is_for(const struct wkr_image *image, bool wrapper);
/* Waits. 0: *out_result is the driver's, and *out of it; WKR_COMPILE_E_*. */
int wkr_compile(const struct wkr_image *image, const struct wkr_jit *jit,
		struct wkr_compiled *out, CUresult *out_result);
void wkr_compiled_drop(struct wkr_compiled *compiled);

/* The process: descriptor 3 is what it is asked. Its exit status. */
int wkr_compile_main(void);

#endif
