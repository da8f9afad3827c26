/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path. Whatever CUDA reports at once is found out here, before the
 * frame is posted: what fails later natively may fail later here, nothing
 * else.
 */
#include "shim/launch.h"

#include <stdlib.h>
#include <string.h>

#include "proto/data.h"
#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/function.h"
#include "shim/module.h"
#include "shim/occupancy.h"
#include "shim/stream.h"
#include "shim_impl.h"

/* Parameter blocks up to this size are put together on the caller's stack. */
#define SMALL_PARAMS 4096u

/* ---- parameters ---- */

/* Most parameters are pointers and numbers. */
static void
copy_param(uint8_t *to, const void *from, uint32_t size)
{
	if (size == 8)
		memcpy(to, from, 8);
	else if (size == 4)
		memcpy(to, from, 4);
	else
		memcpy(to, from, size);
}

static CUresult
gather(const struct function_info *info, void **params, uint8_t *block)
{
	const struct function_param *param = info->params;

	if (info->nparams > 0 && params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < info->nparams; i++, param++) {
		if (params[i] == NULL)
			return CUDA_ERROR_INVALID_VALUE;
		copy_param(block + param->offset, params[i], param->size);
	}
	return CUDA_SUCCESS;
}

/* The list of CU_LAUNCH_PARAM_*: a block that the caller has laid out. Without
 * a size there is none. */
static CUresult
read_extra(void **extra, const void **out_data, size_t *out_size)
{
	const size_t *size = NULL;

	*out_data = NULL;
	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			*out_data = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	*out_size = size == NULL ? 0 : *size;
	return *out_size > 0 && *out_data == NULL ? CUDA_ERROR_INVALID_VALUE :
						    CUDA_SUCCESS;
}

/* As the driver does: a short block is taken, a long or missing one not. */
static CUresult
copy_extra(const struct function_info *info, void **extra, uint8_t *block)
{
	const void *data;
	size_t size;
	CUresult r = read_extra(extra, &data, &size);

	if (r != CUDA_SUCCESS)
		return r;
	if (size > info->param_bytes)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (size == 0)
		return info->param_bytes > 0 ? CUDA_ERROR_INVALID_VALUE :
					       CUDA_SUCCESS;
	memcpy(block, data, size);
	return CUDA_SUCCESS;
}

/* ---- checks ---- */

static bool
is_within(uint32_t value, uint32_t most)
{
	return value - 1 < most;    /* 0 is not */
}

static CUresult
check_dimensions(const struct launch_head *head, int device, uint64_t *threads)
{
	const struct shim_limits *limits = shim_device_limits(device);

	for (unsigned i = 0; i < 3; i++)
		if (!is_within(head->grid[i], limits->grid[i]) ||
		    !is_within(head->block[i], limits->block[i]))
			return CUDA_ERROR_INVALID_VALUE;
	*threads = (uint64_t)head->block[0] * head->block[1] * head->block[2];
	return *threads > limits->threads ? CUDA_ERROR_INVALID_VALUE :
					    CUDA_SUCCESS;
}

/* More threads than the function takes: its launch bounds say so, or its
 * registers do. */
static CUresult
check_threads(const struct shim_function *function, uint64_t threads)
{
	const struct function_info *info = function->info;
	uint64_t registers;

	if (!(info->attribute_mask &
	      1u << CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) ||
	    threads <= (uint64_t)info->attributes[
			CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
		return CUDA_SUCCESS;
	registers = threads *
		    (uint64_t)info->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS];
	return registers > (uint64_t)shim_device_attribute(
			function->module->device,
			CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK) ?
	       CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_ERROR_INVALID_VALUE;
}

/* All blocks of a cooperative grid run at once, or it is not launched. */
static CUresult
check_cooperative(const struct shim_launch *launch, uint64_t threads)
{
	const struct launch_head *head = &launch->head;
	int device = launch->function->module->device, blocks = 0;
	uint64_t room;
	CUresult r;

	if (!shim_device_attribute(device,
				   CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
		return CUDA_ERROR_NOT_SUPPORTED;
	r = shim_occupancy_blocks(launch->function, (int)threads, head->shared,
				  0, &blocks);
	if (r != CUDA_SUCCESS)
		return r;
	room = (uint64_t)blocks * (uint64_t)shim_device_attribute(device,
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	return (uint64_t)head->grid[0] * head->grid[1] * head->grid[2] > room ?
	       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

static CUresult
check(const struct shim_launch *launch)
{
	const struct shim_function *function = launch->function;
	unsigned int cluster;
	uint64_t threads;
	CUresult r;

	r = check_dimensions(&launch->head, function->module->device,
			     &threads);
	if (r != CUDA_SUCCESS)
		return r;
	r = check_threads(function, threads);
	if (r != CUDA_SUCCESS)
		return r;
	if (launch->head.shared > 0 && launch->head.shared >
	    (uint32_t)shim_function_max_dynamic(function))
		return CUDA_ERROR_INVALID_VALUE;
	if (launch->head.nattrs > 0) {
		r = shim_launch_cluster(launch, &cluster);
		if (r != CUDA_SUCCESS)
			return r;
	}
	if (launch->head.flags & LAUNCH_COOPERATIVE)
		r = check_cooperative(launch, threads);
	return r != CUDA_SUCCESS ? r : (CUresult)function->info->launch_error;
}

/* ---- posting ---- */

/* Everything but the stream and the parameters. */
static CUresult
prepare(CUfunction f, struct shim_context *ctx, const CUlaunchConfig *config,
	bool cooperative, struct shim_launch *launch)
{
	CUresult r = shim_function_in(f, ctx, &launch->function);

	/* A kernel runs in its stream's context; a function has its own. */
	if (r != CUDA_SUCCESS)
		return r;
	if (launch->function->object.ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_launch_config(launch, config);
	if (r != CUDA_SUCCESS)
		return r;
	if (cooperative)
		launch->head.flags |= LAUNCH_COOPERATIVE;
	return check(launch);
}

static CUresult
fill_block(const struct shim_launch *launch, void **params, void **extra,
	   uint8_t *block)
{
	const struct function_info *info = launch->function->info;
	const void *data;
	size_t size = 0;
	CUresult r = CUDA_SUCCESS;

	if (params == NULL && extra != NULL)
		return copy_extra(info, extra, block);
	/* Not both; but a buffer without a size is none. */
	if (extra != NULL)
		r = read_extra(extra, &data, &size);
	if (size > 0)
		r = CUDA_ERROR_INVALID_VALUE;
	return r != CUDA_SUCCESS ? r : gather(info, params, block);
}

CUresult
shim_launch_make(CUfunction f, struct shim_context *ctx,
		 const CUlaunchConfig *config, void **params, void **extra,
		 struct shim_launch *launch, uint8_t **out_block)
{
	CUresult r;

	r = prepare(f, ctx, config, false, launch);
	if (r != CUDA_SUCCESS)
		return r;
	*out_block = calloc(1, launch->function->info->param_bytes + 1);
	if (*out_block == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = fill_block(launch, params, extra, *out_block);
	if (r != CUDA_SUCCESS)
		free(*out_block);
	return r;
}

static CUresult
send(struct shim_launch *launch, struct shim_stream *stream, void **params,
     void **extra, uint8_t *block)
{
	uint32_t size = launch->function->info->param_bytes;
	CUresult r;

	/* Padding between parameters is zero: it leaves this process. */
	memset(block, 0, size);
	r = fill_block(launch, params, extra, block);
	if (r != CUDA_SUCCESS)
		return r;
	if (shim_stream_is_capturing(stream))
		return shim_capture_launch(stream, launch, block);
	r = shim_room_take(stream, SHIM_ROOM_LAUNCH);
	if (r != CUDA_SUCCESS)
		return r;
	if (launch->head.nattrs > 0)
		shim_launch_events(launch);
	return shim_chan_launch(launch->function->module->chan, &launch->head,
				block, size, launch->attrs);
}

static CUresult
launch_kernel(CUfunction f, const CUlaunchConfig *config, CUstream hStream,
	      bool cooperative, void **params, void **extra)
{
	uint8_t small[DATA_LAUNCH_ROOM + SMALL_PARAMS], *big;
	struct shim_launch launch;
	struct shim_stream *stream;
	uint32_t size;
	CUresult r;

	r = shim_stream_find(hStream, shim_current, &stream);
	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r != CUDA_SUCCESS)
		return r;
	r = prepare(f, stream->object.ctx, config, cooperative, &launch);
	if (r != CUDA_SUCCESS) {
		if (r != CUDA_ERROR_INVALID_HANDLE)
			shim_capture_spoil(stream);
		return r;
	}
	launch.head.stream = stream->object.handle;
	if (stream->attrs.set != 0)
		r = shim_stream_attrs_add(stream, &launch);
	if (r != CUDA_SUCCESS)
		return r;
	size = launch.function->info->param_bytes;
	if (size <= SMALL_PARAMS)
		return send(&launch, stream, params, extra,
			    small + DATA_LAUNCH_ROOM);
	big = malloc(DATA_LAUNCH_ROOM + size);
	if (big == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = send(&launch, stream, params, extra, big + DATA_LAUNCH_ROOM);
	free(big);
	return r;
}

static CUresult
launch_plain(CUfunction f, const unsigned int *dims, unsigned int shared,
	     CUstream stream, bool cooperative, void **params, void **extra)
{
	CUlaunchConfig config = {
		.gridDimX = dims[0], .gridDimY = dims[1], .gridDimZ = dims[2],
		.blockDimX = dims[3], .blockDimY = dims[4],
		.blockDimZ = dims[5], .sharedMemBytes = shared,
	};

	return launch_kernel(f, &config, stream, cooperative, params, extra);
}

CUresult
shim_cuLaunchKernel(CUfunction f, unsigned int gridDimX,
		    unsigned int gridDimY, unsigned int gridDimZ,
		    unsigned int blockDimX, unsigned int blockDimY,
		    unsigned int blockDimZ, unsigned int sharedMemBytes,
		    CUstream hStream, void **kernelParams, void **extra)
{
	unsigned int dims[] = { gridDimX, gridDimY, gridDimZ, blockDimX,
				blockDimY, blockDimZ };

	return launch_plain(f, dims, sharedMemBytes, hStream, false,
			    kernelParams, extra);
}

CUresult
shim_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
			       unsigned int gridDimY, unsigned int gridDimZ,
			       unsigned int blockDimX, unsigned int blockDimY,
			       unsigned int blockDimZ,
			       unsigned int sharedMemBytes, CUstream hStream,
			       void **kernelParams)
{
	unsigned int dims[] = { gridDimX, gridDimY, gridDimZ, blockDimX,
				blockDimY, blockDimZ };

	return launch_plain(f, dims, sharedMemBytes, hStream, true,
			    kernelParams, NULL);
}

CUresult
shim_cuLaunchKernelEx(CUstream stream, const CUlaunchConfig *config,
		      CUfunction f, void **kernelParams, void **extra)
{
	if (config == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return launch_kernel(f, config, config->hStream != NULL ?
			     config->hStream : stream, false, kernelParams,
			     extra);
}
