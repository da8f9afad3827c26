/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device resources: asking for multiprocessors, splitting them, descriptors.
 */
#include "server/soft/soft_green.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 0x534d5253u

/* What a resource is, in the bytes that cuda.h keeps for the driver. */
struct inside {
	uint32_t magic;
	int32_t device;
	uint64_t split;                /* of one call; 0: not a part */
	const struct soft_desc *desc;  /* NULL: the device's */
	uint32_t first, count;         /* of desc's or of the device's */
};

struct rules {
	unsigned least, step;
};

_Static_assert(sizeof(struct inside) <=
	       sizeof(((CUdevResource *)0)->_internal_padding), "");

/* cuda.h has them architecture by architecture; an H200 answers 8 and 8. */
static struct rules
rules_of(const struct soft_device *device)
{
	if (device->major >= 9)
		return (struct rules){ 8, 8 };
	return device->major == 8 ? (struct rules){ 4, 2 } :
				    (struct rules){ 2, 2 };
}

static void
fill(CUdevResource *out, const struct inside *in, struct rules rules)
{
	memset(out, 0, sizeof(*out));
	out->type = CU_DEV_RESOURCE_TYPE_SM;
	memcpy(out->_internal_padding, in, sizeof(*in));
	out->sm.smCount = in->count;
	out->sm.minSmPartitionSize = rules.least;
	out->sm.smCoscheduledAlignment = rules.step;
}

/* False: no API made this resource. */
static bool
look(const CUdevResource *resource, struct inside *in)
{
	memcpy(in, resource->_internal_padding, sizeof(*in));
	return in->magic == MAGIC && soft_device_get(in->device) &&
	       (!in->desc || soft_handle_is(in->desc, SOFT_HANDLE_DESC)) &&
	       in->count && in->count == resource->sm.smCount;
}

void
soft_resource_fill(CUdevResource *out, const struct soft_device *device,
		   const struct soft_desc *desc)
{
	struct inside in = {
		.magic = MAGIC, .device = device->ordinal, .desc = desc,
		.count = desc ? desc->sms.count : (unsigned)device->sms,
	};

	fill(out, &in, rules_of(device));
}

CUresult
soft_resource_type_check(CUdevResourceType type)
{
	return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS :
	       CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

CUresult
cuDeviceGetDevResource(CUdevice dev, CUdevResource *out,
		       CUdevResourceType type)
{
	CUresult res = soft_enter();
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_resource_type_check(type);
	if (!res)
		soft_resource_fill(out, device, NULL);
	return res;
}

/* Groups of `rules` that [0, total) gives when each has to hold `least`. */
static unsigned
group_size(struct rules rules, unsigned least)
{
	unsigned size = least < rules.least ? rules.least : least;

	return (size + rules.step - 1) / rules.step * rules.step;
}

static void
part(CUdevResource *out, struct inside in, struct rules rules, unsigned first,
     unsigned count)
{
	in.first += first;
	in.count = count;
	fill(out, &in, rules);
}

CUresult
cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *groups,
			    const CUdevResource *input,
			    CUdevResource *remaining, unsigned int flags,
			    unsigned int least)
{
	const unsigned known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
		CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
	CUresult res = soft_enter();
	unsigned size, made;
	struct rules rules;
	struct inside in;

	if (res)
		return res;
	if (!groups || !input || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	if (input->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	if (!look(input, &in) || (result && !*groups))
		return CUDA_ERROR_INVALID_VALUE;
	/* A part is split again only as the resource of a green context. */
	if (in.split)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	rules = rules_of(soft_device_get(in.device));
	if (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING)
		rules = (struct rules){ 2, 2 };
	size = group_size(rules, least);
	made = in.count / size;
	if (!made)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (result && *groups < made)
		made = *groups;
	in.split = soft_new_id();
	for (unsigned i = 0; result && i < made; i++)
		part(&result[i], in, rules, i * size, size);
	if (remaining && made * size < in.count)
		part(remaining, in, rules, made * size,
		     in.count - made * size);
	else if (remaining)
		memset(remaining, 0, sizeof(*remaining));
	*groups = made;
	return CUDA_SUCCESS;
}

static void
desc_add(struct soft_desc *desc, const struct inside *in)
{
	for (unsigned i = in->first; i < in->first + in->count; i++) {
		uint16_t sm = in->desc ? in->desc->sms.number[i] : (uint16_t)i;
		unsigned at = 0;

		while (at < desc->sms.count && desc->sms.number[at] != sm)
			at++;
		if (at == desc->sms.count)
			desc->sms.number[desc->sms.count++] = sm;
	}
}

static int
by_number(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

/* The driver takes parts of several splits too, and a multiprocessor that is
 * in two of them (seen on an H200). */
static CUresult
desc_fill(struct soft_desc *desc, const CUdevResource *resources,
	  unsigned count)
{
	struct inside first, in;

	for (unsigned i = 0; i < count; i++) {
		if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
			return CUDA_ERROR_INVALID_RESOURCE_TYPE;
		if (!look(&resources[i], &in))
			return CUDA_ERROR_INVALID_VALUE;
		if (!i)
			first = in;
		if (in.device != first.device)
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		desc_add(desc, &in);
	}
	desc->sms.device = soft_device_get(first.device);
	qsort(desc->sms.number, desc->sms.count, sizeof(*desc->sms.number),
	      by_number);
	return CUDA_SUCCESS;
}

CUresult
cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources,
			  unsigned int count)
{
	CUresult res = soft_enter();
	struct soft_desc *desc;

	if (res)
		return res;
	if (!out || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	desc = calloc(1, sizeof(*desc));
	if (!desc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = desc_fill(desc, resources, count);
	if (!res && !soft_handle_add(desc, SOFT_HANDLE_DESC))
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res)
		free(desc);
	else
		*out = (CUdevResourceDesc)desc;
	return res;
}
