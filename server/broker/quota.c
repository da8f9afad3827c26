/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/quota.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/err.h"

void
brk_quotas_init(struct brk_quotas *quotas)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	struct rlimit files = { .rlim_cur = 1024 };

	getrlimit(RLIMIT_NOFILE, &files);
	LIST_INIT(&quotas->tenants);
	quotas->limits[QUOTA_DEVICE] = UINT64_MAX;
	quotas->limits[QUOTA_HOST] = pages > 0 && page > 0 ?
		(uint64_t)pages * (uint64_t)page / 2 : UINT64_MAX;
	quotas->limits[QUOTA_ADDRESS] = UINT64_MAX;
	quotas->limits[QUOTA_DESCRIPTORS] = files.rlim_cur / 4;
}

int
brk_quota_parse(const char *text, uint64_t *out_bytes)
{
	unsigned long long value;
	unsigned int shift = 0;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	switch (*end) {
	case 'K': case 'k': shift = 10; end++; break;
	case 'M': case 'm': shift = 20; end++; break;
	case 'G': case 'g': shift = 30; end++; break;
	default: break;
	}
	if (*end || value > UINT64_MAX >> shift)
		return -EINVAL;
	*out_bytes = (uint64_t)value << shift;
	return 0;
}

int
brk_tenant_get(struct brk_quotas *quotas, const char *job,
	       struct brk_tenant **out_tenant)
{
	struct brk_tenant *tenant;

	if (*job) {
		LIST_FOREACH(tenant, &quotas->tenants, link) {
			if (!strcmp(tenant->job, job)) {
				tenant->refs++;
				*out_tenant = tenant;
				return 0;
			}
		}
	}
	tenant = calloc(1, sizeof(*tenant));
	if (!tenant)
		return err_origin(-ENOMEM);
	tenant->refs = 1;
	tenant->own_limit = UINT64_MAX;
	snprintf(tenant->job, sizeof(tenant->job), "%s", job);
	LIST_INSERT_HEAD(&quotas->tenants, tenant, link);
	*out_tenant = tenant;
	return 0;
}

struct brk_tenant *
brk_tenant_ref(struct brk_tenant *tenant)
{
	tenant->refs++;
	return tenant;
}

void
brk_tenant_put(struct brk_tenant *tenant)
{
	if (!tenant || --tenant->refs)
		return;
	for (int i = 0; i < QUOTA_COUNT; i++)
		assert(!tenant->used[i]);
	LIST_REMOVE(tenant, link);
	free(tenant);
}

void
brk_tenant_wish(struct brk_tenant *tenant, uint64_t device_limit)
{
	if (device_limit && device_limit < tenant->own_limit)
		tenant->own_limit = device_limit;
}

uint64_t
brk_tenant_limit(const struct brk_quotas *quotas,
		 const struct brk_tenant *tenant, enum brk_quota what)
{
	uint64_t limit = quotas->limits[what];

	return what == QUOTA_DEVICE && tenant->own_limit < limit ?
		tenant->own_limit : limit;
}

int
brk_charge(const struct brk_quotas *quotas, struct brk_tenant *tenant,
	   enum brk_quota what, uint64_t amount)
{
	uint64_t limit = brk_tenant_limit(quotas, tenant, what);
	uint64_t used = tenant->used[what];

	if (used > limit || amount > limit - used)
		return QUOTA_E_LIMIT;
	tenant->used[what] += amount;
	return 0;
}

void
brk_charge_anyway(struct brk_tenant *tenant, enum brk_quota what,
		  uint64_t amount)
{
	tenant->used[what] += amount;
}

void
brk_discharge(struct brk_tenant *tenant, enum brk_quota what, uint64_t amount)
{
	assert(tenant->used[what] >= amount);
	tenant->used[what] -= amount;
}
