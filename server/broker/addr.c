/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/addr.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/err.h"
#include "proto/log.h"
#include "server/broker/client.h"

/* User space ends here on every supported machine. */
#define ADDRESS_END (UINT64_C(1) << 47)
/* One tenant may reserve an eighth of all windows: of the usual 16 TiB that
 * is many times what a device holds, and no single one takes it all. Of
 * small windows it gets enough for the device's whole memory. */
#define ADDR_SHARES 8
#define ADDR_SHARE_MIN (UINT64_C(16) << 30)

static uint64_t
range_end(const struct brk_range *range)
{
	return range->base + range->size;
}

unsigned int
brk_windows_check(const uint64_t *words, size_t nwords,
		  struct brk_window out[ADDR_WINDOWS])
{
	unsigned int n = 0;

	for (size_t i = 0; i + 1 < nwords && n < ADDR_WINDOWS; i += 2) {
		uint64_t base = words[i], size = words[i + 1];

		if (!base || base % ADDR_GRANULE || !size ||
		    size % ADDR_GRANULE || base >= ADDRESS_END ||
		    size > ADDRESS_END - base) {
			log_line(LOG_WARN, "worker's window %#llx+%#llx is no "
				 "window: left out", (unsigned long long)base,
				 (unsigned long long)size);
			continue;
		}
		out[n++] = (struct brk_window){ { base, size }, i / 2 % 2 };
	}
	return n;
}

uint64_t
brk_windows_share(const struct brk_window *windows, unsigned int nwindows,
		  uint64_t device_bytes)
{
	uint64_t sum = 0, least = ADDR_SHARE_MIN;

	for (unsigned int i = 0; i < nwindows; i++)
		sum += windows[i].range.size;
	if (least < device_bytes)
		least = device_bytes;
	return sum / ADDR_SHARES > least ? sum / ADDR_SHARES : least;
}

/* The end of what keeps [base, base + size) from being free; 0: it is. */
static uint64_t
in_the_way(struct brk_client *client, uint64_t base, uint64_t size)
{
	const struct brk_holding *holding = &client->holding;
	struct brk_piece *piece;

	for (unsigned int i = 0; i < ADDR_DECLINED; i++) {
		const struct brk_range *no = &holding->declined[i];

		if (no->size && no->base < base + size &&
		    range_end(no) > base)
			return range_end(no);
	}
	LIST_FOREACH(piece, &client->broker->addresses.pieces, all) {
		if (piece->range.base >= base + size)
			break;
		if (range_end(&piece->range) > base)
			return range_end(&piece->range);
	}
	return 0;
}

/* First free range of a worker's windows of that kind, in their order.
 * False: exhausted. */
static bool
find_free(struct brk_client *client, const struct brk_worker *worker,
	  bool host, uint64_t size, uint64_t *out_base)
{
	for (unsigned int i = 0; i < worker->nwindows; i++) {
		const struct brk_range *window = &worker->windows[i].range;
		uint64_t base = window->base, next;

		if (worker->windows[i].host != host || window->size < size)
			continue;
		while (range_end(window) - base >= size) {
			next = in_the_way(client, base, size);
			if (!next) {
				*out_base = base;
				return true;
			}
			if (next >= range_end(window))
				break;
			base = next;
		}
	}
	return false;
}

static void
insert(struct brk_addresses *addresses, struct brk_piece *piece)
{
	struct brk_piece *at, *before = NULL;

	LIST_FOREACH(at, &addresses->pieces, all) {
		if (at->range.base > piece->range.base)
			break;
		before = at;
	}
	if (before)
		LIST_INSERT_AFTER(before, piece, all);
	else
		LIST_INSERT_HEAD(&addresses->pieces, piece, all);
}

static void
piece_free(struct brk_client *client, struct brk_piece *piece)
{
	LIST_REMOVE(piece, all);
	LIST_REMOVE(piece, mine);
	client->holding.npieces--;
	brk_discharge(client->tenant, QUOTA_ADDRESS, piece->range.size);
	free(piece);
}

static int
piece_make(struct brk_client *client, const Mps__Piece *message,
	   const struct brk_worker *worker, struct brk_piece **out_piece)
{
	struct brk_broker *broker = client->broker;
	struct brk_piece *piece;
	uint64_t size, base;

	size = (message->size + ADDR_GRANULE - 1) / ADDR_GRANULE * ADDR_GRANULE;
	if (client->holding.npieces == ADDR_PIECES ||
	    brk_charge(&broker->quotas, client->tenant, QUOTA_ADDRESS, size))
		return BRK_OUT_OF_MEMORY;
	piece = calloc(1, sizeof(*piece));
	if (!piece ||
	    !find_free(client, worker, message->host, size, &base)) {
		brk_discharge(client->tenant, QUOTA_ADDRESS, size);
		free(piece);
		return BRK_OUT_OF_MEMORY;
	}
	*piece = (struct brk_piece){
		.id = ++broker->next_id, .range = { base, size },
		.device = message->device, .host = message->host,
	};
	insert(&broker->addresses, piece);
	LIST_INSERT_HEAD(&client->holding.pieces, piece, mine);
	client->holding.npieces++;
	*out_piece = piece;
	return 0;
}

int
brk_addr_piece(struct brk_client *client, const Mps__Piece *message)
{
	struct brk_worker *worker;
	Mps__PieceReply reply = MPS__PIECE_REPLY__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;
	struct brk_piece *piece = NULL;

	worker = brk_session_worker(client, message->device);
	if (!worker)
		reply.status = BRK_INVALID_CONTEXT;
	else if (!message->size || message->size > ADDRESS_END)
		reply.status = BRK_INVALID_VALUE;
	else
		reply.status = (uint32_t)piece_make(client, message, worker,
						    &piece);
	if (piece) {
		reply.id = piece->id;
		reply.address = piece->range.base;
		reply.size = piece->range.size;
	}
	answer.body_case = MPS__CONTROL__BODY_PIECE_REPLY;
	answer.piece_reply = &reply;
	brk_client_answer(client, &answer, NULL, 0);
	return 0;
}

static struct brk_piece *
find(struct brk_client *client, uint64_t id)
{
	struct brk_piece *piece;

	LIST_FOREACH(piece, &client->holding.pieces, mine)
		if (piece->id == id)
			return piece;
	return NULL;
}

/*
 * Remember that the client has something there. What it has may be huge (a
 * sanitizer's heap), so each refusal in a row skips four times as much as
 * the last one: a window of 16 TiB is used up after 10.
 */
static void
decline(struct brk_holding *holding, struct brk_range range)
{
	unsigned int n = holding->in_a_row++;
	uint64_t skip = UINT64_C(64) << 20;

	skip <<= n < 10 ? 2 * n : 20;
	if (range.size < skip)
		range.size = skip;
	holding->declined[holding->ndeclined++ % ADDR_DECLINED] = range;
}

int
brk_addr_ready(struct brk_client *client, uint64_t id, uint32_t status)
{
	struct brk_piece *piece = find(client, id);

	if (!piece || piece->live)
		return err_origin(-EPROTO);
	if (!status) {
		piece->live = true;
		client->holding.in_a_row = 0;
	} else {
		decline(&client->holding, piece->range);
		piece_free(client, piece);
	}
	brk_client_done(client, BRK_SUCCESS, "");
	return 0;
}

struct brk_piece *
brk_addr_find(struct brk_client *client, uint64_t id)
{
	struct brk_piece *piece = find(client, id);

	return piece && piece->live ? piece : NULL;
}

static bool
holds(const struct brk_worker *worker, const struct brk_piece *piece)
{
	for (unsigned int i = 0; i < worker->nwindows; i++) {
		const struct brk_window *window = &worker->windows[i];

		if (window->host == piece->host &&
		    window->range.base <= piece->range.base &&
		    range_end(&piece->range) <= range_end(&window->range))
			return true;
	}
	return false;
}

bool
brk_addr_fits(const struct brk_client *client, const struct brk_worker *worker)
{
	const struct brk_piece *piece;

	LIST_FOREACH(piece, &client->holding.pieces, mine)
		if (piece->device == worker->device->ordinal &&
		    !holds(worker, piece))
			return false;
	return true;
}

static bool
is_used(struct brk_client *client, const struct brk_piece *piece)
{
	struct brk_block *block;

	LIST_FOREACH(block, &client->vault.blocks, link)
		if (block->spec.piece == piece->id)
			return true;
	return false;
}

/* A worker may take long to end a client (see brk_vault_leave); where it has
 * nothing of the client's, others need not wait for that. */
void
brk_addr_leave(struct brk_client *client)
{
	struct brk_piece *piece = LIST_FIRST(&client->holding.pieces), *next;
	struct brk_session *session;

	/* One that it has left has what it had then. */
	if (client->lingers)
		return;
	LIST_FOREACH(session, &client->sessions, link)
		if (session->from)
			return;
	for (; piece; piece = next) {
		next = LIST_NEXT(piece, mine);
		if (!is_used(client, piece))
			piece_free(client, piece);
	}
}

void
brk_addr_release(struct brk_client *client)
{
	struct brk_piece *piece;

	while ((piece = LIST_FIRST(&client->holding.pieces)))
		piece_free(client, piece);
}
