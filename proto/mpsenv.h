/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's variables for MPS: which of them mean something here, and what.
 * Used by the preload library and by nvidia-cuda-mps-control.
 */
#ifndef PROTO_MPSENV_H
#define PROTO_MPSENV_H

#include <stdbool.h>
#include <stdint.h>

/* "10G", "512M", "512MB": 0 or -EINVAL. */
int mpsenv_size(const char *text, uint64_t *out_bytes);

/*
 * CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: the smallest size of "0=10G,GPU-12=8G",
 * since a limit here is of what a program has on all devices. 0: none is set.
 * *out_good: is all of it understood?
 */
uint64_t mpsenv_memory_limit(bool *out_good);

/* Line i of those for the user, on variables that are set and have no effect;
 * false: that was the last. */
bool mpsenv_idle(unsigned int i, char *line, unsigned int size);

#endif
