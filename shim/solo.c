/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/solo.h"

#include <stdio.h>

#include "shim/control.h"
#include "shim/process.h"

bool
shim_is_solo(int device)
{
	/* Acquire: pairs with shim_solo. */
	return shim_process.hello->solo ||
	       atomic_load_explicit(&shim_process.devices[device].solo,
				    memory_order_acquire);
}

CUresult
shim_solo(int device, const char *why, char *out_why, size_t size)
{
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__Solo body = MPS__SOLO__INIT;
	CUresult r;

	body.device = shim_process.devices[device].real;
	body.why = (char *)why;
	message.body_case = MPS__CONTROL__BODY_SOLO;
	message.solo = &body;
	r = shim_ask(&message, MPS__CONTROL__BODY_DONE, &answer, NULL, NULL);
	if (r != CUDA_SUCCESS) {
		snprintf(out_why, size, "the broker is gone");
		return r;
	}
	r = (CUresult)answer->done->status;
	snprintf(out_why, size, "%s", answer->done->message);
	mps__control__free_unpacked(answer, NULL);
	if (r == CUDA_SUCCESS)
		/* Release: whoever sees it asks the new worker. */
		atomic_store_explicit(&shim_process.devices[device].solo, true,
				      memory_order_release);
	return r;
}
