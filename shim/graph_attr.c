/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of kernel nodes. COOPERATIVE travels as a flag of the head, all
 * others as they would with a launch.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/graph.h"

static struct launch_attr *
find(const struct shim_kernel_work *k, uint32_t id)
{
	for (uint32_t i = 0; i < k->head.nattrs; i++) {
		if (k->attrs[i].id == id)
			return &k->attrs[i];
	}
	return NULL;
}

bool
shim_work_get_attr(const struct shim_kernel_work *k, CUkernelNodeAttrID id,
		   CUkernelNodeAttrValue *out)
{
	const struct launch_attr *attr = find(k, id);

	if ((int)id < 0 || id >= CU_LAUNCH_ATTRIBUTE_MAX)
		return false;
	memset(out, 0, sizeof(*out));
	if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		out->cooperative = !!(k->head.flags & LAUNCH_COOPERATIVE);
	else if (attr != NULL)
		memcpy(out, attr->value, sizeof(*out));
	return true;
}

/* What a kernel node may have; the rest belongs to launches and streams. */
static bool
is_node_attr(CUkernelNodeAttrID id)
{
	switch (id) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return true;
	default:
		return false;
	}
}

CUresult
shim_work_set_attr(struct shim_kernel_work *k, CUkernelNodeAttrID id,
		   const CUkernelNodeAttrValue *value)
{
	struct launch_attr *attr = find(k, id), *grown;
	uint32_t n = k->head.nattrs;

	if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
		k->head.flags &= (uint16_t)~LAUNCH_COOPERATIVE;
		if (value->cooperative)
			k->head.flags |= LAUNCH_COOPERATIVE;
		return CUDA_SUCCESS;
	}
	/* A node that the device changes would escape us. */
	if (id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_node_attr(id))
		return CUDA_ERROR_INVALID_VALUE;
	if (attr == NULL) {
		if (n == LAUNCH_ATTRS_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		grown = realloc(k->attrs, (n + 1) * sizeof(*grown));
		if (grown == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		k->attrs = grown;
		attr = &grown[n];
		memset(attr, 0, sizeof(*attr));
		attr->id = id;
		k->head.nattrs = n + 1;
	}
	memcpy(attr->value, value, sizeof(*value));
	return CUDA_SUCCESS;
}

CUresult
shim_work_copy_attrs(struct shim_kernel_work *to,
		     const struct shim_kernel_work *from)
{
	size_t size = from->head.nattrs * sizeof(*from->attrs);
	struct launch_attr *attrs = malloc(size + 1);

	if (attrs == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(attrs, from->attrs, size);
	free(to->attrs);
	to->attrs = attrs;
	to->head.nattrs = from->head.nattrs;
	to->head.flags = from->head.flags;
	return CUDA_SUCCESS;
}

void
shim_work_keep_attrs(struct shim_kernel_work *old, struct shim_kernel_work *k)
{
	struct launch_attr *attrs = k->attrs;

	k->attrs = old->attrs;
	k->head.nattrs = old->head.nattrs;
	k->head.flags = old->head.flags;
	old->attrs = attrs;
	old->head.nattrs = 0;
}
