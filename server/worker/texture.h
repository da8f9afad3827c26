/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays, textures and surfaces of a client.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_TEXTURE_H
#define SERVER_WORKER_TEXTURE_H

#include "server/worker/client.h"

/* Under HANDLE_ARRAY in a client's table. */
struct wkr_array {
	CUarray native;	 /* first member (struct wkr_object) */
	bool borrowed;	 /* a level of a mipmapped array, which owns it */
};

/* Destroy and free what a table had under HANDLE_ARRAY. Waits. */
void wkr_array_end(void *array);
/* At the client's end: what its kernels could name. */
void wkr_textures_drop(struct wkr_client *client);

#endif
