/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "server/broker/client.h"
#include "server/broker/pid.h"

/* Out of descriptors: some client will end. */
#define ACCEPT_LATER_MS 100
/* A worker that SIGKILL does not end must not keep us. */
#define LAST_WAIT_MS 15000

/* ---- connections --------------------------------------------------------*/

static void
accept_again(struct brk_timer *timer)
{
	struct brk_broker *broker = brk_of(timer, struct brk_broker,
					   accept_later);

	brk_loop_change(&broker->loop, &broker->listener, EPOLLIN);
}

/* True if there was somebody. */
static bool
accept_one(struct brk_broker *broker)
{
	int fd;

	fd = broker->nconnections < BRK_CLIENTS ?
		accept4(broker->listen_fd, NULL, NULL,
			SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
	if (fd >= 0) {
		brk_client_accept(broker, fd);
		return true;
	}
	if (broker->nconnections < BRK_CLIENTS &&
	    (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return false;
	log_once(LOG_ERROR, "cannot accept more clients (%u now): %s",
		 broker->nconnections, broker->nconnections < BRK_CLIENTS ?
		 err_text(-errno) : "too many");
	brk_loop_change(&broker->loop, &broker->listener, 0);
	brk_timer_set(&broker->loop, &broker->accept_later, ACCEPT_LATER_MS);
	return false;
}

static void
listener_dispatch(struct brk_source *source, uint32_t events)
{
	(void)events;
	accept_one(brk_of(source, struct brk_broker, listener));
}

/* ---- the end ------------------------------------------------------------*/

/* While the directory is still ours. */
static void
unlink_names(struct brk_broker *broker)
{
	struct stat st;

	if (broker->listen_fd < 0)
		return;
	brk_pid_remove(broker->pid_file);
	if (!lstat(broker->path, &st) && st.st_dev == broker->socket_dev &&
	    st.st_ino == broker->socket_ino)
		unlink(broker->path);
}

static void
stop_listening(struct brk_broker *broker)
{
	unlink_names(broker);
	brk_timer_stop(&broker->accept_later);
	brk_loop_remove(&broker->loop, &broker->listener);
	err_closep(&broker->listen_fd);
	broker->listen_fd = -1;
	/* The next broker may start while our workers end. */
	err_closep(&broker->lock_fd);
	broker->lock_fd = -1;
}

static bool
has_worker(const struct brk_broker *broker)
{
	const struct brk_device *device;

	TAILQ_FOREACH(device, &broker->places, link)
		if (device->worker)
			return true;
	return false;
}

/* A client of whatever kind but those who only ask: they see our end. */
static struct brk_client *
next_client(struct brk_broker *broker)
{
	struct brk_client *client;

	LIST_FOREACH(client, &broker->clients, link)
		if (client->state != CLIENT_ENDED &&
		    client->state != CLIENT_ASKING)
			return client;
	return NULL;
}

static void
end_now(struct brk_timer *timer)
{
	struct brk_broker *broker = brk_of(timer, struct brk_broker, ending);
	struct brk_device *device;
	struct brk_client *client;

	/* The second time: a worker did not end. */
	if (broker->listen_fd < 0 || !has_worker(broker))
		broker->loop.done = true;
	if (broker->listen_fd < 0)
		return;
	stop_listening(broker);
	TAILQ_FOREACH(device, &broker->places, link) {
		if (!device->worker)
			continue;
		brk_device_lost(device, &(struct brk_loss){
				.generation = device->worker->generation,
				.status = BRK_MPS_CLIENT_TERMINATED });
		brk_worker_stop(device->worker);
	}
	while ((client = next_client(broker)))
		brk_client_end(client);
	brk_timer_set(&broker->loop, timer, LAST_WAIT_MS);
}

void
brk_broker_quit(struct brk_broker *broker, bool force)
{
	if (!broker->draining)
		log_line(LOG_INFO, "shutting down (%u client%s%s)",
			 broker->nclients, broker->nclients == 1 ? "" : "s",
			 force ? ", ended by force" : "");
	broker->draining = true;
	if (broker->listen_fd >= 0 && (force || !broker->nclients))
		brk_timer_set(&broker->loop, &broker->ending, 0);
}

/* Whoever waited for our end in vain wants us to go on: new programs would be
 * refused until somebody finds out why. */
void
brk_broker_unquit(struct brk_broker *broker)
{
	if (--broker->quitters || broker->ending.due_ns ||
	    broker->listen_fd < 0)
		return;
	log_line(LOG_INFO, "nobody waits for our end any more: going on");
	broker->draining = false;
}

static void
idle_for_long(struct brk_timer *timer)
{
	struct brk_broker *broker = brk_of(timer, struct brk_broker, idle);

	/* Somebody may have come in this very moment; who comes after the
	 * name is gone sees end-of-file before an answer and starts anew. */
	if (accept_one(broker))
		return;
	log_line(LOG_INFO, "nobody came for %llu s: ending",
		 (unsigned long long)(broker->idle_ms / 1000));
	brk_broker_quit(broker, true);
}

void
brk_broker_counted(struct brk_broker *broker)
{
	if (broker->nconnections)
		brk_timer_stop(&broker->idle);
	else if (broker->idle_ms && !broker->idle.due_ns)
		brk_timer_set(&broker->loop, &broker->idle, broker->idle_ms);
	if (broker->draining && !broker->nclients)
		brk_broker_quit(broker, false);
}

/* ---- signals ------------------------------------------------------------*/

static void
reap(struct brk_broker *broker)
{
	struct brk_device *device = TAILQ_FIRST(&broker->places), *next;

	for (; device; device = next) {
		next = TAILQ_NEXT(device, link);
		if (device->worker)
			brk_worker_reap(device->worker);
	}
	if (broker->listen_fd < 0 && !has_worker(broker))
		broker->loop.done = true;
}

static void
signals_dispatch(struct brk_source *source, uint32_t events)
{
	struct brk_broker *broker = brk_of(source, struct brk_broker, signals);
	struct signalfd_siginfo info;

	(void)events;
	if (read(broker->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGCHLD) {
		reap(broker);
		return;
	}
	log_line(LOG_INFO, "signal %u", info.ssi_signo);
	brk_broker_quit(broker, true);
}

static int
watch_signals(struct brk_broker *broker)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	/* Who starts us from inside a guest leaves all signals blocked. */
	if (sigprocmask(SIG_SETMASK, &mask, NULL) < 0)
		return err_origin(-errno);
	/* An inherited SIG_IGN would reap our workers before we do. */
	signal(SIGCHLD, SIG_DFL);
	broker->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (broker->signal_fd < 0)
		return err_origin(-errno);
	broker->signals.dispatch = signals_dispatch;
	return brk_loop_add(&broker->loop, &broker->signals,
			    broker->signal_fd, EPOLLIN);
}

/* ---- start --------------------------------------------------------------*/

/*
 * Held for as long as we serve the directory. Without it two brokers could
 * each find the other's fresh socket stale and replace it.
 */
static int
take_lock(struct brk_broker *broker)
{
	char path[PATH_MAX], pid[16];
	int n = snprintf(path, sizeof(path), "%s/mpsd.lock", broker->dir);

	if (n < 0 || (size_t)n >= sizeof(path))
		return err_origin(-ENAMETOOLONG);
	broker->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			       0600);
	if (broker->lock_fd < 0)
		return err_origin(-errno);
	if (flock(broker->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EADDRINUSE : err_origin(-errno);
	/* For people to read; a full disk does not matter. */
	n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(broker->lock_fd, 0) < 0 ||
	    pwrite(broker->lock_fd, pid, (size_t)n, 0) < 0)
		err_origin(-errno);
	return 0;
}

static int
start_listening(struct brk_broker *broker)
{
	struct stat st;
	int r;

	r = sock_listen(broker->path);
	if (r < 0)
		return r == -EADDRINUSE ? r : err_trace(r);
	broker->listen_fd = r;
	if (lstat(broker->path, &st) < 0)
		return err_origin(-errno);
	broker->socket_dev = st.st_dev;
	broker->socket_ino = st.st_ino;
	broker->listener.dispatch = listener_dispatch;
	return err_trace(brk_loop_add(&broker->loop, &broker->listener,
				      broker->listen_fd, EPOLLIN));
}

int
brk_broker_start(struct brk_broker *broker)
{
	int r;

	broker->listen_fd = broker->signal_fd = broker->lock_fd = -1;
	broker->started_ns = brk_now_ns();
	LIST_INIT(&broker->clients);
	TAILQ_INIT(&broker->places);
	LIST_INIT(&broker->addresses.pieces);
	broker->accept_later.fire = accept_again;
	broker->idle.fire = idle_for_long;
	broker->ending.fire = end_now;
	broker->store.dropped = brk_images_dropped;
	r = brk_loop_init(&broker->loop);
	if (r < 0)
		return err_trace(r);
	/* Before the first write: under RLIMIT_FSIZE that may be a signal. */
	r = watch_signals(broker);
	if (r < 0)
		return err_trace(r);
	r = take_lock(broker);
	if (r < 0)
		return r;
	r = start_listening(broker);
	if (r < 0)
		return r;
	brk_broker_counted(broker);
	return 0;
}

void
brk_broker_fini(struct brk_broker *broker)
{
	struct brk_device *device, *after;
	struct brk_client *client, *next;

	for (client = LIST_FIRST(&broker->clients); client; client = next) {
		next = LIST_NEXT(client, link);
		brk_client_end(client);
	}
	for (device = TAILQ_FIRST(&broker->places); device; device = after) {
		after = TAILQ_NEXT(device, link);
		if (!device->worker)
			brk_device_free(device);
	}
	brk_ipc_fini(broker);
	brk_store_fini(&broker->store);
	unlink_names(broker);
	err_closep(&broker->listen_fd);
	err_closep(&broker->signal_fd);
	err_closep(&broker->lock_fd);
	brk_loop_fini(&broker->loop);
}
