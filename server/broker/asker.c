/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/asker.h"

#include <errno.h>

#include "proto/err.h"
#include "proto/log.h"

static void
started(struct brk_wait *wait, struct brk_device *device, uint32_t status,
	const char *message)
{
	(void)device;
	brk_client_done(brk_of(wait, struct brk_client, wait), status, message);
}

static int
start(struct brk_client *client, const Mps__Start *message)
{
	struct brk_device *device = brk_device_get(client->broker,
						   message->device);

	if (!device) {
		brk_client_done(client, BRK_INVALID_DEVICE, "no such device");
		return 0;
	}
	if (client->broker->draining) {
		brk_client_done(client, BRK_MPS_SERVER_NOT_READY,
				"the broker is shutting down");
		return 0;
	}
	brk_client_later(client);
	client->wait.ready = started;
	brk_device_wait(device, &client->wait);
	return 0;
}

static struct brk_client *
find_pid(struct brk_broker *broker, pid_t pid)
{
	struct brk_client *client;

	LIST_FOREACH(client, &broker->clients, link)
		if (client->state == CLIENT_LIVE && client->pid == pid)
			return client;
	return NULL;
}

/* Why, before its connection ends: afterwards it looks no more. Its workers
 * have all that was its own until they are asked to forget it. */
static void
end(struct brk_client *client)
{
	struct brk_session *session;

	LIST_FOREACH(session, &client->sessions, link)
		if (session->state != SESSION_DEAD)
			brk_session_tell(session, BRK_MPS_CLIENT_TERMINATED,
					 "it was told to end");
	brk_client_end(client);
}

/* A process has one connection, but pids of different namespaces may be
 * the same number: all of them, as whoever says a number means. */
static int
terminate(struct brk_client *asking, const Mps__Terminate *message)
{
	struct brk_client *client;
	bool found = false;

	while ((client = find_pid(asking->broker, message->pid))) {
		log_line(LOG_INFO, "client %llu (pid %d) is terminated, as "
			 "pid %d wants", (unsigned long long)client->id,
			 (int)client->pid, (int)asking->pid);
		end(client);
		found = true;
	}
	brk_client_done(asking, found ? BRK_SUCCESS : BRK_INVALID_VALUE,
			found ? "" : "no such client");
	return 0;
}

static int
set_limit(struct brk_client *client, const Mps__Limit *message)
{
	client->broker->quotas.limits[QUOTA_DEVICE] =
		message->device ? message->device : UINT64_MAX;
	log_line(LOG_INFO, "device memory of a client is limited to %llu bytes "
		 "(0: not), as pid %d wants",
		 (unsigned long long)message->device, (int)client->pid);
	brk_client_done(client, BRK_SUCCESS, "");
	return 0;
}

int
brk_asker_question(struct brk_client *client, const Mps__Control *message)
{
	switch (message->body_case) {
	case MPS__CONTROL__BODY_START:
		return start(client, message->start);
	case MPS__CONTROL__BODY_TERMINATE:
		return terminate(client, message->terminate);
	case MPS__CONTROL__BODY_LIMIT:
		return set_limit(client, message->limit);
	default:
		return err_origin(-EPROTO);
	}
}
