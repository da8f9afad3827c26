/* SPDX-License-Identifier: Apache-2.0 */
#include "server/soft/soft_green.h"

/* Threads in each multiprocessor, guarded by soft_sched.lock. */
static uint16_t threads_in[SOFT_DEVICES_MAX][SOFT_SMS_MAX];

/* Multiprocessors that a thread stands for, and threads that one has room
 * for: one of the two is 1. */
static unsigned
sms_a_thread(const struct soft_sms *sms)
{
	unsigned all = (unsigned)sms->device->sms;
	unsigned share = (all + soft.threads - 1) / soft.threads;

	return share < sms->count ? share : sms->count;
}

static unsigned
threads_an_sm(const struct soft_sms *sms)
{
	unsigned share = soft.threads / (unsigned)sms->device->sms;

	return share ? share : 1;
}

static bool
has_room_locked(const struct soft_sms *sms, unsigned i)
{
	return threads_in[sms->device->ordinal][sms->number[i]] <
	       threads_an_sm(sms);
}

bool
soft_sms_free_locked(const struct soft_sms *sms)
{
	unsigned need = sms_a_thread(sms);

	for (unsigned i = 0; i < sms->count && need; i++)
		need -= has_room_locked(sms, i);
	return !need;
}

void
soft_sms_take_locked(const struct soft_sms *sms, struct soft_sms_taken *taken)
{
	unsigned need = sms_a_thread(sms);

	taken->of = sms;
	taken->count = 0;
	for (unsigned i = 0; i < sms->count && taken->count < need; i++)
		if (has_room_locked(sms, i)) {
			threads_in[sms->device->ordinal][sms->number[i]]++;
			taken->number[taken->count++] = sms->number[i];
		}
}

void
soft_sms_give_locked(struct soft_sms_taken *taken)
{
	for (unsigned i = 0; i < taken->count; i++)
		threads_in[taken->of->device->ordinal][taken->number[i]]--;
	taken->of = NULL;
	taken->count = 0;
}
