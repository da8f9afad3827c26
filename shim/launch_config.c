/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launch attributes, one by one: an id that is not listed here is an
 * invalid value, as to an old driver. Settings of the function that the
 * worker's shared CUfunction does not have are sent along as attributes.
 */
#include "shim/launch.h"

#include <string.h>

#include "proto/log.h"
#include "shim/device.h"
#include "shim/event.h"
#include "shim/function.h"
#include "shim/module.h"
#include "shim/range.h"

static CUresult
add(struct shim_launch *launch, CUlaunchAttributeID id, const void *value,
    size_t size)
{
	struct launch_attr *attr;

	if (launch->head.nattrs == LAUNCH_ATTRS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	attr = &launch->attrs[launch->head.nattrs++];
	memset(attr, 0, sizeof(*attr));
	attr->id = id;
	memcpy(attr->value, value, size);
	return CUDA_SUCCESS;
}

static CUresult
add_whole(struct shim_launch *launch, const CUlaunchAttribute *in)
{
	_Static_assert(sizeof(in->value) ==
		       sizeof(((struct launch_attr *)0)->value), "cuda.h");
	return add(launch, in->id, &in->value, sizeof(in->value));
}

/* The worker knows the event by the same handle. */
static CUresult
add_event(struct shim_launch *launch, const CUlaunchAttribute *in,
	  CUevent handle, int flags)
{
	struct shim_event *event =
		shim_object_get(HANDLE_EVENT, (uintptr_t)handle);

	if (event == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags != CU_EVENT_RECORD_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(event->flags & CU_EVENT_DISABLE_TIMING) ||
	    event->flags & CU_EVENT_INTERPROCESS)
		return CUDA_ERROR_NOT_SUPPORTED;
	return add_whole(launch, in);
}

static void
mark_event(CUevent handle)
{
	struct shim_event *event =
		shim_object_get(HANDLE_EVENT, (uintptr_t)handle);

	if (event != NULL)
		shim_event_recorded(event);
}

void
shim_launch_events(const struct shim_launch *launch)
{
	for (uint32_t i = 0; i < launch->head.nattrs; i++) {
		CUlaunchAttributeValue value;

		memcpy(&value, launch->attrs[i].value, sizeof(value));
		if (launch->attrs[i].id ==
		    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
			mark_event(value.programmaticEvent.event);
		else if (launch->attrs[i].id ==
			 CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
			mark_event(value.launchCompletionEvent.event);
	}
}

static CUresult
add_cluster(struct shim_launch *launch, const CUlaunchAttribute *in)
{
	launch->cluster[0] = in->value.clusterDim.x;
	launch->cluster[1] = in->value.clusterDim.y;
	launch->cluster[2] = in->value.clusterDim.z;
	/* Three zeros are no cluster. */
	if ((launch->cluster[0] | launch->cluster[1] | launch->cluster[2]) == 0)
		return CUDA_SUCCESS;
	return add_whole(launch, in);
}

/* Values that the driver refuses at the launch; those that the worker's driver
 * refused, the program would hear of too late. */
static CUresult
check_window(const CUaccessPolicyWindow *w)
{
	struct shim_range range;

	if (w->hitProp > CU_ACCESS_PROPERTY_PERSISTING ||
	    w->missProp > CU_ACCESS_PROPERTY_STREAMING ||
	    !(w->hitRatio >= 0 && w->hitRatio <= 1) ||
	    (w->base_ptr != NULL &&
	     shim_range_find((uintptr_t)w->base_ptr, &range)))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult
shim_launch_value(int device, CUlaunchAttributeID id,
		  const CUlaunchAttributeValue *v)
{
	unsigned int domains = (unsigned int)shim_device_attribute(
		device, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
	bool good = true;

	switch ((int)id) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		return check_window(&v->accessPolicyWindow);
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		good = v->clusterSchedulingPolicyPreference <=
		       CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
		break;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		domains = domains > 0 ? domains : 1;
		good = v->memSyncDomainMap.default_ < domains &&
		       v->memSyncDomainMap.remote < domains;
		break;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		good = v->memSyncDomain <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
		break;
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		good = v->nvlinkUtilCentricScheduling <= 1;
		break;
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: {
		const unsigned int d[] = { v->preferredClusterDim.x,
					   v->preferredClusterDim.y,
					   v->preferredClusterDim.z };

		for (unsigned i = 0; i < 3; i++)
			if ((d[i] == 0) != (d[0] == 0) || d[i] > UINT16_MAX)
				return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		break;
	}
	}
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
add_checked(struct shim_launch *launch, const CUlaunchAttribute *in)
{
	CUresult r = shim_launch_value(launch->function->module->device,
				       in->id, &in->value);

	return r != CUDA_SUCCESS ? r : add_whole(launch, in);
}

static CUresult
add_attribute(struct shim_launch *launch, const CUlaunchAttribute *in)
{
	switch (in->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		if (in->value.cooperative)
			launch->head.flags |= LAUNCH_COOPERATIVE;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		return add_cluster(launch, in);
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		return add_event(launch, in, in->value.programmaticEvent.event,
				 in->value.programmaticEvent.flags);
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return add_event(launch, in,
				 in->value.launchCompletionEvent.event,
				 in->value.launchCompletionEvent.flags);
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		/* No default here: without the attribute it is that. */
		if (in->value.sharedMemCarveout >
		    CU_SHAREDMEM_CARVEOUT_MAX_SHARED)
			return CUDA_ERROR_INVALID_VALUE;
		return add_whole(launch, in);
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		/* In graphs only. */
		return CUDA_ERROR_NOT_SUPPORTED;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return add_checked(launch, in);
	default:
		/* A stream's synchronisation policy is none of a launch. */
		log_once(LOG_INFO, "launch attribute %d is refused",
			 (int)in->id);
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static bool
has(const struct shim_launch *launch, CUlaunchAttributeID id)
{
	for (uint32_t i = 0; i < launch->head.nattrs; i++) {
		if (launch->attrs[i].id == id)
			return true;
	}
	return false;
}

CUresult
shim_launch_add(struct shim_launch *launch, CUlaunchAttributeID id,
		const void *value, size_t size)
{
	return has(launch, id) ? CUDA_SUCCESS : add(launch, id, value, size);
}

static CUresult
add_setting(struct shim_launch *launch, CUlaunchAttributeID id, uint32_t value)
{
	return has(launch, id) ? CUDA_SUCCESS :
				 add(launch, id, &value, sizeof(value));
}

static CUresult
add_settings(struct shim_launch *launch)
{
	const struct shim_settings *settings = launch->function->settings;
	CUresult r = CUDA_SUCCESS;

	if (settings->carveout >= 0)
		r = add_setting(launch,
			CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
			(uint32_t)settings->carveout);
	if (r == CUDA_SUCCESS && settings->cluster[0] > 0 &&
	    !has(launch, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)) {
		for (unsigned i = 0; i < 3; i++)
			launch->cluster[i] = (unsigned)settings->cluster[i];
		r = add(launch, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
			launch->cluster, sizeof(launch->cluster));
	}
	if (r == CUDA_SUCCESS && launch->cluster[0] > 0 &&
	    settings->policy != CU_CLUSTER_SCHEDULING_POLICY_DEFAULT)
		r = add_setting(launch,
		  CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
		  (uint32_t)settings->policy);
	return r;
}

CUresult
shim_launch_config(struct shim_launch *launch, const CUlaunchConfig *config)
{
	CUresult r = CUDA_SUCCESS;

	launch->head = (struct launch_head){
		.version = LAUNCH_HEAD_VERSION,
		.grid = { config->gridDimX, config->gridDimY,
			  config->gridDimZ },
		.block = { config->blockDimX, config->blockDimY,
			   config->blockDimZ },
		.shared = config->sharedMemBytes,
		.function = launch->function->object.handle,
	};
	memset(launch->cluster, 0, sizeof(launch->cluster));
	if (config->numAttrs > 0 && config->attrs == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < config->numAttrs && r == CUDA_SUCCESS; i++)
		r = add_attribute(launch, &config->attrs[i]);
	return r != CUDA_SUCCESS ? r : add_settings(launch);
}

CUresult
shim_launch_cluster(const struct shim_launch *launch, unsigned int *out_blocks)
{
	const struct shim_settings *settings = launch->function->settings;
	const unsigned int *cluster = launch->cluster;
	uint64_t blocks = 1;

	*out_blocks = 1;
	if ((cluster[0] | cluster[1] | cluster[2]) == 0)
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < 3; i++) {
		if (cluster[i] == 0 || cluster[i] > UINT16_MAX ||
		    launch->head.grid[i] % cluster[i] != 0)
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		blocks *= cluster[i];
	}
	if (blocks > PORTABLE_CLUSTER && !settings->non_portable)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	*out_blocks = blocks > UINT32_MAX ? UINT32_MAX : (unsigned)blocks;
	return CUDA_SUCCESS;
}
