/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that the driver has chosen, taken from the program's own memory.
 * Used by module.c for variables.
 */
#ifndef SHIM_CLAIM_H
#define SHIM_CLAIM_H

#include <stdint.h>

enum {
	CLAIM_E_TAKEN = 1,   /* the program has memory there */
};

/* From now on no memory of the program lies there. 0, CLAIM_E_TAKEN, -ENOMEM.
 * May be asked again for the same. */
int shim_claim(uint64_t address, uint64_t size);

#endif
