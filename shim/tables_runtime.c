/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Export tables that every copy of NVIDIA's runtime library asks for at its
 * start: CUDART, HOOKS, TLS, CHECKS, INTEG. The addresses of CUDART and INTEG
 * and of INTEG's function are part of the integrity answer, so these are
 * static objects and never copied.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/enter.h"
#include "shim/integrity.h"
#include "shim/slots.h"
#include "shim_impl.h"

/* ---- CUDART ---- */

#define CUDART_UNKNOWN(X) \
	X(CUDART, 3) X(CUDART, 4) X(CUDART, 5) X(CUDART, 9) X(CUDART, 11)

CUDART_UNKNOWN(SLOT_DEFINE)

static CUresult
cudart_load(CUmodule *out, const void *image)
{
	CUresult r = shim_enter_context(API_cuModuleLoadData);

	return r != CUDA_SUCCESS ? r :
	       shim_answer(API_cuModuleLoadData,
			   shim_cuModuleLoadData(out, image));
}

/* The same with the image first and three more arguments. */
static CUresult
cudart_load_image(const void *image, CUmodule *out)
{
	return cudart_load(out, image);
}

/* How runtimes before 12 load a fatbin. Three more arguments are zero in
 * all that was seen of them; what else they may mean is not known. */
static CUresult
cudart_load_wrapper(CUmodule *out, const void *wrapper, const void *a,
		    const void *b, uint32_t c)
{
	static _Atomic int said;

	if (a != NULL || b != NULL || c != 0)
		return shim_slot_unknown("CUDART[6] with arguments", &said,
					 __builtin_return_address(0));
	return cudart_load(out, wrapper);
}

/* And how they say that a fatbin is going away: its module does not need it,
 * we have a copy. */
static void
cudart_unregister(const void *wrapper)
{
	(void)wrapper;
}

/* The handle of a primary context, which stays as inactive as it is. */
static CUresult
cudart_primary(CUcontext *out, CUdevice device)
{
	CUresult r = shim_enter_init(API_cuDevicePrimaryCtxRetain);
	struct shim_context *ctx;

	if (r != CUDA_SUCCESS)
		return r;
	if (out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	ctx = shim_primary(device);
	if (ctx == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUcontext)(uintptr_t)ctx->handle;
	return CUDA_SUCCESS;
}

/* Load the compilers ahead of their use: ours are in another process. */
static CUresult
cudart_preload(void)
{
	return CUDA_SUCCESS;
}

shim_slot *const shim_table_cudart[13] = {
	[0] = SLOT_SIZE(shim_table_cudart),
	[1] = (shim_slot *)cudart_load,
	[2] = (shim_slot *)cudart_primary,
	[6] = (shim_slot *)cudart_load_wrapper,
	[7] = (shim_slot *)cudart_unregister,
	[8] = (shim_slot *)cudart_load_image,
	[12] = (shim_slot *)cudart_preload,
	CUDART_UNKNOWN(SLOT_INIT)
};

/* ---- HOOKS ---- */

/* Switches that the runtime reads before each of its functions, indexed by
 * CUPTI callback and by event. Counted in entries: a runtime that finds fewer
 * reads past the end. They stay zero for the life of the process. */
static uint32_t hook_callbacks[1024], hook_events[14];

static void
hooks_callbacks(void **buffer, size_t *count)
{
	*buffer = hook_callbacks;
	*count = sizeof(hook_callbacks) / sizeof(hook_callbacks[0]);
}

static void
hooks_events(void **buffer, size_t *count)
{
	*buffer = hook_events;
	*count = sizeof(hook_events) / sizeof(hook_events[0]);
}

/* What would be delivered if a switch were on. */
static CUresult
hooks_deliver(void)
{
	return CUDA_SUCCESS;
}

shim_slot *const shim_table_hooks[7] = {
	SLOT_SIZE(shim_table_hooks),
	(shim_slot *)hooks_deliver,
	(shim_slot *)hooks_callbacks,
	(shim_slot *)hooks_deliver,
	(shim_slot *)shim_table_ctx_id,
	(shim_slot *)hooks_deliver,
	(shim_slot *)hooks_events,
};

/* ---- TLS ---- */

static CUresult
tls_first(void)
{
	return CUDA_SUCCESS;
}

static CUresult
tls_current(CUcontext *out)
{
	CUresult r = shim_enter_init(API_cuCtxGetCurrent);

	return r != CUDA_SUCCESS ? r : shim_cuCtxGetCurrent(out);
}

shim_slot *const shim_table_tls[3] = {
	SLOT_SIZE(shim_table_tls),
	(shim_slot *)tls_first,
	(shim_slot *)tls_current,
};

/* ---- CHECKS ---- */

#define CHECKS_UNKNOWN(X) \
	X(CHECKS, 1) X(CHECKS, 4) X(CHECKS, 5) X(CHECKS, 6) X(CHECKS, 7) \
	X(CHECKS, 8) X(CHECKS, 9) X(CHECKS, 10) X(CHECKS, 11) \
	X(CHECKS, 12) X(CHECKS, 13) X(CHECKS, 14)

CHECKS_UNKNOWN(SLOT_DEFINE)

/* No context of ours wraps another one. `other` is not touched: callers
 * that get it zeroed have been seen to fail. */
static CUresult
checks_wraps(CUcontext ctx, uint32_t *flag, const void **other)
{
	(void)ctx;
	(void)other;
	*flag = 0;
	return CUDA_SUCCESS;
}

static uint32_t
checks_state(void)
{
	return 0;
}

shim_slot *const shim_table_checks[15] = {
	[0] = SLOT_SIZE(shim_table_checks),
	[2] = (shim_slot *)checks_wraps,
	[3] = (shim_slot *)checks_state,
	CHECKS_UNKNOWN(SLOT_INIT)
};

/* ---- INTEG ---- */

static void
describe(CUdevice device, struct integrity_device *out)
{
	CUuuid uuid;

	shim_cuDeviceGetUuid(&uuid, device);
	memcpy(out->uuid, uuid.bytes, sizeof(out->uuid));
	out->pci_domain = shim_device_attribute(device,
		CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
	out->pci_bus = shim_device_attribute(device,
		CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
	out->pci_device = shim_device_attribute(device,
		CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
}

static CUresult
integ_answer(uint32_t version, uint64_t unix_seconds, uint8_t *out)
{
	struct integrity_device devices[SHIM_MAX_DEVICES];
	struct integrity_input input = {
		.driver_version = (uint32_t)shim_driver_version(),
		.version = version,
		.pid = (uint32_t)getpid(),
		.thread = (uint32_t)(uintptr_t)pthread_self(),
		.cudart_table = (uintptr_t)shim_table_cudart,
		.integrity_table = (uintptr_t)shim_table_integ,
		.function = (uintptr_t)shim_table_integ[1],
		.unix_seconds = unix_seconds,
	};
	CUresult r = shim_enter_init(API_cuGetExportTable);

	if (r != CUDA_SUCCESS)
		return r;
	if (out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < shim_process.ndevices; i++)
		describe(i, &devices[i]);
	integrity_answer(&input, devices, (size_t)shim_process.ndevices, out);
	return CUDA_SUCCESS;
}

static CUresult
integ_second(int value)
{
	(void)value;
	return CUDA_SUCCESS;
}

shim_slot *const shim_table_integ[3] = {
	SLOT_SIZE(shim_table_integ),
	(shim_slot *)integ_answer,
	(shim_slot *)integ_second,
};
