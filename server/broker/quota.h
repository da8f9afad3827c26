/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant may hold: charges against limits.
 * Used by whoever allocates on behalf of a client.
 *
 * A tenant is a client process, or all processes of one named job. Every
 * charge is made before the allocation and given back by who made it.
 */
#ifndef BROKER_QUOTA_H
#define BROKER_QUOTA_H

#include <stdint.h>
#include <sys/queue.h>

enum brk_quota {
	QUOTA_DEVICE,           /* bytes of device memory, chunks counted */
	QUOTA_HOST,             /* bytes of shared memory: pinned, rings */
	QUOTA_ADDRESS,          /* bytes of address space in pieces */
	QUOTA_DESCRIPTORS,      /* held here for the tenant */
	QUOTA_COUNT
};

enum {
	QUOTA_E_LIMIT = 1,
};

#define BRK_JOB_SIZE 64

struct brk_tenant {
	LIST_ENTRY(brk_tenant) link;
	unsigned int refs;
	char job[BRK_JOB_SIZE];         /* "" : one process */
	uint64_t used[QUOTA_COUNT];
	uint64_t own_limit;             /* of device memory, of its own wish */
};

struct brk_quotas {
	LIST_HEAD(, brk_tenant) tenants;
	uint64_t limits[QUOTA_COUNT];   /* per tenant */
};

/* Defaults: device memory is limited by the device, host memory to half of
 * the machine's, descriptors to a quarter of ours. */
void brk_quotas_init(struct brk_quotas *quotas);
/* "40G", "512M", "4096": 0 or -EINVAL. */
int brk_quota_parse(const char *text, uint64_t *out_bytes);

int brk_tenant_get(struct brk_quotas *quotas, const char *job,
		   struct brk_tenant **out_tenant);
struct brk_tenant *brk_tenant_ref(struct brk_tenant *tenant);
void brk_tenant_put(struct brk_tenant *tenant);

/* It wants no more device memory than that; 0: no wish. The smallest wish of
 * a job counts. */
void brk_tenant_wish(struct brk_tenant *tenant, uint64_t device_limit);
/* What it may have in all. */
uint64_t brk_tenant_limit(const struct brk_quotas *quotas,
			  const struct brk_tenant *tenant, enum brk_quota what);

/* 0 or QUOTA_E_LIMIT: then nothing was charged. */
int brk_charge(const struct brk_quotas *quotas, struct brk_tenant *tenant,
	       enum brk_quota what, uint64_t amount);
/* What it holds already is this tenant's from now on, above its limit too. */
void brk_charge_anyway(struct brk_tenant *tenant, enum brk_quota what,
		       uint64_t amount);
void brk_discharge(struct brk_tenant *tenant, enum brk_quota what,
		   uint64_t amount);

#endif
