/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of streams: kept here, and given to each launch as if that had
 * them itself. A stream in the worker has none.
 */
#include <pthread.h>
#include <string.h>

#include "shim/capture.h"
#include "shim/ctx.h"
#include "shim/launch.h"
#include "shim/process.h"
#include "shim/stream.h"
#include "shim_impl.h"

/* What the driver tells of a stream that has been given none (measured). */
#define NO_POLICY (-1)

/* Guards the values that are no words. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool
is_set(const struct shim_stream *stream, CUlaunchAttributeID id)
{
	return stream->attrs.set & 1u << id;
}

static CUresult
add_locked(const struct shim_stream *stream, struct shim_launch *launch)
{
	const struct shim_stream_attrs *a = &stream->attrs;
	int priority = stream->priority, domain = a->domain;
	CUresult r = CUDA_SUCCESS;

	if (is_set(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW))
		r = shim_launch_add(launch,
				    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
				    &a->window, sizeof(a->window));
	if (r == CUDA_SUCCESS &&
	    is_set(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP))
		r = shim_launch_add(launch,
				    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
				    &a->map, sizeof(a->map));
	if (r == CUDA_SUCCESS &&
	    is_set(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN))
		r = shim_launch_add(launch,
				    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
				    &domain, sizeof(domain));
	if (r == CUDA_SUCCESS && is_set(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY))
		r = shim_launch_add(launch, CU_LAUNCH_ATTRIBUTE_PRIORITY,
				    &priority, sizeof(priority));
	return r;
}

CUresult
shim_stream_attrs_add(struct shim_stream *stream, struct shim_launch *launch)
{
	CUresult r;

	pthread_mutex_lock(&lock);
	r = add_locked(stream, launch);
	pthread_mutex_unlock(&lock);
	return r;
}

/* ---- entry points ---- */

static CUresult
find(CUstream handle, struct shim_stream **out)
{
	CUresult r = shim_stream_find(handle, shim_current, out);

	return r == CUDA_SUCCESS ? shim_capture_legacy(*out) : r;
}

static CUresult
get_locked(const struct shim_stream *stream, CUstreamAttrID attr,
	   CUstreamAttrValue *out)
{
	const struct shim_stream_attrs *a = &stream->attrs;

	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		out->accessPolicyWindow = a->window.accessPolicyWindow;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		out->syncPolicy = is_set(stream, attr) ?
			(CUsynchronizationPolicy)a->policy :
			(CUsynchronizationPolicy)NO_POLICY;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		out->priority = stream->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		/* As cuda.h has it: the remote domain is one of its own. */
		if (is_set(stream, attr))
			out->memSyncDomainMap = a->map.memSyncDomainMap;
		else
			out->memSyncDomainMap = (CUlaunchMemSyncDomainMap){
				.default_ = 0, .remote = 1,
			};
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		out->memSyncDomain = (CUlaunchMemSyncDomain)a->domain;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
shim_cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
			  CUstreamAttrValue *value)
{
	struct shim_stream *stream;
	CUresult r = find(hStream, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	r = get_locked(stream, attr, value);
	pthread_mutex_unlock(&lock);
	return r;
}

static CUresult
check(const struct shim_stream *stream, CUstreamAttrID attr,
      const CUstreamAttrValue *v)
{
	int device = stream->object.ctx->device;
	bool good;

	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		good = v->syncPolicy >= CU_SYNC_POLICY_AUTO &&
		       v->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC;
		break;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		good = true;
		break;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		return shim_launch_value(device, attr, v);
	default:
		good = false;
		break;
	}
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void
set_locked(struct shim_stream *stream, CUstreamAttrID attr,
	   const CUstreamAttrValue *v)
{
	struct shim_stream_attrs *a = &stream->attrs;

	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		memset(&a->window, 0, sizeof(a->window));
		a->window.accessPolicyWindow = v->accessPolicyWindow;
		break;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		a->policy = (int)v->syncPolicy;
		break;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		stream->priority = shim_stream_clamp(stream->object.ctx,
						     v->priority);
		break;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		memset(&a->map, 0, sizeof(a->map));
		a->map.memSyncDomainMap = v->memSyncDomainMap;
		break;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		a->domain = (int)v->memSyncDomain;
		break;
	}
	a->set |= 1u << attr;
}

CUresult
shim_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
			  const CUstreamAttrValue *param)
{
	struct shim_stream *stream;
	CUresult r = find(hStream, &stream);

	if (r == CUDA_SUCCESS)
		r = param == NULL ? CUDA_ERROR_INVALID_VALUE :
				    check(stream, attr, param);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	set_locked(stream, attr, param);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult
shim_cuStreamCopyAttributes(CUstream dstStream, CUstream srcStream)
{
	struct shim_stream *to, *from;
	CUresult r = find(dstStream, &to);

	if (r == CUDA_SUCCESS)
		r = find(srcStream, &from);
	if (r != CUDA_SUCCESS)
		return r;
	if (to->object.ctx != from->object.ctx)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	to->attrs.window = from->attrs.window;
	to->attrs.map = from->attrs.map;
	to->attrs.policy = from->attrs.policy;
	to->attrs.domain = from->attrs.domain;
	to->priority = from->priority;
	to->attrs.set = from->attrs.set |
			1u << CU_LAUNCH_ATTRIBUTE_PRIORITY;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
