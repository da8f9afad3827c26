/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/solo.h"

#include <stdio.h>
#include <string.h>

#include "proto/log.h"
#include "server/broker/client.h"

/* ---- who has faulted ----------------------------------------------------*/

static bool
is_of(const struct brk_faulty *program, uid_t uid, const char *job,
      const char *exe)
{
	return program->ns[0] && program->uid == uid &&
	       !strcmp(program->job, job) && !strcmp(program->exe, exe);
}

static const struct brk_faulty *
find(const struct brk_faults *faults, uid_t uid, const char *job,
     const char *exe)
{
	for (size_t i = 0; i < SOLO_PROGRAMS; i++)
		if (is_of(&faults->programs[i], uid, job, exe))
			return &faults->programs[i];
	return NULL;
}

static struct brk_faulty *
oldest(struct brk_faults *faults)
{
	struct brk_faulty *program = &faults->programs[0];

	for (size_t i = 1; i < SOLO_PROGRAMS; i++)
		if (faults->programs[i].ns[0] < program->ns[0])
			program = &faults->programs[i];
	return program;
}

void
brk_faults_add(struct brk_faults *faults, uid_t uid, const char *job,
	       const char *exe, uint64_t now_ns)
{
	struct brk_faulty *program =
		(struct brk_faulty *)find(faults, uid, job, exe);

	if (!program) {
		program = oldest(faults);
		*program = (struct brk_faulty){ .uid = uid };
		snprintf(program->job, sizeof(program->job), "%s", job);
		snprintf(program->exe, sizeof(program->exe), "%s", exe);
	}
	memmove(program->ns + 1, program->ns,
		(SOLO_FAULTS - 1) * sizeof(program->ns[0]));
	program->ns[0] = now_ns;
}

bool
brk_faults_are_many(const struct brk_faults *faults, uid_t uid,
		    const char *job, const char *exe, uint64_t now_ns)
{
	const struct brk_faulty *program = find(faults, uid, job, exe);
	uint64_t first = program ? program->ns[SOLO_FAULTS - 1] : 0;

	return first && now_ns - first < SOLO_FAULTS_NS;
}

/* ---- clients ------------------------------------------------------------*/

void
brk_solo_judge(struct brk_client *client, bool asked)
{
	const char *why = "";

	if (asked)
		why = "it asks for it (MPSSHIM_SOLO)";
	else if (brk_faults_are_many(&client->broker->faults, client->uid,
				     client->job, client->exe, brk_now_ns()))
		why = "quarantine: this program has faulted twice within ten "
		      "minutes";
	snprintf(client->solo, sizeof(client->solo), "%s", why);
	if (*why)
		log_line(LOG_INFO, "client %llu (pid %d) gets a worker of its "
			 "own: %s", (unsigned long long)client->id,
			 (int)client->pid, why);
}

void
brk_solo_faulted(struct brk_worker *worker, uint64_t id)
{
	struct brk_broker *broker = worker->broker;
	struct brk_session *session;
	struct brk_client *client;

	LIST_FOREACH(client, &broker->clients, link) {
		if (client->id != id)
			continue;
		session = brk_session_find(client, worker->device->ordinal);
		/* A worker speaks of its own clients only. */
		if (session && session->generation == worker->generation)
			brk_faults_add(&broker->faults, client->uid,
				       client->job, client->exe, brk_now_ns());
	}
}
