/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's control program for MPS, as far as we are its daemon.
 * Used by mps.c and mps_command.c.
 */
#ifndef CTL_MPS_H
#define CTL_MPS_H

#include <stdint.h>

#include "server/ctl/ask.h"

/*
 * Answer one line of a session: on stdout what NVIDIA's program of driver 580
 * prints, on stderr why a setting is not taken. A command that is refused is
 * no failure: 0; -EPIPE when the link to the broker broke, and broker->why;
 * 1 when the broker has ended, as told.
 */
int mps_command(struct ctl_broker *broker, const char *line);

/* "10G", "512M", "512MB": 0 or -EINVAL. */
int mps_size(const char *text, uint64_t *out_bytes);
/* And back. Returns out. */
const char *mps_size_text(uint64_t bytes, char out[static 32]);

#endif
