/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that build/gen/shim_calls.h needs of shim/chan.h.
 * For test_apigen.py, so that generated code is tested without the shim.
 */
#ifndef SHIM_CHAN_H
#define SHIM_CHAN_H

#include "api_cuda.h"
#include "api_ids.h"

struct shim_chan;

CUresult shim_chan_call(struct shim_chan *chan, enum api_id id,
			void *const argv[]);
CUresult shim_chan_post(struct shim_chan *chan, enum api_id id,
			void *const argv[]);

#endif
