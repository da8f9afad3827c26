/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prologue of every entry point, and the generic ways to answer.
 * Used by build/gen/shim_entry.c and by handwritten entry points.
 */
#ifndef SHIM_ENTER_H
#define SHIM_ENTER_H

#include "api_cuda.h"
#include "api_ids.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/process.h"

/* What the fast paths below could not settle; never returns CUDA_SUCCESS
 * unless the call may go on. */
CUresult shim_enter_slow(enum api_id id, bool needs_context);

CUresult shim_answer_slow(enum api_id id, CUresult r);

/* What every entry point answers passes here: what is not served is said on
 * stderr, and MPSSHIM_LOG=debug names all calls that fail, which libraries
 * often hide behind codes of their own. */
static inline CUresult
shim_answer(enum api_id id, CUresult r)
{
	if (__builtin_expect(r == CUDA_SUCCESS, 1))
		return r;
	return shim_answer_slow(id, r);
}

/* CUDA is initialised in this very process and nothing is lost. */
static inline CUresult
shim_enter_init(enum api_id id)
{
	/* Acquire: pairs with the release of shim_connect, so that what a
	 * live process has is seen complete. */
	_Atomic uint32_t *live = atomic_load_explicit(&shim_process.live,
						      memory_order_acquire);

	if (__builtin_expect(live && atomic_load_explicit(
			live, memory_order_acquire) == SHIM_UP, 1))
		return CUDA_SUCCESS;
	return shim_enter_slow(id, false);
}

/* And this thread has a usable current context. */
static inline CUresult
shim_enter_context(enum api_id id)
{
	struct shim_context *ctx = shim_current;
	CUresult r = shim_enter_init(id);

	if (r != CUDA_SUCCESS)
		return r;
	if (__builtin_expect(ctx && !atomic_load_explicit(
			&ctx->dead, memory_order_relaxed) &&
			shim_chan_sticky(ctx->chan) == CUDA_SUCCESS, 1))
		return CUDA_SUCCESS;
	return shim_enter_slow(id, true);
}

/* Why this call is refused has been said, and better: its CUDA_ERROR_NOT_
 * SUPPORTED needs no other line. */
void shim_has_said_why(void);
/* Answer with a documented error; why is said once. */
CUresult shim_refuse(enum api_id id, CUresult code);

/*
 * Send a call on the current context's channel after checking its handles:
 * each must be live and of its kind (CUDA_ERROR_INVALID_HANDLE), the special
 * streams 0, 1 and 2 become the minted default streams, new handles are
 * minted and, when the call fails, forgotten again.
 */
CUresult shim_call(enum api_id id, void *const argv[]);
CUresult shim_post(enum api_id id, void *const argv[]);

#endif
