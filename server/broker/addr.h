/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address map: which client may use which addresses.
 * Used by client.c for Piece messages and by vault.c for what lies in them.
 *
 * Workers report windows that they reserved; clients get pieces of them. A
 * piece belongs to one client at a time over all devices, because pinned
 * memory and device memory of all clients lie in one address space there and
 * a client may use several devices.
 */
#ifndef BROKER_ADDR_H
#define BROKER_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/wire.pb-c.h"

struct brk_client;
struct brk_worker;

/* Device memory is mapped in multiples of this (cuMemGetAllocationGranularity
 * answers 2 MiB on every supported device). */
#define ADDR_GRANULE (UINT64_C(2) << 20)
#define ADDR_WINDOWS 16
#define ADDR_PIECES 1024        /* per client */
#define ADDR_DECLINED 64        /* per client; the oldest is forgotten */

struct brk_range {
	uint64_t base, size;
};

struct brk_window {
	struct brk_range range;
	bool host;                      /* for pinned memory */
};

struct brk_piece {
	LIST_ENTRY(brk_piece) all;      /* ascending */
	LIST_ENTRY(brk_piece) mine;
	uint64_t id;
	struct brk_range range;
	int device;
	bool host;
	bool live;                      /* the client has reserved it */
};

struct brk_addresses {
	LIST_HEAD(, brk_piece) pieces;
};

/* A client's part of the map. */
struct brk_holding {
	LIST_HEAD(, brk_piece) pieces;
	unsigned int npieces;
	/* Taken in the client's own address space: never offered again. */
	struct brk_range declined[ADDR_DECLINED];
	unsigned int ndeclined;         /* ever */
	unsigned int in_a_row;          /* since a piece was accepted */
};

/* Keep the sane ones of what a worker reports: base and size, by turns of a
 * window for device memory and one for pinned memory. Returns how many. */
unsigned int brk_windows_check(const uint64_t *words, size_t nwords,
			       struct brk_window out[ADDR_WINDOWS]);
/* How much of them, in bytes, one tenant may reserve. */
uint64_t brk_windows_share(const struct brk_window *windows,
			   unsigned int nwindows, uint64_t device_bytes);

int brk_addr_piece(struct brk_client *client, const Mps__Piece *message);
int brk_addr_ready(struct brk_client *client, uint64_t id, uint32_t status);
/* The client's live piece, or NULL. */
struct brk_piece *brk_addr_find(struct brk_client *client, uint64_t id);
/* Has that worker all the addresses that the client's memory is at? */
bool brk_addr_fits(const struct brk_client *client,
		   const struct brk_worker *worker);
/* The client has ended; its workers have not let go yet. */
void brk_addr_leave(struct brk_client *client);
void brk_addr_release(struct brk_client *client);

#endif
