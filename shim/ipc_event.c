/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of other processes. The worker has them; the keys to open them are
 * its own too, as nothing of an event is left when the worker ends.
 */
#include <string.h>

#include "proto/ipc.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/event.h"
#include "shim/ipc.h"
#include "shim/process.h"
#include "shim_calls.h"
#include "shim_impl.h"

CUresult
shim_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	struct shim_event *e = shim_object_get(HANDLE_EVENT, (uintptr_t)event);
	struct ipc_handle handle = {
		.magic = IPC_MAGIC, .kind = IPC_EVENT,
		.client = shim_process.hello->client,
	};
	CUresult r;

	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!e || !(e->flags & CU_EVENT_INTERPROCESS) || e->imported)
		return CUDA_ERROR_INVALID_HANDLE;
	handle.device = (uint32_t)shim_process.devices[
		e->object.ctx->device].real;
	r = call_mpsEventExport(e->object.ctx->chan, e->object.handle,
				handle.key, IPC_KEY);
	if (r == CUDA_SUCCESS)
		memcpy(pHandle, &handle, sizeof(handle));
	return r;
}

CUresult
shim_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct shim_context *ctx = shim_current;
	struct ipc_handle ours;

	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&ours, &handle, sizeof(ours));
	if (!shim_ipc_is(&ours, IPC_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (ours.client == shim_process.hello->client)
		return CUDA_ERROR_INVALID_CONTEXT;
	if ((int)ours.device != shim_process.devices[ctx->device].real)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	return shim_event_import(ours.key, phEvent);
}
