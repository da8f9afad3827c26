/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "server/broker/client.h"
#include "server/broker/move.h"

/* A worker that does not read this much is not well. */
#define WORKER_QUEUE (4u << 20)
/* cuInit of eight devices without persistence mode takes some 20 s. */
#define START_MS 120000
/* After end-of-file on its socket; then SIGKILL. */
#define GRACE_MS 5000
/* The driver may take long to tear a process down. */
#define TEARDOWN_MS 60000

/*
 * What a worker inherits. The client's preload and CUDA variables are
 * the client's own affair and never reach the driver.
 */
static const char *const env_names[] = {
	"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME",
	"XDG_CACHE_HOME", "CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE",
	"CUDA_CACHE_DISABLE", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",
	"LSAN_OPTIONS", "GCOV_PREFIX", "GCOV_PREFIX_STRIP",
};
static const char *const env_prefixes[] = { "SOFTCUDA_", "MPSSHIM_" };

enum { ENV_MAX = 128 };

static bool
env_allowed(const char *entry)
{
	size_t name = strcspn(entry, "=");

	for (size_t i = 0; i < sizeof(env_names) / sizeof(*env_names); i++)
		if (strlen(env_names[i]) == name &&
		    !strncmp(entry, env_names[i], name))
			return true;
	for (size_t i = 0; i < sizeof(env_prefixes) / sizeof(*env_prefixes);
	     i++)
		if (!strncmp(entry, env_prefixes[i], strlen(env_prefixes[i])))
			return true;
	return false;
}

/*
 * The real driver connects to `control` in CUDA_MPS_PIPE_DIRECTORY, by
 * default in /tmp/nvidia-mps: give it a directory where there is none.
 */
static const char *
empty_dir(struct brk_broker *broker)
{
	int n;

	if (*broker->empty_dir)
		return broker->empty_dir;
	n = snprintf(broker->empty_dir, sizeof(broker->empty_dir),
		     "%s/.empty", broker->dir);
	if (n < 0 || (size_t)n >= sizeof(broker->empty_dir) ||
	    (mkdir(broker->empty_dir, 0700) < 0 && errno != EEXIST))
		snprintf(broker->empty_dir, sizeof(broker->empty_dir),
			 "/proc/self/fdinfo");
	return broker->empty_dir;
}

/* What the worker's environment points at. */
struct env_room {
	char pipe_dir[PATH_MAX + 32], libraries[PATH_MAX + 32], devices[1024];
	char *list[ENV_MAX];
};

static void
build_env(struct brk_broker *broker, struct env_room *room)
{
	/* More than the default of 8 queues; first use loads. */
	static char connections[] = "CUDA_DEVICE_MAX_CONNECTIONS=32";
	static char loading[] = "CUDA_MODULE_LOADING=LAZY";
	const char *driver = broker->driver.path;
	char **env = room->list;
	int n = 0;

	snprintf(room->pipe_dir, sizeof(room->pipe_dir),
		 "CUDA_MPS_PIPE_DIRECTORY=%s", empty_dir(broker));
	/* The driver's own helpers (PTX compiler, debugger) lie beside it,
	 * in containers often where the loader does not look. The user's
	 * list may have our shim in it and stays out. */
	snprintf(room->libraries, sizeof(room->libraries),
		 "LD_LIBRARY_PATH=%.*s", (int)(strrchr(driver, '/') - driver),
		 driver);
	env[n++] = room->pipe_dir;
	env[n++] = room->libraries;
	env[n++] = connections;
	env[n++] = loading;
	/* The operator's choice. What a client sees of it is the client's. */
	if (broker->visible) {
		snprintf(room->devices, sizeof(room->devices),
			 "CUDA_VISIBLE_DEVICES=%s", broker->visible);
		env[n++] = room->devices;
	}
	for (char **e = environ; *e && n < ENV_MAX - 1; e++)
		if (env_allowed(*e))
			env[n++] = *e;
	env[n] = NULL;
}

static int
spawn(struct brk_device *device, int sock, int output, int risks,
      pid_t *out_pid)
{
	struct brk_broker *broker = device->broker;
	struct env_room env;
	char ordinal[16], *argv[] = {
		broker->worker_program, (char *)"--driver",
		broker->driver.path, (char *)"--device", ordinal,
		NULL, NULL, NULL, NULL,
	};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int n = 5, r;

	if (device->solo)
		argv[n++] = (char *)"--solo";
	if (risks >= 0) {
		argv[n++] = (char *)"--risk-fd";
		argv[n++] = (char *)"4";
	}
	snprintf(ordinal, sizeof(ordinal), "%d", device->ordinal);
	build_env(broker, &env);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	/* A group of its own: a Ctrl-C for us is not one for the worker. */
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
				 POSIX_SPAWN_SETSIGDEF |
				 POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output, 1);
	posix_spawn_file_actions_adddup2(&actions, output, 2);
	posix_spawn_file_actions_adddup2(&actions, sock, 3);
	if (risks >= 0)
		posix_spawn_file_actions_adddup2(&actions, risks, 4);
	r = posix_spawn(out_pid, broker->worker_program, &actions, &attr, argv,
			env.list);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r ? err_origin(-r) : 0;
}

/* ---- output -------------------------------------------------------------*/

static void
output_dispatch(struct brk_source *source, uint32_t events)
{
	(void)events;
	brk_worker_read(brk_of(source, struct brk_worker, output));
}

/* ---- questions ----------------------------------------------------------*/

static void
request_end(struct brk_request *request, struct brk_result *result)
{
	struct brk_client *client = request->client;

	LIST_REMOVE(request, link);
	/* The callback may free what holds the request, not the client. */
	request->answered(request, result);
	if (result->fd >= 0)
		close(result->fd);
	if (client)
		brk_client_let_go(client);
}

/* What a client hears of a question is what it hears of its work. */
static uint32_t
status_for(struct brk_client *client, const struct brk_worker *worker,
	   uint32_t status)
{
	struct brk_session *session = client ?
		brk_session_find(client, worker->device->ordinal) : NULL;

	return session && session->state == SESSION_DEAD ? session->death :
							   status;
}

static void
fail_requests(struct brk_worker *worker, uint32_t status)
{
	struct brk_request *request;

	while ((request = LIST_FIRST(&worker->requests))) {
		struct brk_client *client = request->client;
		struct brk_result result = {
			.status = status_for(client, worker, status),
			.fd = -1, .lost = true,
			.message = "the worker of the device is lost",
		};

		/* A client that goes on asks its question again. */
		if (client)
			client->redoes = brk_move_is_on(client);
		if (client)
			brk_client_hold(client);
		request_end(request, &result);
		if (client)
			client->redoes = false;
		if (client)
			brk_client_let_go(client);
	}
}

void
brk_worker_ask(struct brk_worker *worker, struct brk_request *request,
	       Mps__Control *message, const int *fds, int nfds)
{
	request->id = message->id = ++worker->next_request;
	if (request->client)
		brk_client_hold(request->client);
	LIST_INSERT_HEAD(&worker->requests, request, link);
	/* If it cannot be sent, the worker ends, and this question with it. */
	brk_conn_send(&worker->conn, message, fds, nfds);
}

static int
answer(struct brk_worker *worker, const Mps__Control *message)
{
	struct brk_result result = { .fd = -1, .message = "" };
	struct brk_request *request;

	LIST_FOREACH(request, &worker->requests, link)
		if (request->id == message->id)
			break;
	if (!request)
		return err_origin(-EPROTO);
	if (message->body_case == MPS__CONTROL__BODY_WORKER_STATS_REPLY) {
		if (!request->wants_stats)
			return err_origin(-EPROTO);
		result.stats = message->worker_stats_reply;
	} else {
		result.status = message->done->status;
		result.message = message->done->message;
		result.value = message->done->value;
	}
	if (request->wants_fd && !result.status) {
		result.fd = sock_reader_take_fd(&worker->conn.reader);
		if (result.fd < 0)
			return err_origin(-EPROTO);
	}
	request_end(request, &result);
	return 0;
}

/* It will not become ready: tell those who wait for it, once. */
static void
give_up(struct brk_worker *worker, uint32_t status, const char *message)
{
	if (worker->gave_up)
		return;
	worker->gave_up = true;
	log_line(LOG_ERROR, "device %d: %s", worker->device->ordinal, message);
	brk_device_failed(worker->device, status, message);
}

/* Keep a copy that outlives the frame. */
static Mps__WorkerReady *
copy_ready(const Mps__WorkerReady *ready)
{
	size_t size = mps__worker_ready__get_packed_size(ready);
	_cleanup_free_ uint8_t *bytes = malloc(size ? size : 1);

	if (!bytes)
		return NULL;
	mps__worker_ready__pack(ready, bytes);
	return mps__worker_ready__unpack(NULL, size, bytes);
}

/* Of a solo client's worker, who shares the device knows it, too. */
static void
learn(const struct brk_device *device, const Mps__WorkerReady *ready)
{
	struct brk_device *shared = device->broker->devices[device->ordinal];

	if (device->solo && !shared->snapshot)
		shared->snapshot = copy_ready(ready);
}

static int
worker_ready(struct brk_worker *worker, const Mps__WorkerReady *ready)
{
	struct brk_device *device = worker->device;
	Mps__WorkerReady *copy;

	if (worker->state != WORKER_STARTING)
		return err_origin(-EPROTO);
	if (ready->status || !ready->n_devices) {
		give_up(worker, ready->status ? ready->status :
			BRK_SYSTEM_NOT_READY, ready->message);
		return -EPIPE;
	}
	copy = copy_ready(ready);
	if (!copy)
		return err_origin(-ENOMEM);
	mps__worker_ready__free_unpacked(device->snapshot, NULL);
	device->snapshot = copy;
	brk_timer_stop(&worker->patience);
	learn(device, ready);
	worker->total = ready->total;
	worker->nwindows = brk_windows_check(ready->windows, ready->n_windows,
					     worker->windows);
	worker->broker->quotas.limits[QUOTA_ADDRESS] =
		brk_windows_share(worker->windows, worker->nwindows,
				  worker->total);
	worker->state = WORKER_READY;
	worker->was_ready = true;
	log_line(LOG_INFO, "worker %d of device %d is ready (generation %llu, "
		 "%s)", (int)worker->pid, device->ordinal,
		 (unsigned long long)worker->generation, copy->driver);
	brk_device_ready(device);
	return 0;
}

static const char *
program_of(const struct brk_broker *broker, uint64_t id)
{
	const struct brk_client *client;

	LIST_FOREACH(client, &broker->clients, link)
		if (client->id == id)
			return client->exe;
	return "a client that has ended";
}

static int
worker_fault(struct brk_worker *worker, const Mps__WorkerFault *fault)
{
	/* What it said of the fault is here already. */
	for (int i = 0; i < 64 && brk_worker_read(worker); i++)
		;
	worker->culprit = fault->client;
	/* Its last words: the process ends by that signal, unless it sees the
	 * end of this connection first. */
	worker->died = fault->signal;
	if (worker->died) {
		log_line(LOG_ERROR, "worker %d of device %d dies in a call of "
			 "%s: %s", (int)worker->pid, worker->device->ordinal,
			 program_of(worker->broker, fault->client),
			 fault->message);
		return -EPIPE;
	}
	worker->fault = fault->status ? fault->status : BRK_LAUNCH_FAILED;
	worker->suspects = fault->suspects;
	snprintf(worker->fault_message, sizeof(worker->fault_message), "%s",
		 fault->message);
	snprintf(worker->device->last_fault,
		 sizeof(worker->device->last_fault), "%s", fault->message);
	worker->device->last_fault_ns = brk_now_ns();
	if (worker->fault != BRK_ECC_UNCORRECTABLE)
		brk_solo_faulted(worker, fault->client);
	log_line(LOG_ERROR, "worker %d of device %d: fault %u, %s (client "
		 "%llu)", (int)worker->pid, worker->device->ordinal,
		 worker->fault, fault->message,
		 (unsigned long long)fault->client);
	return -EPIPE;
}

static int
worker_frame(struct brk_conn *conn, const Mps__Control *message)
{
	struct brk_worker *worker = brk_of(conn, struct brk_worker, conn);

	switch (message->body_case) {
	case MPS__CONTROL__BODY_WORKER_READY:
		return worker_ready(worker, message->worker_ready);
	case MPS__CONTROL__BODY_WORKER_FAULT:
		return worker_fault(worker, message->worker_fault);
	case MPS__CONTROL__BODY_WORKER_TAKEN:
		brk_session_taken(worker, message->worker_taken);
		return 0;
	case MPS__CONTROL__BODY_DONE:
	case MPS__CONTROL__BODY_WORKER_STATS_REPLY:
		return answer(worker, message);
	default:
		return err_origin(-EPROTO);
	}
}

/* ---- end ----------------------------------------------------------------*/

static void
lost_patience(struct brk_timer *timer)
{
	struct brk_worker *worker = brk_of(timer, struct brk_worker, patience);

	if (worker->state == WORKER_STARTING) {
		give_up(worker, BRK_SYSTEM_NOT_READY,
			"the worker did not become ready");
		brk_worker_stop(worker);
		return;
	}
	if (!worker->killed) {
		kill(worker->pid, SIGKILL);
		worker->killed = true;
		brk_timer_set(&worker->broker->loop, timer, TEARDOWN_MS);
		return;
	}
	brk_device_failed(worker->device, BRK_SYSTEM_NOT_READY,
			  "the last worker's process does not end");
	brk_move_fail(worker->device, BRK_SYSTEM_NOT_READY,
		      "the last worker's process does not end");
	brk_timer_set(&worker->broker->loop, timer, TEARDOWN_MS);
}

/* Of no more use: its connection is closed, everybody hears of it. */
static void
retire(struct brk_worker *worker, uint64_t grace_ms)
{
	uint32_t status = worker->fault ? worker->fault : BRK_MPS_RPC_FAILURE;
	struct brk_loss loss = {
		.generation = worker->generation,
		.fault = worker->fault, .culprit = worker->culprit,
		.text = worker->fault == BRK_ASSERT ? worker->text : NULL,
	};

	if (worker->state == WORKER_ENDING)
		return;
	worker->state = WORKER_ENDING;
	brk_conn_fini(&worker->conn);
	brk_timer_set(&worker->broker->loop, &worker->patience, grace_ms);
	brk_device_lost(worker->device, &loss);
	fail_requests(worker, status);
}

static void
worker_end(struct brk_conn *conn, int reason)
{
	struct brk_worker *worker = brk_of(conn, struct brk_worker, conn);
	bool gone = reason == -EPIPE || reason == -ECONNRESET;

	if (!gone)
		log_line(LOG_ERROR, "worker %d of device %d: %s: killed",
			 (int)worker->pid, worker->device->ordinal,
			 err_text(reason));
	retire(worker, gone ? GRACE_MS : 0);
}

void
brk_worker_stop(struct brk_worker *worker)
{
	/* The loop sees the hang-up; retire() follows from there. */
	if (worker->state != WORKER_ENDING)
		brk_conn_fail(&worker->conn, -EPIPE);
}

static void
describe(char *out, size_t size, const struct brk_worker *worker, int status)
{
	bool killed = WIFSIGNALED(status);

	if (worker->replaced && killed && WTERMSIG(status) == SIGKILL) {
		snprintf(out, size, "worker %d of device %d, which was not "
			 "needed any more, ended", (int)worker->pid,
			 worker->device->ordinal);
		return;
	}
	snprintf(out, size, "the worker of device %d ended%s: %s %d (process "
		 "%d%s)", worker->device->ordinal,
		 worker->was_ready ? "" : " while starting",
		 killed ? "signal" : "exit status",
		 killed ? WTERMSIG(status) : WEXITSTATUS(status),
		 (int)worker->pid,
		 killed && WCOREDUMP(status) ? ", core dumped" : "");
}

/* Read what it left behind: an answer, a fault, a line of text. */
static void
read_rest(struct brk_worker *worker)
{
	struct brk_source *source = &worker->conn.source;

	/* Bounded: a child of the worker might hold the socket open. */
	for (int i = 0; i < 64 && worker->state != WORKER_ENDING; i++)
		source->dispatch(source, EPOLLIN);
	for (int i = 0; i < 64 && brk_worker_read(worker); i++)
		;
	brk_worker_end_line(worker);
}

bool
brk_worker_reap(struct brk_worker *worker)
{
	struct brk_device *device = worker->device;
	char line[128];
	bool badly, decided, counts;
	int status;

	if (waitpid(worker->pid, &status, WNOHANG) != worker->pid)
		return false;
	read_rest(worker);
	describe(line, sizeof(line), worker, status);
	/* A fault, or a call that the driver dies in, is some client's doing,
	 * who has lost by it; what counts
	 * against the device is a worker that ends without saying why, or
	 * with nobody's kernel in flight. If it was code that is refused from
	 * now on, the first of its two ends has counted. */
	badly = worker->was_ready && (status || worker->died) &&
		!worker->fault && !worker->replaced;
	decided = badly && !worker->killed && brk_risk_judge(worker);
	counts = !worker->was_ready ||
		 (badly && !worker->culprit && !decided) ||
		 (worker->fault && !worker->suspects && !worker->culprit) ||
		 worker->fault == BRK_ECC_UNCORRECTABLE;
	log_line(counts ? LOG_ERROR : LOG_INFO, "%s", line);
	if (!worker->was_ready)
		give_up(worker, BRK_SYSTEM_NOT_READY, line);
	else if (counts)
		brk_device_remember(device, worker->fault, line);
	retire(worker, 0);
	brk_timer_stop(&worker->patience);
	brk_loop_remove(&worker->broker->loop, &worker->output);
	close(worker->output_fd);
	brk_store_forget(&worker->broker->store, worker);
	brk_risk_close(worker);
	device->worker = NULL;
	free(worker);
	brk_device_ended(device, counts);
	return true;
}

/* ---- start --------------------------------------------------------------*/

/* High numbers, so that no descriptor is in the way of 0 to 4 in spawn(). */
static int
pair(int out[2], bool sockets)
{
	int low[2], r;

	r = sockets ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, low) :
		      pipe2(low, O_CLOEXEC);
	if (r < 0)
		return err_origin(-errno);
	for (int i = 0; i < 2; i++)
		out[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 10);
	r = out[0] < 0 || out[1] < 0 ? err_origin(-errno) : 0;
	close(low[0]);
	close(low[1]);
	if (r < 0) {
		err_closep(&out[0]);
		err_closep(&out[1]);
	}
	return r;
}

/* Its page, or -1: then nobody will know what it ended over. */
static int
open_risks(struct brk_worker *worker)
{
	_cleanup_close_ int low = -1;
	int r = brk_risk_open(worker, &low);

	if (r >= 0) {
		r = fcntl(low, F_DUPFD_CLOEXEC, 10);
		r = r < 0 ? -errno : r;
	}
	if (r < 0)
		log_line(LOG_WARN, "device %d: no page to see what its worker "
			 "does: %s", worker->device->ordinal, err_text(r));
	return r < 0 ? -1 : r;
}

static int
connect_worker(struct brk_worker *worker, int sock[2], int output[2])
{
	_cleanup_close_ int risks = -1;
	int r;

	r = brk_conn_init(&worker->conn, &worker->broker->loop, sock[0],
			  WORKER_QUEUE);
	sock[0] = -1;
	if (r < 0)
		return err_trace(r);
	worker->conn.on_frame = worker_frame;
	worker->conn.on_end = worker_end;
	fcntl(output[0], F_SETFL, O_NONBLOCK);
	worker->output.dispatch = output_dispatch;
	r = brk_loop_add(&worker->broker->loop, &worker->output, output[0],
			 EPOLLIN);
	if (r < 0)
		return err_trace(r);
	risks = open_risks(worker);
	return err_trace(spawn(worker->device, sock[1], output[1], risks,
			       &worker->pid));
}

int
brk_worker_start(struct brk_device *device, struct brk_worker **out_worker)
{
	struct brk_broker *broker = device->broker;
	int sock[2] = { -1, -1 }, output[2] = { -1, -1 }, r;
	struct brk_worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return err_origin(-ENOMEM);
	worker->device = device;
	worker->broker = broker;
	worker->conn.fd = worker->output.fd = -1;
	worker->patience.fire = lost_patience;
	LIST_INIT(&worker->requests);
	r = pair(sock, true);
	if (!r)
		r = pair(output, false);
	if (!r)
		r = connect_worker(worker, sock, output);
	err_closep(&sock[1]);
	err_closep(&output[1]);
	if (r < 0) {
		brk_conn_fini(&worker->conn);
		brk_loop_remove(&broker->loop, &worker->output);
		brk_risk_close(worker);
		err_closep(&sock[0]);
		err_closep(&output[0]);
		free(worker);
		return r;
	}
	worker->output_fd = output[0];
	worker->generation = ++broker->workers_started;
	brk_timer_set(&broker->loop, &worker->patience, START_MS);
	log_line(LOG_INFO, "worker %d of device %d started%s",
		 (int)worker->pid, device->ordinal,
		 device->solo ? ", for one client alone" : "");
	*out_worker = worker;
	return 0;
}
