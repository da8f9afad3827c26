/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wait that is another program's doing, and lasts, is told on stderr.
 *
 * To wait for a kernel of its own is what a program means to do; to wait at the
 * load gate until somebody else's ends it does not expect. The worker says in
 * the page that a call waits there (server/worker/gated.c), and a thread that
 * waits for whatever looks at that with each slice of its wait.
 */
#include "shim/chan_own.h"

#include <string.h>

#include "proto/log.h"
#include "shim/process.h"

/* Lines of a process. */
#define LINES_MAX 8

/* What it says is the worker's word: a name, and no more than that. */
static void
copy_name(char out[CHANNEL_PROGRAM], const char *from)
{
	memcpy(out, from, CHANNEL_PROGRAM);
	out[CHANNEL_PROGRAM - 1] = 0;
	for (; *out; out++)
		if (*out <= ' ' || *out >= 0x7f)
			*out = '?';
}

static void
say(struct shim_chan *chan, uint64_t gate, uint64_t s)
{
	const struct channel_page *page = chan->channel.page;
	static _Atomic unsigned lines;
	char program[CHANNEL_PROGRAM];
	unsigned n;

	copy_name(program, page->gate_program);
	/* It has changed meanwhile. */
	if (atomic_load_explicit(&page->gate, memory_order_acquire) != gate)
		return;
	n = atomic_fetch_add(&lines, 1);
	if (n >= LINES_MAX)
		return;
	log_line(LOG_WARN, "to load code waits until no kernel runs, and has "
		 "waited %llu s for one of another program, pid %d%s%s%s; "
		 "`mpsctl status` says more, and with mpsrun --solo a program "
		 "waits for its own alone%s",
		 (unsigned long long)s, (int)(uint32_t)gate,
		 *program ? " (" : "", program, *program ? ")" : "",
		 n + 1 < LINES_MAX ? "" : "; no further wait is told");
}

void
shim_notice(struct shim_chan *chan)
{
	/* Acquire: the program's name is in place. */
	uint64_t gate = atomic_load_explicit(&chan->channel.page->gate,
					     memory_order_acquire), now, since;
	uint32_t wait = (uint32_t)(gate >> 32);

	if (!gate || !shim_process.wait_warn_ns)
		return;
	now = shim_now_ns();
	if (atomic_exchange(&chan->gate_wait, wait) != wait) {
		atomic_store(&chan->gate_since_ns, now);
		return;
	}
	/* 0: this wait has been told. Two threads that come at once tell it
	 * once. */
	since = atomic_load(&chan->gate_since_ns);
	if (since && now - since >= shim_process.wait_warn_ns &&
	    atomic_compare_exchange_strong(&chan->gate_since_ns, &since, 0))
		say(chan, gate, (now - since) / 1000000000u);
}
