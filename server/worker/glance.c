/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeing that nothing has come, without a turn: a look at each client's rings
 * and words. A turn in which nothing moves takes three times as long, and what
 * comes meanwhile waits for half of that.
 */
#include "server/worker/backlog.h"
#include "server/worker/call.h"
#include "server/worker/lane.h"
#include "server/worker/word.h"

/* Between two turns: 2 us in all. */
#define GLANCES 32u
/* How many of them what has finished may wait for, when it is no news to who
 * waited for it. */
#define PATIENCE 16u

static inline void
cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

/* Do its frames and words say all that could come next? What else it may be
 * waiting for takes a turn to find out. */
static bool
can_glance(const struct wkr_client *c)
{
	if (c->no_ring || c->closed || c->restore || c->held || c->graves ||
	    c->gone || c->out_size || wkr_is_behind(c))
		return false;
	return !c->pending || wkr_pending_by_word(c);
}

/* A frame takes as long to come from the client's cache as a turn takes to get
 * to it. */
static bool
has_frames(struct ring *ring)
{
	if (ring_is_empty(ring))
		return false;
	ring_prefetch(ring);
	return true;
}

/* Has the GPU told the only one that waits? Its next launch follows in a
 * moment, and should not have to wait for the turn that writes down the end of
 * the last. */
static bool
is_told(const struct wkr_client *c, const struct wkr_stream *s)
{
	return c->pending && !c->pending->next && wkr_stream_is_told(s);
}

static bool
has_news(struct wkr_client *c, unsigned *patience)
{
	if (has_frames(&c->ordered) || has_frames(&c->unordered))
		return true;
	for (const struct wkr_stream *s = c->busy; s; s = s->next_busy)
		if (wkr_word_has_come(s->word) &&
		    (!is_told(c, s) || !*patience || !--*patience))
			return true;
	return false;
}

void
wkr_lane_glance(struct wkr_lane *lane)
{
	unsigned patience = PATIENCE;

	for (unsigned i = 0; i < GLANCES && !atomic_load(&wkr.paused); i++) {
		for (struct wkr_client *c = lane->clients; c; c = c->lane_next)
			if (!can_glance(c) || has_news(c, &patience))
				return;
		cpu_relax();
	}
}
