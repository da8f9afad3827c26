/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's control program for MPS, as far as we are its daemon.
 * Used by mps.c and mps_command.c.
 */
#ifndef CTL_MPS_H
#define CTL_MPS_H

#include "server/ctl/ask.h"

/*
 * Answer one line of a session: on stdout what NVIDIA's program of driver 580
 * prints, on stderr why a setting is not taken. A command that is refused is
 * no failure: 0; -EPIPE when the link to the broker broke, and broker->why;
 * 1 when the broker has ended, as told.
 */
int mps_command(struct ctl_broker *broker, const char *line);

#endif
