/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The release that this is. Printed by -V of mpsrun, mpsd and mpsctl.
 */
#ifndef PROTO_VERSION_H
#define PROTO_VERSION_H

#include "proto/frame.h"

#define MPSSHIM_VERSION "0.1.0"

/* printf() format and arguments of the line that -V prints. */
#define VERSION_LINE(program) \
	program " (mpsshim) " MPSSHIM_VERSION ", wire number %u\n", WIRE_NUMBER

#endif
