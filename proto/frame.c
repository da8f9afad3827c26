/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check that every frame from outside passes first.
 */
#include "proto/frame.h"

#include <errno.h>

int
frame_header_check(const struct frame_header *header)
{
	if (header->type == 0 || header->type >= FRAME_TYPE_COUNT)
		return -EBADMSG;
	if (header->size > FRAME_MAX - sizeof(*header))
		return -EBADMSG;
	if (header->type == FRAME_NUDGE && header->size != 0)
		return -EBADMSG;
	if (header->lane > 1 || header->zero != 0)
		return -EBADMSG;
	return 0;
}
