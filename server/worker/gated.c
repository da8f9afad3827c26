/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits at the load gate, and for whom. The client finds it in its page
 * and says it when that lasts (shim/notice.c): a kernel that another program
 * never ends would otherwise stop it without a word.
 */
#include "server/worker/gated.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of the call and of the other's work: what is shorter, nobody tells. */
#define LASTS_NS UINT64_C(100000000)

/* Whose work has been on the device for longest, and so keeps the gate shut;
 * NULL: nobody's but its own. */
static struct wkr_client *
find_oldest_locked(const struct wkr_client *but, uint64_t *out_ns)
{
	struct wkr_client *oldest = NULL;
	uint64_t now = wkr_now_ns();

	*out_ns = 0;
	for (struct wkr_client *c = wkr.clients; c; c = c->next) {
		uint64_t since = atomic_load(&c->oldest_ns);

		if (c == but || !since || (oldest && since >= now - *out_ns))
			continue;
		oldest = c;
		*out_ns = since < now ? now - since : 0;
	}
	return oldest;
}

/* As this process sees it, which says `pid` as the broker does. */
static void
program_of(int pid, char out[CHANNEL_PROGRAM])
{
	char path[64], exe[4096];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = 0;
	name = strrchr(exe, '/');
	snprintf(out, CHANNEL_PROGRAM, "%.*s", (int)CHANNEL_PROGRAM - 1,
		 name ? name + 1 : exe);
}

static void
set_gate(struct channel_page *page, uint64_t value)
{
	/* Release: the program is in place (partner: the shim's acquire). */
	atomic_store_explicit(&page->gate, value, memory_order_release);
}

void
wkr_gated_wait(const struct wkr_call *call)
{
	struct wkr_client *client = call->client;
	uint64_t now = wkr_now_ns(), for_ns, value = 0;
	const struct wkr_client *other;
	int pid = 0;

	if (now - call->since_ns < LASTS_NS)
		return;
	pthread_mutex_lock(&wkr.clients_lock);
	other = find_oldest_locked(client, &for_ns);
	if (other && for_ns >= LASTS_NS)
		pid = other->pid;
	pthread_mutex_unlock(&wkr.clients_lock);
	/* Several calls of one client wait in one wait: the first's. */
	if (!client->gate_wait)
		client->gate_wait = (uint32_t)(now / 1000000u) | 1;
	if (pid)
		value = CHANNEL_GATE(client->gate_wait, pid);
	if (value == client->gate)
		return;
	set_gate(client->channel.page, 0);
	if (value) {
		program_of(pid, client->channel.page->gate_program);
		set_gate(client->channel.page, value);
	}
	client->gate = value;
}

void
wkr_gated_end(struct wkr_client *client)
{
	if (atomic_fetch_sub(&client->gated, 1) != 1)
		return;
	client->gate_wait = 0;
	if (client->gate)
		set_gate(client->channel.page, 0);
	client->gate = 0;
}

bool
wkr_gated_why_locked(struct wkr_client *client, char text[WKR_GATED_TEXT])
{
	bool over = client->gone && !atomic_load(&client->oldest_ns);
	const struct wkr_client *other;
	uint64_t ns;
	int n;

	if (!over && !atomic_load(&client->gated))
		return false;
	n = snprintf(text, WKR_GATED_TEXT, "%s",
		     over ? "ended; what it had is to be freed" :
			    "to load code");
	other = find_oldest_locked(client, &ns);
	if (!other)
		return true;
	snprintf(text + n, WKR_GATED_TEXT - (size_t)n,
		 ", since client %llu (pid %d) has had work on the device for "
		 "%llu %s",
		 (unsigned long long)other->id, other->pid,
		 (unsigned long long)(ns / (ns < 10000000000u ? 1000000u :
							      1000000000u)),
		 ns < 10000000000u ? "ms" : "s");
	return true;
}
