/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crew: threads that help a caller to move the bytes of a large copy.
 * Used by staged.c; pages.c counts it. Knows nothing of CUDA.
 *
 * A caller adds jobs and finishes each of them; what no helper has begun by
 * then the caller does. So everything works without a single helper, too.
 * Everybody takes a bit of the oldest job at a time.
 */
#ifndef SHIM_CREW_H
#define SHIM_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CREW_MAX 3u                 /* helpers */
/* Bytes that one thread takes at a time: some 14 us. */
#define CREW_BIT (128u * 1024u)

/* Bytes to be moved, at least one. The caller's, from add until finish has returned. */
struct shim_crew_job {
	void *to;
	const void *from;
	size_t size;
	bool past_caches;           /* `to` is better not in one */
	/* crew.c's */
	_Atomic uint32_t state, left;
	size_t taken;
	struct shim_crew_job *next;
};

/* How many helpers the calling thread's cores allow: none below four. */
unsigned int shim_crew_size(void);
/* Up to `helpers` of them stand ready until as many closes; those that the
 * system does not give are missing. */
void shim_crew_open(unsigned int helpers);
void shim_crew_close(void);
/* Wakes up to `helpers` of them. */
void shim_crew_add(struct shim_crew_job *job, unsigned int helpers);
bool shim_crew_is_done(struct shim_crew_job *job);
/* Returns when it is done; does other work of the crew while that lasts. */
void shim_crew_finish(struct shim_crew_job *job);

/* Helpers that exist at this moment. */
unsigned int shim_crew_count(void);

#endif
