/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of device and pinned memory: heaps whose chunks the broker grants.
 * Used by mem.c, host.c and register.c; vmm.c has addresses and answers from
 * here.
 */
#ifndef SHIM_SUPPLY_H
#define SHIM_SUPPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "proto/wire.pb-c.h"
#include "shim/heap.h"

struct shim_chan;

/*
 * A block of at least `size` bytes. Before CUDA_ERROR_OUT_OF_MEMORY it gives
 * back what lies idle and waits for what is freed but not yet retired.
 */
CUresult shim_supply_alloc(struct shim_chan *chan, bool host, uint64_t size,
			   struct shim_block **out_block);
/* Nothing that is posted from now on uses the block. */
CUresult shim_supply_free(struct shim_chan *chan, bool host,
			  struct shim_block *block);
/* Pinned memory of its own chunk, with the descriptor of the file that it is:
 * `size` bytes, a multiple of 4096. */
CUresult shim_supply_file(struct shim_chan *chan, uint64_t size,
			  uint64_t *out_address, uint64_t *out_id,
			  int *out_fd);
/* It goes back to the broker. */
void shim_supply_unfile(struct shim_chan *chan, uint64_t address,
			uint64_t size, uint64_t id);
/* Ask the broker; a reply of the kind wanted is the caller's, another becomes
 * a code. fd NULL: no descriptor comes along. */
CUresult shim_supply_ask(Mps__Control *message, Mps__Control__BodyCase want,
			 Mps__Control **out_answer, int *fd);
/* Addresses in a piece that holds no heap's chunks; all but size are powers of
 * two or multiples of 2 MiB. */
CUresult shim_supply_reserve(struct shim_chan *chan, uint64_t size,
			     uint64_t align, uint64_t *out_address,
			     uint64_t *out_piece);
void shim_supply_unreserve(struct shim_chan *chan, uint64_t address,
			   uint64_t size);
/* Give back device memory that lies idle, or wait for some to retire. False:
 * there is none, or *out_code says why not. */
bool shim_supply_trim(struct shim_chan *chan, CUresult *out_code);
/* The same for what the broker does not hold back until freed memory is there:
 * with *tries from 0 on it ends. */
bool shim_supply_wait(struct shim_chan *chan, int *tries, CUresult *out_code);
/* Give back every chunk that lies idle. */
void shim_supply_release(struct shim_chan *chan);
/* Bytes, in whole granules, that the client holds and does not use, after
 * giving back what has been idle for long. */
uint64_t shim_supply_idle(struct shim_chan *chan, bool host);
/* The chunk that a live block lies in. */
void shim_supply_chunk(const struct shim_block *block, uint64_t *out_address,
		       uint64_t *out_size, uint64_t *out_id);

#endif
