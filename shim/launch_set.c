/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches set up call by call, as before CUDA 4: a function remembers its
 * block, its shared memory and its parameters until it is launched.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "proto/launch.h"
#include "shim/function.h"
#include "shim_impl.h"

struct shim_setup {
	unsigned int block[3];       /* 0: not set */
	unsigned int shared, size;
	uint8_t params[];            /* as many as the function takes */
};

/* Guards what all functions remember, and what setup points at. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t
setup_size(const struct shim_function *function)
{
	return sizeof(struct shim_setup) + function->info->param_bytes;
}

/* The function, with the lock held if that succeeds. */
static CUresult
find_and_lock(CUfunction handle, struct shim_function **out)
{
	CUresult r = shim_function_find(handle, out);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	if (!(*out)->setup)
		(*out)->setup = calloc(1, setup_size(*out));
	if ((*out)->setup)
		return CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
shim_cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	struct shim_function *function;
	CUresult r = find_and_lock(hfunc, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (x > 0 && y > 0 && z > 0) {
		function->setup->block[0] = (unsigned int)x;
		function->setup->block[1] = (unsigned int)y;
		function->setup->block[2] = (unsigned int)z;
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult
shim_cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
	struct shim_function *function;
	CUresult r = find_and_lock(hfunc, &function);

	if (r != CUDA_SUCCESS)
		return r;
	function->setup->shared = bytes;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult
shim_cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
	struct shim_function *function;
	CUresult r = find_and_lock(hfunc, &function);

	if (r != CUDA_SUCCESS)
		return r;
	/* More than this function takes is refused when it is launched. */
	if (numbytes <= LAUNCH_PARAMS_MAX)
		function->setup->size = numbytes;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult
shim_cuParamSetv(CUfunction hfunc, int offset, void *ptr,
		 unsigned int numbytes)
{
	struct shim_function *function;
	CUresult r = find_and_lock(hfunc, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (ptr && offset >= 0 &&
	    (uint64_t)offset + numbytes <= function->info->param_bytes)
		memcpy(function->setup->params + offset, ptr, numbytes);
	else
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult
shim_cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
	return shim_cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CUresult
shim_cuParamSetf(CUfunction hfunc, int offset, float value)
{
	return shim_cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CUresult
shim_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height,
		       CUstream hStream)
{
	_cleanup_free_ struct shim_setup *setup = NULL;
	struct shim_function *function;
	size_t size;
	CUresult r = find_and_lock(f, &function);

	if (r != CUDA_SUCCESS)
		return r;
	/* Another thread may set the next launch up meanwhile. */
	setup = malloc(setup_size(function));
	if (setup)
		memcpy(setup, function->setup, setup_size(function));
	pthread_mutex_unlock(&lock);
	if (!setup)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (grid_width <= 0 || grid_height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	size = setup->size;
	void *extra[] = {
		CU_LAUNCH_PARAM_BUFFER_POINTER, setup->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END,
	};
	return shim_cuLaunchKernel(f, (unsigned int)grid_width,
				   (unsigned int)grid_height, 1,
				   setup->block[0], setup->block[1],
				   setup->block[2], setup->shared, hStream,
				   NULL, extra);
}

CUresult
shim_cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	return shim_cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

CUresult
shim_cuLaunch(CUfunction f)
{
	return shim_cuLaunchGrid(f, 1, 1);
}
