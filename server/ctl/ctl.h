/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing what the broker answers.
 * Used by mpsctl only.
 */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <stdbool.h>

#include "proto/wire.pb-c.h"

void ctl_print_table(const Mps__StatusReply *status);
/* One JSON object; keys are the field names of proto/wire.proto. */
void ctl_print_json(const Mps__StatusReply *status);

#endif
