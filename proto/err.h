/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error idiom of the house, after dbus-broker's.
 * Used everywhere but in CUDA entry points, which speak CUresult.
 *
 * A function returns int: 0 for success, a negative errno for a failure that
 * callers only pass on, a positive MODULE_E_* for an outcome that its direct
 * caller must handle. err_origin() marks where a failure begins, err_trace()
 * every frame it passes; with MPSSHIM_LOG=debug each prints a line, so an
 * unexpected failure leaves a stack of file, line and function.
 */
#ifndef PROTO_ERR_H
#define PROTO_ERR_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int err_note(int r, bool origin, const char *file, int line,
	     const char *func);

#define err_origin(r) err_note((r), true, __FILE__, __LINE__, __func__)
#define err_trace(r) \
	({ int r_ = (r); \
	   r_ < 0 ? err_note(r_, false, __FILE__, __LINE__, __func__) : r_; })

/* What a negative errno means, in this thread until its next call. */
const char *err_text(int r);

#define _cleanup_(f) __attribute__((cleanup(f)))

static inline void
err_freep(void *p)
{
	void *memory;

	/* p is a T **: read it as bytes, whatever T is. */
	memcpy(&memory, p, sizeof(memory));
	free(memory);
}

static inline void
err_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define _cleanup_free_ _cleanup_(err_freep)
#define _cleanup_close_ _cleanup_(err_closep)

static inline int
steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define steal_ptr(pp) \
	({ __typeof__(*(pp)) taken_ = *(pp); *(pp) = NULL; taken_; })

#endif
