/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of device memory and pinned memory, for the broker.
 * Called on the helper and reaper threads.
 */
#ifndef SERVER_WORKER_MEMORY_H
#define SERVER_WORKER_MEMORY_H

#include "server/worker/client.h"

/* At the start: what is left to no client. */
void wkr_ballast_read(void);
/* What clients can still get, bytes. */
CUresult wkr_memory_left(uint64_t *out_size);
bool wkr_memory_fits(uint64_t size);
/* fd: in, the memory to map, or -1; out, the exported memory. */
CUresult wkr_chunk_add(struct wkr_client *client, const Mps__WorkerChunk *m,
		       int *fd, const char **out_why);
CUresult wkr_host_add(struct wkr_client *client, const Mps__WorkerHost *m,
		      int fd, const char **out_why);
/* Memory without an address, put at one, opened to kernels. */
CUresult wkr_memory_add(struct wkr_client *client, const Mps__WorkerChunk *m,
			int *fd, const char **out_why);
CUresult wkr_mapping_add(struct wkr_client *client,
			 const Mps__WorkerMapping *m, const char **out_why);
CUresult wkr_mapping_open(struct wkr_client *client, uint64_t id,
			  const char **out_why);
/* array.c */
CUresult wkr_array_add(struct wkr_client *client, const Mps__WorkerArray *m,
		       const char **out_why);
void wkr_array_free(struct wkr_range *range);
/* mapping.c. Callers hold the client's lock, but for the last. */
struct wkr_range *wkr_unplaced_find(struct wkr_client *client, uint64_t id);
void wkr_unplaced_remove(struct wkr_client *client, struct wkr_range *range);
void wkr_unplaced_drop(struct wkr_client *client);
/* The driver's memory: new, or that of fd. */
CUresult wkr_memory_get(uint64_t size, int fd,
			CUmemGenericAllocationHandle *out);
/* A descriptor for the broker's vault, in *fd. */
CUresult wkr_memory_export(CUmemGenericAllocationHandle memory, int *fd);
/* Give it back to driver and kernel. The range is in no list any more. */
void wkr_range_free(struct wkr_client *client, struct wkr_range *range);
/* The same on the reaper, with an answer to the broker. The range must still
 * be in one of the client's lists. */
void wkr_range_reap(struct wkr_client *client, struct wkr_range *range,
		    uint64_t control_id);

#endif
