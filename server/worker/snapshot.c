/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients are told of the devices, asked once at start so that no
 * client ever has to ask: the first message to the broker.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wkr_dispatch.h"

#include "server/worker/worker.h"

#define DEVICES_MAX 64
#define LIMITS_MAX 16
#define P2P_MAX (DEVICES_MAX * 4)

/* All that one Device message points at. */
struct device_room {
	Mps__Device m;
	char name[256], pci[32];
	CUuuid uuid, uuid_v2;
	Mps__Attribute attributes[CU_DEVICE_ATTRIBUTE_MAX];
	Mps__Attribute *attribute_list[CU_DEVICE_ATTRIBUTE_MAX];
	Mps__Attribute limits[LIMITS_MAX];
	Mps__Attribute *limit_list[LIMITS_MAX];
	Mps__Attribute p2p[P2P_MAX];
	Mps__Attribute *p2p_list[P2P_MAX];
};

static void
add(Mps__Attribute *room, Mps__Attribute **list, size_t *count, int id,
    int value)
{
	Mps__Attribute *a = &room[*count];

	mps__attribute__init(a);
	a->id = id;
	a->value = value;
	list[(*count)++] = a;
}

static void
ask_attributes(struct device_room *d, CUdevice device)
{
	d->m.attributes = d->attribute_list;
	for (int id = 1; id < CU_DEVICE_ATTRIBUTE_MAX; id++) {
		int value;

		/* Numbers that this driver does not know are left out. */
		if (wkr.drv.cuDeviceGetAttribute(&value, (CUdevice_attribute)id,
						 device) == CUDA_SUCCESS)
			add(d->attributes, d->attribute_list,
			    &d->m.n_attributes, id, value);
	}
}

/* Need a context; devices of one worker's host answer alike. */
static void
ask_context(struct device_room *d)
{
	int least = 0, greatest = 0;

	wkr.drv.cuCtxGetStreamPriorityRange(&least, &greatest);
	d->m.least_priority = least;
	d->m.greatest_priority = greatest;
	d->m.limits = d->limit_list;
	for (int id = 0; id < CU_LIMIT_MAX && id < LIMITS_MAX; id++) {
		size_t value;

		if (wkr.drv.cuCtxGetLimit(&value, (CUlimit)id) == CUDA_SUCCESS)
			add(d->limits, d->limit_list, &d->m.n_limits, id,
			    value > INT32_MAX ? INT32_MAX : (int)value);
	}
}

static void
ask_peers(struct device_room *d, CUdevice device, int count)
{
	static const CUdevice_P2PAttribute asked[] = {
		CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
		CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
		CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
		CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED,
	};

	d->m.p2p = d->p2p_list;
	for (int peer = 0; peer < count; peer++) {
		CUdevice other;

		if (wkr.drv.cuDeviceGet(&other, peer) != CUDA_SUCCESS ||
		    other == device)
			continue;
		for (unsigned i = 0; i < sizeof(asked) / sizeof(asked[0]);
		     i++) {
			int value;

			if (wkr.drv.cuDeviceGetP2PAttribute(&value, asked[i],
							    device, other) ==
			    CUDA_SUCCESS)
				add(d->p2p, d->p2p_list, &d->m.n_p2p,
				    (int)asked[i] * 64 + peer, value);
		}
	}
}

/* Table 1734dc26, slot 4: two arrays of a byte for each pair of SMs that
 * cuBLASLt reads on sm_90. They are the driver's and stay there. */
static void
ask_sm_pairs(struct device_room *d)
{
	static const uint8_t id[16] = {
		0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45,
		0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca,
	};
	CUresult (*slot4)(uint8_t **, uint8_t **);
	uint8_t *a = NULL, *b = NULL;
	const void *table = NULL;
	int sms = 0;
	CUuuid uuid;

	memcpy(&uuid, id, sizeof(uuid));
	if (wkr.soft ||
	    wkr.drv.cuGetExportTable(&table, &uuid) != CUDA_SUCCESS || !table ||
	    *(const size_t *)table < 5 * sizeof(void *))
		return;
	memcpy(&slot4, (const char *)table + 4 * sizeof(void *), sizeof(slot4));
	wkr.drv.cuDeviceGetAttribute(
		&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, wkr.device);
	if (!slot4 || sms < 2 || slot4(&a, &b) != CUDA_SUCCESS || !a || !b)
		return;
	d->m.sm_pairs_a.data = a;
	d->m.sm_pairs_b.data = b;
	d->m.sm_pairs_a.len = d->m.sm_pairs_b.len = (size_t)sms / 2;
}

static void
ask_device(struct device_room *d, int ordinal, int count)
{
	size_t total = 0;
	CUdevice device;

	mps__device__init(&d->m);
	d->m.ordinal = ordinal;
	d->m.name = d->name;
	d->m.pci_bus_id = d->pci;
	if (wkr.drv.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS)
		return;
	wkr.drv.cuDeviceGetName(d->name, sizeof(d->name), device);
	wkr.drv.cuDeviceGetPCIBusId(d->pci, sizeof(d->pci), device);
	wkr.drv.cuDeviceGetUuid(&d->uuid, device);
	if (wkr.drv.cuDeviceGetUuid_v2(&d->uuid_v2, device) != CUDA_SUCCESS)
		d->uuid_v2 = d->uuid;
	d->m.uuid.data = (uint8_t *)&d->uuid;
	d->m.uuid.len = sizeof(d->uuid);
	d->m.uuid_v2.data = (uint8_t *)&d->uuid_v2;
	d->m.uuid_v2.len = sizeof(d->uuid_v2);
	wkr.drv.cuDeviceTotalMem_v2(&total, device);
	d->m.total_memory = total;
	ask_attributes(d, device);
	ask_context(d);
	ask_peers(d, device, count);
	if (ordinal == wkr.ordinal)
		ask_sm_pairs(d);
}

static void
add_implemented(Mps__WorkerReady *m, uint8_t *bits, size_t size)
{
	memset(bits, 0, size);
	for (unsigned id = 0; id < API_COUNT; id++)
		if (wkr_handlers[id].run)
			bits[id / 8] |= (uint8_t)(1u << id % 8);
	m->implemented.data = bits;
	m->implemented.len = size;
}

static void
add_windows(Mps__WorkerReady *m, uint64_t *list)
{
	m->windows = list;
	for (unsigned i = 0; i < wkr.nwindows; i++) {
		if (!wkr.windows[i].reserved)
			continue;
		list[m->n_windows++] = wkr.windows[i].base;
		list[m->n_windows++] = wkr.windows[i].size;
	}
}

static int
send_ready(Mps__WorkerReady *m)
{
	Mps__Control control = MPS__CONTROL__INIT;

	control.body_case = MPS__CONTROL__BODY_WORKER_READY;
	control.worker_ready = m;
	return wkr_control_send(&control, NULL, 0);
}

int
wkr_snapshot_send(CUresult status, const char *message)
{
	Mps__WorkerReady m = MPS__WORKER_READY__INIT;
	uint64_t windows[2 * WKR_WINDOWS_MAX];
	uint8_t implemented[API_COUNT / 8 + 1];
	Mps__Device *list[DEVICES_MAX];
	_cleanup_free_ struct device_room *rooms = NULL;
	int count =
		wkr.device_count < DEVICES_MAX ? wkr.device_count : DEVICES_MAX;

	m.status = (uint32_t)status;
	m.message = (char *)message;
	m.driver = (char *)wkr.driver_path;
	if (status != CUDA_SUCCESS)
		return send_ready(&m);
	rooms = calloc((size_t)count, sizeof(*rooms));
	if (!rooms)
		return err_origin(-ENOMEM);
	for (int i = 0; i < count; i++) {
		ask_device(&rooms[i], i, count);
		list[i] = &rooms[i].m;
	}
	m.devices = list;
	m.n_devices = (size_t)count;
	m.driver_version = (uint32_t)wkr.driver_version;
	m.software = wkr.soft != NULL;
	m.total = wkr.total_memory;
	add_implemented(&m, implemented, sizeof(implemented));
	add_windows(&m, windows);
	return send_ready(&m);
}
