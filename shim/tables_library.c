/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Export tables of NVIDIA's mathematical libraries: 2131 (cuBLAS, cuBLASLt,
 * cuFFT), 6E16 (cuFFT), 1734 (cuBLASLt). cuBLAS asks for a stream's object,
 * its id and the context's id at every product, so all of this is local.
 */
#include <stddef.h>

#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/enter.h"
#include "shim/function.h"
#include "shim/module.h"
#include "shim/slots.h"
#include "shim/stream.h"

/* ---- 2131 ---- */

#define T2131_UNKNOWN(X) \
	X(T2131, 1) X(T2131, 2) X(T2131, 5) X(T2131, 6) X(T2131, 7) \
	X(T2131, 8) X(T2131, 9) X(T2131, 10) X(T2131, 11) X(T2131, 12) \
	X(T2131, 13) X(T2131, 14) X(T2131, 15) X(T2131, 16) X(T2131, 17) \
	X(T2131, 18) X(T2131, 19) X(T2131, 20) X(T2131, 21) X(T2131, 22) \
	X(T2131, 23) X(T2131, 24) X(T2131, 25) X(T2131, 26) X(T2131, 27) \
	X(T2131, 28) X(T2131, 29) X(T2131, 30) X(T2131, 31) X(T2131, 32) \
	X(T2131, 33) X(T2131, 34) X(T2131, 35) X(T2131, 36) X(T2131, 37) \
	X(T2131, 38) X(T2131, 40) X(T2131, 41) X(T2131, 42) X(T2131, 43) \
	X(T2131, 44) X(T2131, 45) X(T2131, 46) X(T2131, 47) X(T2131, 48) \
	X(T2131, 49) X(T2131, 50) X(T2131, 52) X(T2131, 53) X(T2131, 54) \
	X(T2131, 55) X(T2131, 56) X(T2131, 57) X(T2131, 58) X(T2131, 59) \
	X(T2131, 60) X(T2131, 61) X(T2131, 62) X(T2131, 63) X(T2131, 64) \
	X(T2131, 65) X(T2131, 66) X(T2131, 67) X(T2131, 68) X(T2131, 69) \
	X(T2131, 70) X(T2131, 71) X(T2131, 72) X(T2131, 73) X(T2131, 74) \
	X(T2131, 75) X(T2131, 76) X(T2131, 77) X(T2131, 78) X(T2131, 79) \
	X(T2131, 80) X(T2131, 81) X(T2131, 82) X(T2131, 83) X(T2131, 84) \
	X(T2131, 85) X(T2131, 86) X(T2131, 87) X(T2131, 88) X(T2131, 89) \
	X(T2131, 90) X(T2131, 92)

T2131_UNKNOWN(SLOT_DEFINE)

static CUresult
ctx_device(CUcontext handle, int *out_device)
{
	struct shim_context *ctx = handle == NULL ? shim_current :
						    shim_ctx_get(handle);

	if (out_device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*out_device = ctx->device;
	return CUDA_SUCCESS;
}

/* The object is opaque to callers; ours is the stream itself. */
static CUresult
stream_id(CUcontext handle, const struct shim_stream *stream, uint64_t *out_id)
{
	(void)handle;
	if (stream == NULL || out_id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* Different for every stream: cuBLAS orders its workspace by it. */
	*out_id = stream->id;
	return CUDA_SUCCESS;
}

static CUresult
stream_object(CUcontext handle, CUstream stream,
	      struct shim_stream **out_object, int per_thread)
{
	CUresult r = shim_enter_init(API_cuStreamGetId);
	struct shim_context *ctx;

	if (r != CUDA_SUCCESS)
		return r;
	if (out_object == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_ctx_find(handle, &ctx);
	if (r != CUDA_SUCCESS)
		return r;
	if (stream == NULL && per_thread)
		stream = CU_STREAM_PER_THREAD;
	return shim_stream_find(stream, ctx, out_object);
}

shim_slot *const shim_table_2131[93] = {
	[0] = SLOT_SIZE(shim_table_2131),
	[3] = (shim_slot *)ctx_device,
	[4] = (shim_slot *)shim_table_ctx_id,
	[39] = (shim_slot *)stream_id,
	[51] = (shim_slot *)stream_object,
	T2131_UNKNOWN(SLOT_INIT)
};

/* ---- 6E16 ---- */

#define T6E16_UNKNOWN(X) \
	X(T6E16, 1) X(T6E16, 2) X(T6E16, 3) X(T6E16, 4) X(T6E16, 5) \
	X(T6E16, 6) X(T6E16, 8) X(T6E16, 9) X(T6E16, 10) X(T6E16, 11) \
	X(T6E16, 12) X(T6E16, 13) X(T6E16, 14) X(T6E16, 15) X(T6E16, 16) \
	X(T6E16, 17) X(T6E16, 18) X(T6E16, 19) X(T6E16, 20) X(T6E16, 21) \
	X(T6E16, 22) X(T6E16, 23) X(T6E16, 24) X(T6E16, 25) X(T6E16, 26) \
	X(T6E16, 27) X(T6E16, 28) X(T6E16, 29) X(T6E16, 30) X(T6E16, 31) \
	X(T6E16, 32) X(T6E16, 33) X(T6E16, 34) X(T6E16, 35) X(T6E16, 36) \
	X(T6E16, 37) X(T6E16, 38) X(T6E16, 39) X(T6E16, 40) X(T6E16, 41) \
	X(T6E16, 42) X(T6E16, 43) X(T6E16, 44) X(T6E16, 45) X(T6E16, 46) \
	X(T6E16, 47) X(T6E16, 48) X(T6E16, 49) X(T6E16, 50) X(T6E16, 51) \
	X(T6E16, 52) X(T6E16, 53) X(T6E16, 54) X(T6E16, 55) X(T6E16, 56) \
	X(T6E16, 57) X(T6E16, 58) X(T6E16, 59) X(T6E16, 60) X(T6E16, 61) \
	X(T6E16, 62) X(T6E16, 63) X(T6E16, 64) X(T6E16, 65) X(T6E16, 66) \
	X(T6E16, 67) X(T6E16, 68) X(T6E16, 69) X(T6E16, 70) X(T6E16, 71) \
	X(T6E16, 72) X(T6E16, 73) X(T6E16, 74) X(T6E16, 75) X(T6E16, 76) \
	X(T6E16, 77) X(T6E16, 78) X(T6E16, 79) X(T6E16, 80) X(T6E16, 81) \
	X(T6E16, 82) X(T6E16, 83) X(T6E16, 84) X(T6E16, 85) X(T6E16, 86) \
	X(T6E16, 87) X(T6E16, 88) X(T6E16, 89) X(T6E16, 90) X(T6E16, 91) \
	X(T6E16, 92) X(T6E16, 94) X(T6E16, 95) X(T6E16, 96) X(T6E16, 97) \
	X(T6E16, 98)

T6E16_UNKNOWN(SLOT_DEFINE)

typedef int each_function(void *opaque, CUfunction function,
			  const char *name);

/* Returns how many there are, not a CUresult; what `each` returns does not
 * matter. */
static uint32_t
for_each_function(CUcontext ctx, CUmodule handle, each_function *each,
		  void *opaque)
{
	struct shim_module *module = shim_module_get(handle);
	struct shim_function *function;
	char **names;

	(void)ctx;
	if (module == NULL || each == NULL ||
	    shim_enter_init(API_cuModuleEnumerateFunctions) != CUDA_SUCCESS ||
	    shim_module_names(module, &names) != CUDA_SUCCESS)
		return 0;
	for (uint32_t i = 0; i < module->kernels; i++) {
		if (shim_module_function(module, names[i], NULL, &function) !=
		    CUDA_SUCCESS)
			return i;
		each(opaque, (CUfunction)(uintptr_t)
			     function->object.handle,
		     names[i]);
	}
	return module->kernels;
}

shim_slot *const shim_table_6e16[99] = {
	[0] = SLOT_SIZE(shim_table_6e16),
	[7] = (shim_slot *)for_each_function,
	T6E16_UNKNOWN(SLOT_INIT)
};

/* ---- 1734 ---- */

#define T1734_UNKNOWN(X) \
	X(T1734, 1) X(T1734, 2) X(T1734, 3) X(T1734, 5) X(T1734, 6) \
	X(T1734, 7) X(T1734, 8) X(T1734, 9) X(T1734, 10) X(T1734, 11) \
	X(T1734, 12) X(T1734, 14) X(T1734, 15) X(T1734, 16)

T1734_UNKNOWN(SLOT_DEFINE)

/* Two arrays with a byte for each pair of multiprocessors, as the driver
 * library gave them to the worker. They stay as long as the process. */
static CUresult
sm_pairs(const uint8_t **out_a, const uint8_t **out_b)
{
	CUresult r = shim_enter_context(API_cuCtxGetDevResource);
	const Mps__Device *info;
	size_t pairs;

	if (r != CUDA_SUCCESS)
		return r;
	info = shim_process.devices[shim_current->device].info;
	pairs = (size_t)(shim_device_attribute(shim_current->device,
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) + 1) / 2;
	/* Too short an array crashes cuBLASLt; without any it goes on. */
	if (out_a == NULL || out_b == NULL || info->sm_pairs_a.len < pairs ||
	    info->sm_pairs_b.len < pairs || pairs == 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	*out_a = info->sm_pairs_a.data;
	*out_b = info->sm_pairs_b.data;
	return CUDA_SUCCESS;
}

/* Gives the arrays back, natively to the heap. */
static CUresult
sm_pairs_done(void)
{
	return CUDA_SUCCESS;
}

shim_slot *const shim_table_1734[17] = {
	[0] = SLOT_SIZE(shim_table_1734),
	[4] = (shim_slot *)sm_pairs,
	[13] = (shim_slot *)sm_pairs_done,
	T1734_UNKNOWN(SLOT_INIT)
};
