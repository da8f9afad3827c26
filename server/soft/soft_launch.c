/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches. All that the driver checks at the call is checked here, with
 * its codes; a launch that passes can only fail as a fault of its kernel.
 */
#include "server/soft/soft_launch.h"

#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_func.h"
#include "server/soft/soft_green.h"
#include "server/soft/soft_mem.h"
#include "server/soft/soft_tex.h"

#define GRID_X_MAX 2147483647u
#define GRID_YZ_MAX 65535u
#define CLUSTER_PORTABLE 8u

static struct ptx_env env = {
	.range = soft_mem_lookup,
	.generation = &soft_mem_generation,
	.print = soft_print,
	.complain = soft_print_error,
	.heap_alloc = soft_heap_alloc,
	.heap_free = soft_heap_free,
	.condition = soft_cond_set,
	.texture = soft_tex_fetch,
	.surface = soft_surf_access,
	.clock_hz = 1980000000,   /* of an H200 */
};

static pthread_once_t env_once = PTHREAD_ONCE_INIT;

static void
env_fill(void)
{
	env.sms = (unsigned)soft.devices[0].sms;
}

static uint64_t
product(const unsigned dim[3])
{
	uint64_t n = (uint64_t)dim[0] * dim[1];

	return n > UINT32_MAX ? n : n * dim[2];
}

static CUresult
check_block(const struct soft_kernel_work *k, const struct soft_func *func)
{
	const struct soft_kernel_info *info = soft_func_info(func);
	const struct soft_func_attrs *attrs = soft_func_attrs(func);
	uint64_t threads = product(k->block);
	size_t regs;

	for (int i = 0; i < 3; i++)
		if (!k->grid[i] || !k->block[i])
			return CUDA_ERROR_INVALID_VALUE;
	if (k->grid[0] > GRID_X_MAX || k->grid[1] > GRID_YZ_MAX ||
	    k->grid[2] > GRID_YZ_MAX || k->block[0] > 1024 ||
	    k->block[1] > 1024 || k->block[2] > 64 ||
	    threads > SOFT_THREADS_BLOCK || threads > info->max_threads)
		return CUDA_ERROR_INVALID_VALUE;
	if (func->ptx && func->ptx->req_ntid[0])
		for (int i = 0; i < 3; i++)
			if (func->ptx->req_ntid[i] != k->block[i])
				return CUDA_ERROR_INVALID_VALUE;
	if (k->dyn_shared > (unsigned)attrs->max_dynamic_shared ||
	    k->dyn_shared + info->shared_static > SOFT_SHARED_OPTIN)
		return CUDA_ERROR_INVALID_VALUE;
	regs = ((size_t)info->regs * 32 + 255) / 256 * 256;
	if (regs * ((threads + 31) / 32) > SOFT_REGS_SM)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	return CUDA_SUCCESS;
}

static CUresult
check_cluster(struct soft_kernel_work *k, const struct soft_func *func)
{
	const struct soft_func_attrs *attrs = soft_func_attrs(func);
	bool given = k->cluster[0];
	unsigned required[3];

	for (int i = 0; i < 3; i++)
		required[i] = (unsigned)attrs->required_cluster[i];
	for (int i = 0; i < 3 && required[0]; i++) {
		if (!required[i])
			required[i] = 1;
		if (given && k->cluster[i] != required[i])
			return CUDA_ERROR_INVALID_VALUE;
		k->cluster[i] = required[i];
	}
	if (!k->cluster[0]) {
		if (attrs->cluster_must_be_set)
			return CUDA_ERROR_INVALID_VALUE;
		k->cluster[0] = k->cluster[1] = k->cluster[2] = 1;
	}
	if (!product(k->cluster) ||
	    product(k->cluster) > (attrs->non_portable_cluster ?
				   PTX_CLUSTER_MAX : CLUSTER_PORTABLE))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	for (int i = 0; i < 3; i++)
		if (k->grid[i] % k->cluster[i])
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult
check_cooperative(const struct soft_kernel_work *k,
		  const struct soft_func *func)
{
	unsigned blocks;

	if (!k->cooperative)
		return CUDA_SUCCESS;
	blocks = soft_occupancy_blocks(func, (struct soft_occupancy_in){
		(unsigned)product(k->block), k->dyn_shared });
	return product(k->grid) > (uint64_t)blocks *
	       soft_ctx_sms(k->ctx) ?
	       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

/* Attributes that say how, not what, may be left to the scheduler. */
static CUresult
take_attribute(struct soft_kernel_work *k, const CUlaunchAttribute *a)
{
	switch (a->id) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		k->cooperative = a->value.cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		k->cluster[0] = a->value.clusterDim.x;
		k->cluster[1] = a->value.clusterDim.y;
		k->cluster[2] = a->value.clusterDim.z;
		return k->cluster[0] && k->cluster[1] && k->cluster[2] ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		k->priority = a->value.priority;
		k->has_priority = true;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* `extra`: pairs of a word and a value, up to CU_LAUNCH_PARAM_END. */
static CUresult
pack_extra(struct soft_kernel_work *k, void **extra)
{
	const void *buffer = NULL;
	size_t size = 0;

	for (unsigned i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE &&
			 extra[i + 1])
			size = *(size_t *)extra[i + 1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if ((size && !buffer) || size < k->param_size)
		return CUDA_ERROR_INVALID_VALUE;
	if (k->param_size)
		memcpy(k->params, buffer, k->param_size);
	return CUDA_SUCCESS;
}

static CUresult
pack(struct soft_kernel_work *k, const struct soft_kernel_info *info,
     void **params, void **extra)
{
	k->param_size = info->param_size;
	k->params = calloc(1, k->param_size ? k->param_size : 1);
	if (!k->params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (params && extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra)
		return pack_extra(k, extra);
	if (info->nparams && !params)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < info->nparams; i++) {
		if (!params[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy((char *)k->params + info->params[i].offset, params[i],
		       info->params[i].size);
	}
	return CUDA_SUCCESS;
}

static CUresult
check_code(struct soft_func *func)
{
	if (func->ptx)
		return CUDA_SUCCESS;
	if (!atomic_exchange(&func->warned, true))
		soft_log("kernel %s has machine code only, which the software"
			 " device cannot execute",
			 soft_func_info(func)->name);
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

CUresult
soft_kernel_work_new(struct soft_ctx *ctx, const struct soft_launch *launch,
		     struct soft_work **out_work)
{
	struct soft_kernel_work *k;
	struct soft_func *func;
	struct soft_work *work;
	CUresult res = soft_func_from(launch->function, ctx, &func);

	if (res)
		return res;
	if (launch->attr_count && !launch->attrs)
		return CUDA_ERROR_INVALID_VALUE;
	work = soft_work_new(SOFT_WORK_KERNEL);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	k = &work->kernel;
	k->func = func;
	k->ctx = ctx;
	memcpy(k->grid, launch->grid, sizeof(k->grid));
	memcpy(k->block, launch->block, sizeof(k->block));
	k->dyn_shared = launch->dyn_shared;
	k->cooperative = launch->cooperative;
	for (unsigned i = 0; i < launch->attr_count && !res; i++)
		res = take_attribute(k, &launch->attrs[i]);
	if (!res && func->module->ctx != ctx->home)
		res = CUDA_ERROR_INVALID_CONTEXT;
	if (!res)
		res = check_block(k, func);
	if (!res)
		res = check_cluster(k, func);
	if (!res)
		res = check_cooperative(k, func);
	if (!res)
		res = pack(k, soft_func_info(func), launch->params,
			   launch->extra);
	if (!res)
		res = check_code(func);
	if (res)
		soft_work_free(work);
	else
		*out_work = work;
	return res;
}

/*
 * A kernel that needs more local memory than any before makes the driver
 * reallocate it for the whole context, which is a drain (measured).
 */
static CUresult
grow_local(struct soft_ctx *ctx, const struct soft_func *func)
{
	size_t need = soft_func_info(func)->local_bytes;
	CUresult res = CUDA_SUCCESS;
	bool grows;

	ctx = ctx->home;
	pthread_mutex_lock(&soft_ctx_lock);
	grows = need > ctx->local_bytes;
	if (grows)
		ctx->local_bytes = need;
	pthread_mutex_unlock(&soft_ctx_lock);
	if (grows && !soft_relaxed(SOFT_RELAX_LOCAL)) {
		res = soft_gate_drain(true);
		soft_gate_open(true);
	}
	return res;
}

/* SOFTCUDA_FAULT needs no executor: the grid ends before it starts. */
static CUresult
injected(const struct soft_func *func)
{
	CUresult fault = soft_fault_for_grid(soft_func_info(func)->name);

	if (fault) {
		soft_log("SOFTCUDA_FAULT: %s in kernel %s",
			 soft_error_name(fault), soft_func_info(func)->name);
		soft_poison(fault);
	}
	return fault;
}

CUresult
soft_grid_make(struct soft_op *op)
{
	const struct soft_kernel_work *k = &op->work->kernel;
	static _Atomic uint64_t last_grid;
	struct ptx_launch launch = {
		.kernel = k->func->ptx,
		.env = &env,
		.grid = { k->grid[0], k->grid[1], k->grid[2] },
		.block = { k->block[0], k->block[1], k->block[2] },
		.cluster = { k->cluster[0], k->cluster[1], k->cluster[2] },
		.dyn_shared = k->dyn_shared,
		.params = k->params,
		.grid_id = atomic_fetch_add(&last_grid, 1) + 1,
		.cooperative = k->cooperative,
		.sms = soft_ctx_sms(k->ctx),
		.sm_number = k->ctx->sms ? k->ctx->sms->number : NULL,
	};

	pthread_once(&env_once, env_fill);
	op->sms = k->ctx->sms;
	return ptx_grid_create(&op->grid, &launch) ? CUDA_ERROR_OUT_OF_MEMORY :
	       CUDA_SUCCESS;
}

CUresult
soft_grid_result(struct ptx_grid *grid, const char **out_detail)
{
	switch (ptx_grid_fault(grid, out_detail)) {
	case PTX_FAULT_NONE:
		return CUDA_SUCCESS;
	case PTX_FAULT_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case PTX_FAULT_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case PTX_FAULT_SPACE:
		return CUDA_ERROR_INVALID_ADDRESS_SPACE;
	case PTX_FAULT_TRAP:
		return CUDA_ERROR_LAUNCH_FAILED;
	case PTX_FAULT_ASSERT:
		return CUDA_ERROR_ASSERT;
	case PTX_FAULT_ILLEGAL_INSTR:
		return CUDA_ERROR_ILLEGAL_INSTRUCTION;
	case PTX_FAULT_PC:
		return CUDA_ERROR_INVALID_PC;
	case PTX_FAULT_STACK:
		return CUDA_ERROR_HARDWARE_STACK_ERROR;
	}
	return CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult
launch(const struct soft_launch *l, CUstream handle)
{
	struct soft_stream *stream;
	struct soft_work *work;
	struct soft_ctx *ctx;
	CUresult res = soft_stream_from(handle, &stream, &ctx);

	if (!res)
		res = soft_kernel_work_new(ctx, l, &work);
	if (res)
		return res;
	soft_print_flush();
	if (!stream->capture) {
		res = grow_local(ctx, work->kernel.func);
		/* An injected fault shows up as a real one: not in the
		 * launch's own answer. */
		if (!res && injected(work->kernel.func)) {
			soft_work_free(work);
			return CUDA_SUCCESS;
		}
	}
	if (res) {
		soft_work_free(work);
		return res;
	}
	return soft_issue(stream, work, NULL);
}

CUresult
cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
	       unsigned int bx, unsigned int by, unsigned int bz,
	       unsigned int shared, CUstream stream, void **params,
	       void **extra)
{
	struct soft_launch l = {
		.function = f, .grid = { gx, gy, gz },
		.block = { bx, by, bz }, .dyn_shared = shared,
		.params = params, .extra = extra,
	};

	return launch(&l, stream);
}

CUresult
cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy,
			  unsigned int gz, unsigned int bx, unsigned int by,
			  unsigned int bz, unsigned int shared,
			  CUstream stream, void **params)
{
	struct soft_launch l = {
		.function = f, .grid = { gx, gy, gz },
		.block = { bx, by, bz }, .dyn_shared = shared,
		.params = params, .cooperative = true,
	};

	return launch(&l, stream);
}

CUresult
cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
		 void **extra)
{
	struct soft_launch l;

	if (!config)
		return soft_enter() ? soft_enter() : CUDA_ERROR_INVALID_VALUE;
	l = (struct soft_launch){
		.function = f,
		.grid = { config->gridDimX, config->gridDimY,
			  config->gridDimZ },
		.block = { config->blockDimX, config->blockDimY,
			   config->blockDimZ },
		.dyn_shared = config->sharedMemBytes,
		.params = params, .extra = extra,
		.attr_count = config->numAttrs, .attrs = config->attrs,
	};
	return launch(&l, config->hStream);
}
