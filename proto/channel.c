/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping a channel: every ring twice in a row inside one reservation.
 */
#include "proto/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/err.h"
#include "proto/shmem.h"

/* The pieces of the view, in the order in which they lie in it. */
static const struct {
	size_t offset, size;
} view[] = {
	{0, CHANNEL_ORDERED_OFFSET},
	{CHANNEL_ORDERED_OFFSET, RING_ORDERED},
	{CHANNEL_ORDERED_OFFSET, RING_ORDERED},
	{CHANNEL_UNORDERED_OFFSET, RING_UNORDERED},
	{CHANNEL_UNORDERED_OFFSET, RING_UNORDERED},
	{CHANNEL_SLOTS_OFFSET, CHANNEL_SLOTS * CHANNEL_SLOT_SIZE},
};
enum { VIEW_COUNT = sizeof(view) / sizeof(view[0]) };

int
channel_map(struct channel *channel, int fd)
{
	uint8_t *base, *at[VIEW_COUNT];
	size_t total = 0;
	long size = shmem_size(fd);

	if (size < 0)
		return err_trace((int)size);
	if (size != (long)CHANNEL_SIZE)
		return err_origin(-EBADMSG);
	for (unsigned i = 0; i < VIEW_COUNT; i++)
		total += view[i].size;
	base = mmap(NULL, total, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return err_origin(-errno);
	total = 0;
	for (unsigned i = 0; i < VIEW_COUNT; i++) {
		at[i] = mmap(base + total, view[i].size, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_FIXED, fd,
			     (off_t)view[i].offset);
		total += view[i].size;
		if (at[i] == MAP_FAILED) {
			int r = -errno;

			for (unsigned k = i; k < VIEW_COUNT; k++)
				total += k > i ? view[k].size : 0;
			munmap(base, total);
			return err_origin(r);
		}
	}
	*channel = (struct channel){
		.page = (struct channel_page *)at[0],
		.ordered = at[1],
		.unordered = at[3],
		.slots = (struct reply_slot *)at[5],
		.map = base,
		.map_size = total,
	};
	return 0;
}

void
channel_unmap(struct channel *channel)
{
	if (channel->map)
		munmap(channel->map, channel->map_size);
	memset(channel, 0, sizeof(*channel));
}
