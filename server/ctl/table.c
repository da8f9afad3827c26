/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/ctl/ctl.h"

/* Of the slow calls; --json has all that the worker keeps. */
#define SLOW_SHOWN 4u

/* "1.5 GiB": four significant characters and a unit. */
static const char *
bytes(uint64_t n, char out[16])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)n;
	unsigned int unit = 0;

	while (value >= 1024 && unit < 4) {
		value /= 1024;
		unit++;
	}
	snprintf(out, 16, value < 10 && unit ? "%.1f %s" : "%.0f %s", value,
		 units[unit]);
	return out;
}

static const char *
seconds(uint64_t ns, char out[24])
{
	if (ns >= 1000000000u)
		snprintf(out, 24, "%.2f s", (double)ns / 1e9);
	else
		snprintf(out, 24, "%.2f ms", (double)ns / 1e6);
	return out;
}

static const char *
uptime(uint64_t s, char out[48])
{
	if (s >= 3600)
		snprintf(out, 48, "%" PRIu64 "h%02" PRIu64 "m", s / 3600,
			 s / 60 % 60);
	else if (s >= 60)
		snprintf(out, 48, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
	else
		snprintf(out, 48, "%" PRIu64 "s", s);
	return out;
}

/* Who waited in the driver, and who was there as well. */
static void
print_slow(const Mps__WorkerStat *w)
{
	if (w->slow_calls)
		printf("  slow     %" PRIu64 " calls of the driver took long; "
		       "the last:\n", w->slow_calls);
	for (size_t i = 0; i < w->n_slow && i < SLOW_SHOWN; i++) {
		const Mps__SlowCall *c = w->slow[i];

		printf("           %" PRIu64 " ms in %s for client %" PRIu64
		       " (pid %d: %s)%s, %.1f s ago", c->ms, c->function,
		       c->client, c->pid, c->what,
		       c->gate ? " inside the load gate" : "",
		       (double)c->ago_ms / 1e3);
		printf("%s%s\n", *c->beside ? "; then also " : "", c->beside);
	}
}

static void
print_worker(const Mps__WorkerStat *w)
{
	char overlap[24], busy[24];

	printf("device %d  %s\n", w->device, w->device_name);
	printf("  worker   pid %d, generation %" PRIu64 ", driver %s%s\n",
	       w->pid, w->generation, w->driver,
	       w->solo ? ", for one client alone" : "");
	printf("  contexts %" PRIu64 ", images %" PRIu64 " (%" PRIu64
	       " loads), lanes %" PRIu64 ", handles %" PRIu64 "\n",
	       w->contexts, w->images, w->image_loads, w->lanes, w->handles);
	if (w->overlap_known)
		printf("  overlap  %s (kernels of two clients at once, seen "
		       "inside the driver library)\n",
		       seconds(w->overlap_ns, overlap));
	if (w->events_known)
		printf("  overlap  %s of %s (kernels of two clients at once, "
		       "by events around %" PRIu64 " of %" PRIu64
		       " launches)\n",
		       seconds(w->events_overlap_ns, overlap),
		       seconds(w->events_busy_ns, busy), w->events_timed,
		       w->events_timed + w->events_missed);
	if (!w->overlap_known && !w->events_known)
		printf("  overlap  not measured (mpsd --overlap does)\n");
	if (w->lost)
		printf("  lost     %" PRIu64 " clients lost work to a fault\n",
		       w->lost);
	if (w->moved)
		printf("  moved    %" PRIu64 " clients went on in another "
		       "worker\n", w->moved);
	if (*w->last_fault)
		printf("  fault    %s, %" PRIu64 " s ago\n", w->last_fault,
		       w->last_fault_s);
	print_slow(w);
}

static const char *
program_name(const char *exe)
{
	const char *slash = strrchr(exe, '/');

	return slash && slash[1] ? slash + 1 : exe;
}

static void
print_risk(const Mps__RiskStat *r)
{
	char ago[48];

	printf("  %s %.12s: %s ended while %s for client %" PRIu64
	       " (pid %d, %s), %s ago; %s\n",
	       r->refused ? "refused " : "suspect ", r->key,
	       r->refused ? "two workers" : "a worker",
	       r->call, r->client, r->pid, program_name(r->exe),
	       uptime(r->since_s, ago),
	       r->refused ? "until this broker ends" :
			    "refused after one more");
}

/* For how long a kernel of its was running, as far as that is known. */
static const char *
kernel_time(const Mps__StatusReply *s, const Mps__ClientStat *c, char out[24])
{
	for (size_t i = 0; i < s->n_workers; i++) {
		if (s->workers[i]->pid != c->worker_pid)
			continue;
		if (s->workers[i]->overlap_known)
			return seconds(c->kernel_ns, out);
		if (s->workers[i]->events_known)
			return seconds(c->busy_ns, out);
	}
	return "-";
}

static void
print_clients(const Mps__StatusReply *s)
{
	printf("\n%6s %7s %3s %7s %-12s %10s %10s %7s %7s %9s %10s  %s\n",
	       "CLIENT", "PID", "DEV", "WORKER", "JOB", "DEVICE MEM", "PINNED",
	       "MODULES", "STREAMS",
	       "LAUNCHES", "KERNELS", "PROGRAM");
	for (size_t i = 0; i < s->n_clients; i++) {
		const Mps__ClientStat *c = s->clients[i];
		char device[16], host[16], driver[16], kernels[24];

		printf("%6" PRIu64 " %7d %3d %7d %-12.12s %10s %10s %7u %7u "
		       "%9" PRIu64 " %10s  %s", c->client, c->pid, c->device, c->worker_pid,
		       *c->job ? c->job : "-", bytes(c->device_bytes, device),
		       bytes(c->host_bytes, host), c->modules, c->streams,
		       c->launches, kernel_time(s, c, kernels),
		       program_name(c->exe));
		if (*c->waiting)
			printf(" (%s)", c->waiting);
		if (*c->solo)
			printf(" [solo: %s]", c->solo);
		if (c->driver_bytes)
			printf(" [%s more of the driver's]",
			       bytes(c->driver_bytes, driver));
		if (c->graph_launches)
			printf(" [%" PRIu64 " launches in batches]",
			       c->graph_launches);
		if (c->late_errors)
			printf(" [%" PRIu64 " late errors]", c->late_errors);
		printf("\n");
	}
}

void
ctl_print_table(const Mps__StatusReply *s)
{
	char up[48], store[16];

	printf("broker    pid %d, up %s, %s\n", s->broker_pid,
	       uptime(s->uptime_s, up), s->socket);
	if (s->draining)
		printf("  ending   takes no new programs (mpsctl quit), ends with "
		       "the last\n");
	printf("  clients  %zu now, %" PRIu64 " in all; %" PRIu64
	       " bad frames\n", s->n_clients, s->total_clients, s->bad_frames);
	printf("  holds    %" PRIu64 " chunks, %" PRIu64 " images (%s)\n",
	       s->vault_chunks, s->store_images, bytes(s->store_bytes, store));
	for (size_t i = 0; i < s->n_risks; i++)
		print_risk(s->risks[i]);
	for (size_t i = 0; i < s->n_workers; i++)
		print_worker(s->workers[i]);
	if (!s->n_workers)
		printf("no worker runs\n");
	if (s->n_clients)
		print_clients(s);
	if (*s->message)
		printf("%s\n", s->message);
}
