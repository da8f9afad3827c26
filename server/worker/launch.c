/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: a kernel launch. The shim has checked what CUDA answers at
 * once; here only what could harm others is checked again.
 */
#include <string.h>

#include "proto/launch.h"
#include "server/worker/batch.h"
#include "server/worker/call.h"
#include "server/worker/launch_attrs.h"
#include "server/worker/module.h"
#include "server/worker/overlap.h"

/* Bytes of a message to a head; false when they are no head. */
static bool
read_head(const void *data, size_t size, size_t attr_bytes,
	  struct launch_head *out)
{
	if (!data || size != sizeof(*out))
		return false;
	memcpy(out, data, sizeof(*out));
	return out->version == LAUNCH_HEAD_VERSION &&
	       !(out->flags & ~LAUNCH_COOPERATIVE) && !out->zero &&
	       out->nattrs <= LAUNCH_ATTRS_MAX &&
	       attr_bytes == out->nattrs * sizeof(struct launch_attr);
}

static bool
owns(struct wkr_client *client, uint64_t address, uint64_t size)
{
	bool yes;

	pthread_mutex_lock(&client->lock);
	yes = wkr_ranges_cover(&client->ranges, address, size);
	pthread_mutex_unlock(&client->lock);
	return yes;
}

/* Events are the lane's: elsewhere only a question about occupancy has such
 * an attribute, and it means nothing there. */
static CUresult
translate_event(struct wkr_call *call, CUevent *event)
{
	struct wkr_event *e;

	if (!call->on_lane)
		return CUDA_ERROR_INVALID_VALUE;
	e = wkr_get(call->client, HANDLE_EVENT, (uint64_t)(uintptr_t)*event);
	if (!e || e->shared)
		return CUDA_ERROR_INVALID_HANDLE;
	*event = e->native;
	e->recorded = true;
	e->stream = 0;
	return CUDA_SUCCESS;
}

/* One attribute to the driver's form. What an old driver would not know is
 * an invalid value, never passed on. */
static CUresult
translate(struct wkr_call *call, const struct launch_attr *in,
	  CUlaunchAttribute *out)
{
	CUlaunchAttributeValue *v = &out->value;

	_Static_assert(sizeof(*v) == sizeof(in->value), "cuda.h");
	out->id = (CUlaunchAttributeID)in->id;
	memcpy(v, in->value, sizeof(*v));
	switch (in->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		if (v->accessPolicyWindow.num_bytes &&
		    !owns(call->client,
			  (uint64_t)(uintptr_t)v->accessPolicyWindow.base_ptr,
			  v->accessPolicyWindow.num_bytes))
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		return translate_event(call, &v->programmaticEvent.event);
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return translate_event(call, &v->launchCompletionEvent.event);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
wkr_launch_config(struct wkr_call *call, const void *head_bytes,
		  size_t head_size, const void *attrs, size_t attrs_size,
		  struct wkr_launch *out)
{
	const struct launch_head *head = &out->head;
	CUresult r = CUDA_SUCCESS;

	if (!read_head(head_bytes, head_size, attrs_size, &out->head))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < head->nattrs && r == CUDA_SUCCESS; i++) {
		struct launch_attr attr;

		memcpy(&attr, (const uint8_t *)attrs + i * sizeof(attr),
		       sizeof(attr));
		r = translate(call, &attr, &out->attrs[i]);
	}
	out->config = (CUlaunchConfig){
		.gridDimX = head->grid[0],
		.gridDimY = head->grid[1],
		.gridDimZ = head->grid[2],
		.blockDimX = head->block[0],
		.blockDimY = head->block[1],
		.blockDimZ = head->block[2],
		.sharedMemBytes = head->shared,
		.attrs = out->attrs,
		.numAttrs = head->nattrs,
	};
	if (head->flags & LAUNCH_COOPERATIVE) {
		CUlaunchAttribute *a = &out->attrs[out->config.numAttrs++];

		a->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
		a->value.cooperative = 1;
	}
	return r;
}

static CUresult
issue(struct wkr_call *call, struct wkr_launch *launch,
      struct wkr_function *function, struct wkr_stream *s,
      const struct data_bytes *params)
{
	size_t size = params->size;
	void *extra[] = {
		CU_LAUNCH_PARAM_BUFFER_POINTER,
		(void *)(uintptr_t)params->data,
		CU_LAUNCH_PARAM_BUFFER_SIZE,
		&size,
		CU_LAUNCH_PARAM_END,
	};
	struct wkr_bracket *bracket;
	CUresult r;

	if (wkr_batch_fits(call, launch, function, s, size)) {
		wkr_keep_begin(call, false);
		wkr_stream_end(call, s, true);
		wkr_batch_add(call, launch, function, params);
		return CUDA_SUCCESS;
	}
	r = wkr_stream_begin(call, s);
	if (r != CUDA_SUCCESS)
		return r;
	if (wkr_batch_begins(call, launch, function, s, size)) {
		wkr_stream_end(call, s, true);
		wkr_batch_add(call, launch, function, params);
		return CUDA_SUCCESS;
	}
	launch->config.hStream = s->native;
	bracket = wkr_overlap_before(s);
	r = wkr_ok(wkr.drv.cuLaunchKernelEx(&launch->config, function->native,
					    NULL, size ? extra : NULL));
	wkr_overlap_after(bracket, r == CUDA_SUCCESS);
	if (r != CUDA_SUCCESS)
		return r;
	wkr_stream_end(call, s, true);
	function->ran = true;
	wkr_count(&call->client->launches, 1);
	return CUDA_SUCCESS;
}

CUresult
wkr_launch(struct wkr_call *call, const struct data_launch *m)
{
	struct wkr_client *client = call->client;
	struct wkr_function *function;
	struct wkr_launch launch;
	struct wkr_stream *s;
	CUresult r;

	/* The size of the head is the wire's business, not an argument. */
	call->lying = m->head.size != sizeof(struct launch_head) ||
		      m->params.size > LAUNCH_PARAMS_MAX;
	if (call->lying)
		return CUDA_ERROR_INVALID_VALUE;
	r = wkr_launch_config(call, m->head.data, m->head.size, m->attrs.data,
			      m->attrs.size, &launch);
	if (r != CUDA_SUCCESS)
		return r;
	function = wkr_get(client, HANDLE_FUNCTION, launch.head.function);
	s = wkr_get(client, HANDLE_STREAM, launch.head.stream);
	if (!function || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_function_want(function);
	if (r == WKR_AGAIN)
		client->parked = "its code";
	else if (r != CUDA_SUCCESS)
		wkr_client_lose(client, "its code cannot be loaded again");
	if (r != CUDA_SUCCESS)
		return r;
	if (m->params.size != function->param_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (function->printer &&
	    !wkr_print_acquire(client, call->seq, function->printer)) {
		client->parked = "the right to print";
		return WKR_AGAIN;
	}
	if (!function->module->launched)
		wkr_journal_used(function->module);
	return issue(call, &launch, function, s, &m->params);
}
