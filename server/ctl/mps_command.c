/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of a session. Widths and words are those of driver 580.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/mpsenv.h"
#include "server/ctl/mps.h"

#define WORDS 8
/* Work on the device that does not end keeps a client's memory for long. */
#define GONE_MS 30000
#define START_MS 120000

struct command {
	struct ctl_broker *broker;
	char *words[WORDS + 1];         /* the first is the command's name */
	int count;
	Mps__Control *status, *hello;   /* asked for when needed */
};

/* ---- sizes --------------------------------------------------------------*/

/* "10G", as it was likely set. */
static const char *
size_text(uint64_t bytes, char out[static 32])
{
	if (!(bytes & ((UINT64_C(1) << 30) - 1)))
		snprintf(out, 32, "%" PRIu64 "G", bytes >> 30);
	else if (!(bytes & ((UINT64_C(1) << 20) - 1)))
		snprintf(out, 32, "%" PRIu64 "M", bytes >> 20);
	else
		snprintf(out, 32, "%" PRIu64, bytes);
	return out;
}

/* ---- what the broker knows ----------------------------------------------*/

static const Mps__StatusReply *
status_of(struct command *c)
{
	if (!c->status)
		c->status = ctl_ask_status(c->broker);
	return c->status ? c->status->status_reply : NULL;
}

/* A greeting brings what devices there are, if a worker has told. */
static const Mps__HelloReply *
hello_of(struct command *c)
{
	static struct ctl_broker again;

	if (!c->hello) {
		c->hello = ctl_connect(&again, "nvidia-cuda-mps-control");
		if (again.fd >= 0)
			close(again.fd);
	}
	return c->hello ? c->hello->hello_reply : NULL;
}

static const Mps__Device *
device_of(struct command *c, int ordinal)
{
	const Mps__HelloReply *hello = hello_of(c);

	for (size_t i = 0; hello && i < hello->n_devices; i++)
		if (hello->devices[i]->ordinal == ordinal)
			return hello->devices[i];
	return NULL;
}

/* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, or its first groups alone. */
static const char *
uuid_of(struct command *c, int ordinal, bool whole, char out[static 64])
{
	const Mps__Device *device = device_of(c, ordinal);
	int n = snprintf(out, 64, "%s", device ? "GPU" : "-");

	if (!device || device->uuid.len != 16)
		return out;
	for (size_t i = 0; i < (whole ? 16 : 8); i++)
		n += snprintf(out + n, 64 - (size_t)n, "%s%02x",
			      i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ?
			      "-" : "", device->uuid.data[i]);
	return out;
}

static const Mps__WorkerStat *
find_server(struct command *c, const char *word)
{
	const Mps__StatusReply *s = status_of(c);

	for (size_t i = 0; s && word && i < s->n_workers; i++)
		if (s->workers[i]->pid == atoi(word))
			return s->workers[i];
	return NULL;
}

/* The one of that word, or NULL after having said that there is none. */
static const Mps__WorkerStat *
need_server(struct command *c, const char *word)
{
	const Mps__WorkerStat *found = find_server(c, word);

	if (!found && c->status)
		printf("Server %d not found\n", word ? atoi(word) : 0);
	return found;
}

static bool
is_of(const Mps__ClientStat *client, const Mps__WorkerStat *server)
{
	return !server || client->worker_pid == server->pid;
}

/* ---- lists --------------------------------------------------------------*/

static int
get_server_list(struct command *c)
{
	const Mps__StatusReply *s = status_of(c);

	for (size_t i = 0; s && i < s->n_workers; i++)
		printf("%d\n", s->workers[i]->pid);
	return 0;
}

static int
get_server_status(struct command *c)
{
	const Mps__WorkerStat *server = need_server(c, c->words[1]);

	if (server)
		puts(server->ready ? "ACTIVE" : "INITIALIZING");
	return 0;
}

static int
get_client_list(struct command *c)
{
	const Mps__WorkerStat *server = need_server(c, c->words[1]);

	for (size_t i = 0; server && i < status_of(c)->n_clients; i++)
		if (is_of(status_of(c)->clients[i], server))
			printf("%d\n", status_of(c)->clients[i]->pid);
	return 0;
}

/* The short form of a bus id. */
static const char *
short_bus(const Mps__Device *device)
{
	const char *colon = device ? strchr(device->pci_bus_id, ':') : NULL;

	return colon ? colon + 1 : "-";
}

static void
list_device(struct command *c, const Mps__Device *device,
	    const Mps__WorkerStat *server)
{
	const Mps__StatusReply *s = status_of(c);
	bool any = false;

	for (size_t i = 0; s && i < s->n_clients; i++) {
		const Mps__ClientStat *client = s->clients[i];

		if (client->device != device->ordinal || !is_of(client, server))
			continue;
		if (!any)
			printf("[%d] %s, %s\n", device->ordinal,
			       short_bus(device), device->name);
		any = true;
		printf("%d.1\n", client->pid);
	}
}

static int
get_device_client_list(struct command *c)
{
	const Mps__WorkerStat *server = NULL;
	const Mps__HelloReply *hello;

	if (c->count > 1) {
		server = need_server(c, c->words[1]);
		if (!server)
			return 0;
	}
	hello = hello_of(c);
	for (size_t i = 0; hello && i < hello->n_devices; i++)
		list_device(c, hello->devices[i], server);
	return 0;
}

/* What was typed to start it; of another namespace that cannot be told. */
static void
command_of(const Mps__ClientStat *client, char *out, size_t size)
{
	const char *slash = strrchr(client->exe, '/');
	char path[256];
	FILE *f;

	snprintf(out, size, "%s", slash ? slash + 1 : client->exe);
	snprintf(path, sizeof(path), "/proc/%d/cmdline", client->pid);
	f = fopen(path, "r");
	if (!f)
		return;
	path[0] = 0;
	/* Up to the first NUL. A program names itself as it likes. */
	if (fgets(path, sizeof(path), f) && *path)
		snprintf(out, size, "%s", path);
	for (unsigned char *p = (unsigned char *)out; *p; p++)
		if (*p < ' ' || *p == 0x7f)
			*p = '?';
	fclose(f);
}

static int
ps(struct command *c)
{
	const char *word = c->count > 2 && !strcmp(c->words[1], "-p") ?
		c->words[2] : NULL;
	const Mps__StatusReply *s = status_of(c);
	const Mps__WorkerStat *server = find_server(c, word);

	if (!s)
		return 0;
	if (word ? !server : !s->n_workers) {
		puts("Server not found");
		return 0;
	}
	printf("%-10s%-10s%-15s%-26s%-15s%-15s\n", "PID", "ID", "SERVER",
	       "DEVICE", "NAMESPACE", "COMMAND");
	for (size_t i = 0; i < s->n_clients; i++) {
		const Mps__ClientStat *client = s->clients[i];
		char uuid[64], name[256], path[64];
		struct stat st = { .st_ino = 0 };

		if (!is_of(client, server) || !client->worker_pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/ns/pid", client->pid);
		if (stat(path, &st) < 0)
			st.st_ino = 0;
		command_of(client, name, sizeof(name));
		printf("%-10d%-10" PRIu64 "%-15d%-26s%-15llu%s\n", client->pid,
		       client->client, client->worker_pid,
		       uuid_of(c, client->device, false, uuid),
		       (unsigned long long)st.st_ino, name);
	}
	return 0;
}

/* As NVIDIA's writes it: 0000:00.06.00 is 0000:00:06.0. */
static void
long_bus(const Mps__Device *device, char out[static 32])
{
	unsigned int domain = 0, bus = 0, slot = 0, function = 0;

	sscanf(device->pci_bus_id, "%x:%x:%x.%x", &domain, &bus, &slot,
	       &function);
	snprintf(out, 32, "%04x:%02x.%02x.%02x", domain, bus, slot, function);
}

static void
query(struct command *c, bool csv, int only)
{
	const Mps__HelloReply *hello = hello_of(c);
	const char *form = csv ? "%s,%s,%s,%s,%s\n" :
				 "%-16s%-15s%-42s%-34s%s\n";

	printf(form, "Device Ordinal", "PCI IDs", "UUID", "Name", "Attributes");
	for (size_t i = 0; hello && i < hello->n_devices; i++) {
		const Mps__Device *device = hello->devices[i];
		char ordinal[16], bus[32], uuid[64];

		if (only >= 0 && device->ordinal != only)
			continue;
		snprintf(ordinal, sizeof(ordinal), "%d", device->ordinal);
		long_bus(device, bus);
		printf(form, ordinal, bus,
		       uuid_of(c, device->ordinal, true, uuid), device->name,
		       "N/A");
	}
}

static int
device_query(struct command *c)
{
	bool csv = !strcmp(c->words[c->count - 1], "--csv");
	const char *word = c->count - csv > 1 ? c->words[1] : NULL;
	const Mps__StatusReply *s = status_of(c);
	const Mps__WorkerStat *server = NULL;

	if (word) {
		server = need_server(c, word);
		if (!server)
			return 0;
	} else {
		puts("Default");
		query(c, csv, -1);
	}
	for (size_t i = 0; s && i < s->n_workers; i++) {
		if (server && s->workers[i] != server)
			continue;
		printf("%sServer %d\n", word ? "" : "\n", s->workers[i]->pid);
		query(c, csv, s->workers[i]->device);
	}
	return 0;
}

/* ---- settings -----------------------------------------------------------*/

/* Refused in the way that NVIDIA's refuses a bad value: by telling the one
 * that is in force. */
static int
percentage(struct command *c, const char *value)
{
	(void)c;
	if (value && strtod(value, NULL) != 100.0)
		fputs("active thread percentages have no effect: clients share "
		      "all multiprocessors\n", stderr);
	puts("100.0");
	return 0;
}

static int
default_percentage(struct command *c)
{
	return percentage(c, c->words[1]);
}

static int
server_percentage(struct command *c)
{
	if (!need_server(c, c->words[1]))
		return 0;
	return percentage(c, c->words[2]);
}

static int
set_priority(struct command *c)
{
	const char *value = c->words[1];

	if (!value || (strcmp(value, "0") && strcmp(value, "1")))
		puts("Invalid priority value - must be 0 or 1!");
	else if (*value == '1')
		fputs("client priorities have no effect: it stays 0\n", stderr);
	return 0;
}

static int
get_priority(struct command *c)
{
	(void)c;
	puts("0");
	return 0;
}

static int
get_limit(struct command *c)
{
	const Mps__StatusReply *s = status_of(c);
	char text[32];

	if (s && s->device_limit)
		puts(size_text(s->device_limit, text));
	return 0;
}

/* NVIDIA's says nothing, whatever it is given. */
static int
set_limit(struct command *c, const char *value)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Limit limit = MPS__LIMIT__INIT;
	int r;

	if (!value || mpsenv_size(value, &limit.device) < 0) {
		fputs("not taken: the limit is a size such as 10G or 512M\n",
		      stderr);
		return 0;
	}
	question.body_case = MPS__CONTROL__BODY_LIMIT;
	question.limit = &limit;
	r = ctl_ask_done(c->broker, &question, CTL_ANSWER_MS);
	return r < 0 ? r : 0;
}

/* Known once a worker has told which there are. */
static bool
is_no_device(struct command *c, const char *word)
{
	const Mps__HelloReply *hello = hello_of(c);
	char *end;
	long ordinal = strtol(word, &end, 10);

	if (end != word && !*end && ordinal >= 0 &&
	    (!hello || !hello->n_devices ||
	     (ordinal <= INT_MAX && device_of(c, (int)ordinal))))
		return false;
	fprintf(stderr, "not taken: there is no device %s\n", word);
	return true;
}

static int
set_default_limit(struct command *c)
{
	if (c->count > 2 && is_no_device(c, c->words[1]))
		return 0;
	return set_limit(c, c->count > 2 ? c->words[2] : NULL);
}

static int
get_server_limit(struct command *c)
{
	return need_server(c, c->words[1]) ? get_limit(c) : 0;
}

static int
set_server_limit(struct command *c)
{
	if (!need_server(c, c->words[1]) ||
	    (c->count > 3 && is_no_device(c, c->words[2])))
		return 0;
	return set_limit(c, c->count > 3 ? c->words[3] : NULL);
}

/* ---- what changes something ---------------------------------------------*/

static int
start_server(struct command *c)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Start start = MPS__START__INIT;
	int r;

	if (c->count < 3 || strcmp(c->words[1], "-uid")) {
		puts("A user id (UID) is required to start a new server");
		return 0;
	}
	if (strtoul(c->words[2], NULL, 10) != geteuid()) {
		fprintf(stderr, "this daemon has servers of user %u alone\n",
			(unsigned int)geteuid());
		return 0;
	}
	question.body_case = MPS__CONTROL__BODY_START;
	question.start = &start;
	r = ctl_ask_done(c->broker, &question, START_MS);
	return r < 0 ? r : 0;
}

static int
shutdown_server(struct command *c)
{
	const Mps__WorkerStat *server = need_server(c, c->words[1]);

	if (server)
		fprintf(stderr, "server %d ends with its daemon: quit\n",
			server->pid);
	return 0;
}

static bool
is_there(struct command *c, int pid)
{
	const Mps__StatusReply *s = status_of(c);

	for (size_t i = 0; s && i < s->n_clients; i++)
		if (s->clients[i]->pid == pid)
			return true;
	return false;
}

/* Until what it had on the device is done and its memory is back. */
static void
await_gone(struct command *c, int pid)
{
	struct timespec nap = { .tv_nsec = 20000000 };

	for (int ms = 0; is_there(c, pid) && ms < GONE_MS; ms += 20) {
		mps__control__free_unpacked(c->status, NULL);
		c->status = NULL;
		nanosleep(&nap, NULL);
	}
}

/* Answers with a CUresult. */
static int
terminate_client(struct command *c)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Terminate terminate = MPS__TERMINATE__INIT;
	const Mps__WorkerStat *server = need_server(c, c->words[1]);
	int r;

	if (!c->status)
		return -EPIPE;
	if (!server) {
		printf("Server %d not found!\n1\n",
		       c->words[1] ? atoi(c->words[1]) : 0);
		return 0;
	}
	terminate.pid = c->count > 2 ? atoi(c->words[2]) : 0;
	question.body_case = MPS__CONTROL__BODY_TERMINATE;
	question.terminate = &terminate;
	r = ctl_ask_done(c->broker, &question, CTL_ANSWER_MS);
	if (r < 0)
		return r;
	if (!r)
		await_gone(c, terminate.pid);
	printf("%d\n", r);
	return 0;
}

static int
quit(struct command *c)
{
	bool timed = c->count > 2 && !strcmp(c->words[1], "-t");
	char *end = NULL;
	unsigned long s = timed ? strtoul(c->words[2], &end, 10) : 0;
	int r;

	if (timed && (end == c->words[2] || *end)) {
		fprintf(stderr, "not ended: -t takes seconds, not %s\n",
			c->words[2]);
		return 0;
	}
	r = ctl_quit(c->broker, false);
	/* More than that, and what was negative, is three weeks. */
	if (s > INT_MAX / 1000)
		s = INT_MAX / 1000;
	if (!r)
		r = ctl_await_end(c->broker, timed ? 1000 * (int)s : -1);
	if (r == -ETIMEDOUT) {
		r = ctl_quit(c->broker, true);
		if (!r)
			r = ctl_await_end(c->broker, -1);
	}
	return r < 0 ? r : 1;
}

/* ---- lines --------------------------------------------------------------*/

static const struct {
	const char *name;
	int (*run)(struct command *c);
} commands[] = {
	{ "device_query", device_query },
	{ "get_active_thread_percentage", server_percentage },
	{ "get_client_list", get_client_list },
	{ "get_default_active_thread_percentage", default_percentage },
	{ "get_default_client_priority", get_priority },
	{ "get_default_device_pinned_mem_limit", get_limit },
	{ "get_device_client_list", get_device_client_list },
	{ "get_device_pinned_mem_limit", get_server_limit },
	{ "get_server_list", get_server_list },
	{ "get_server_status", get_server_status },
	{ "ps", ps },
	{ "quit", quit },
	{ "set_active_thread_percentage", server_percentage },
	{ "set_default_active_thread_percentage", default_percentage },
	{ "set_default_client_priority", set_priority },
	{ "set_default_device_pinned_mem_limit", set_default_limit },
	{ "set_device_pinned_mem_limit", set_server_limit },
	{ "shutdown_server", shutdown_server },
	{ "start_server", start_server },
	{ "terminate_client", terminate_client },
};

static int
run(struct command *c)
{
	const char *name = c->count ? c->words[0] : "";

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(commands[i].name, name))
			return commands[i].run(c);
	printf("Unknown command \"%s\"\n", name);
	return 0;
}

int
mps_command(struct ctl_broker *broker, const char *line)
{
	struct command c = { .broker = broker };
	_cleanup_free_ char *copy = strdup(line);
	char *rest = copy, *word;
	int r;

	if (!copy)
		return -ENOMEM;
	*broker->why = 0;
	while (c.count < WORDS && (word = strtok_r(rest, " \t\r", &rest)))
		c.words[c.count++] = word;
	r = run(&c);
	/* What was not answered. */
	if (!r && *broker->why)
		r = -EPIPE;
	mps__control__free_unpacked(c.status, NULL);
	mps__control__free_unpacked(c.hello, NULL);
	return r;
}
