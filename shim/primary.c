/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primary contexts: one per device, counted, with a handle that stays the
 * same however often they are released and retained again.
 */
#include <pthread.h>

#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim_impl.h"

/* Guards everything below and `retained`, and is held while a primary
 * context comes to life, but not while one ends: destructors run then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct shim_context *primaries[SHIM_MAX_DEVICES];
/* Who ends the context of that device: others wait for it to be over. */
static struct {
	bool busy;
	pthread_t thread;
} ending[SHIM_MAX_DEVICES];

static struct shim_context *
primary_locked(int device)
{
	if (primaries[device] == NULL)
		shim_ctx_make(device, true, 0, &primaries[device]);
	return primaries[device];
}

struct shim_context *
shim_primary(int device)
{
	struct shim_context *ctx;

	pthread_mutex_lock(&lock);
	ctx = primary_locked(device);
	pthread_mutex_unlock(&lock);
	return ctx;
}

/* False in a destructor that wants back the context which it is part of. */
static bool
wait_for_end_locked(int device)
{
	while (ending[device].busy) {
		if (pthread_equal(ending[device].thread, pthread_self()))
			return false;
		pthread_cond_wait(&ended, &lock);
	}
	return true;
}

CUresult
shim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	struct shim_context *ctx;

	if (pctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	ctx = primary_locked(dev);
	if (!wait_for_end_locked(dev))
		r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	else if (ctx != NULL && shim_ctx_is_live(ctx))
		r = CUDA_SUCCESS;
	else if (ctx != NULL)
		/* What went wrong in it stays. */
		r = ctx->chan != NULL && shim_chan_sticky(ctx->chan) ?
		    shim_chan_sticky(ctx->chan) : shim_ctx_revive(ctx);
	if (r == CUDA_SUCCESS) {
		ctx->retained++;
		*pctx = (CUcontext)(uintptr_t)ctx->handle;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* End it, if it lives. Called with the lock held, which is dropped. */
static void
end_and_unlock(CUdevice dev)
{
	struct shim_context *ctx = primaries[dev];

	if (ending[dev].busy || !shim_ctx_is_live(ctx)) {
		pthread_mutex_unlock(&lock);
		return;
	}
	ending[dev].busy = true;
	ending[dev].thread = pthread_self();
	pthread_mutex_unlock(&lock);

	shim_ctx_end(ctx);

	pthread_mutex_lock(&lock);
	ending[dev].busy = false;
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&lock);
}

CUresult
shim_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct shim_context *ctx;

	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	ctx = primaries[dev];
	if (ctx == NULL || ctx->retained == 0) {
		pthread_mutex_unlock(&lock);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (--ctx->retained == 0)
		end_and_unlock(dev);
	else
		pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* It takes no retain away: each still wants its release, and the next retain
 * brings the context back. */
CUresult
shim_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (primaries[dev] != NULL)
		end_and_unlock(dev);
	else
		pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult
shim_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct shim_context *ctx;
	CUresult r;

	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	r = shim_ctx_check_flags(flags);
	if (r != CUDA_SUCCESS || flags & CU_CTX_MAP_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	ctx = shim_primary(dev);
	if (ctx == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->flags = flags;
	return CUDA_SUCCESS;
}

/* Of a time when flags could not be changed in use. */
CUresult
shim_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	struct shim_context *ctx;

	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	ctx = shim_primary(dev);
	if (ctx != NULL && shim_ctx_is_live(ctx))
		return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	return shim_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult
shim_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct shim_context *ctx;

	if (flags == NULL || active == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	ctx = shim_primary(dev);
	if (ctx == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*flags = ctx->flags;
	*active = shim_ctx_is_live(ctx);
	return CUDA_SUCCESS;
}
