/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaders and compilers of a driver follow what is in an image, and may end
 * with it. Before each such call the broker can read whose it is, so that a
 * second worker that ends over it is the last.
 */
#include "server/worker/risk.h"

#include <errno.h>
#include <string.h>

#include "proto/shmem.h"
#include "server/worker/client.h"

/* Without a broker's page nobody reads it, and nothing is refused. */
static struct risk_page own, *page = &own;

/* This thread's place; NULL: none yet, or none is left. What it has begun. */
static __thread struct risk_now *now;
static __thread enum risk_call begun;
static _Atomic uint32_t nthreads;

int
wkr_risk_open(int fd)
{
	long size = shmem_size(fd);
	void *map;

	if (size != (long)sizeof(*page))
		return size < 0 ? err_trace((int)size) : err_origin(-EBADMSG);
	map = shmem_map(fd, sizeof(*page));
	if (!map)
		return err_origin(-errno);
	page = map;
	return 0;
}

uint64_t
wkr_risk_name(const char *name)
{
	uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * UINT64_C(1099511628211);
	return hash;
}

static struct risk_record *
find(const uint8_t key[RISK_KEY])
{
	for (unsigned i = 0; i < RISK_RECORDS; i++) {
		struct risk_record *record = &page->records[i];

		/* Acquire: the key that goes with it. */
		if (atomic_load_explicit(&record->verdict,
					 memory_order_acquire) &&
		    memcmp(record->key, key, RISK_KEY) == 0)
			return record;
	}
	return NULL;
}

static bool
is_refused(const struct risk_record *record)
{
	return record && (atomic_load(&record->verdict) == RISK_REFUSED ||
			  atomic_load(&record->outcome) == RISK_FAILED);
}

bool
wkr_risk_is_suspect(const uint8_t key[RISK_KEY])
{
	struct risk_record *record = find(key);

	return record && atomic_load(&record->outcome) != RISK_PASSED;
}

static void
take_place(void)
{
	uint32_t place = now ? 0 : atomic_fetch_add(&nthreads, 1);

	if (!now && place < RISK_THREADS)
		now = &page->now[place];
}

bool
wkr_risk_begin(const struct wkr_client *client, enum risk_call call,
	       const uint8_t key[RISK_KEY], uint64_t detail)
{
	if (is_refused(find(key))) {
		log_line(LOG_WARN, "client %llu (pid %d): refused, since "
			 WKR_RISK_TEXT, (unsigned long long)client->id,
			 client->pid);
		return false;
	}
	take_place();
	if (!now)
		return true;
	now->client = client->id;
	now->detail = detail;
	memcpy(now->key, key, RISK_KEY);
	begun = call;
	/* Release: with the rest, for whoever reads it when this process has
	 * ended. */
	atomic_store_explicit(&now->call, call, memory_order_release);
	return true;
}

static void
end(enum risk_outcome outcome)
{
	struct risk_record *record = now ? find(now->key) : NULL;

	if (record && (outcome == RISK_FAILED ||
		       (record->call == atomic_load(&now->call) &&
			record->detail == now->detail)))
		atomic_store(&record->outcome, outcome);
	begun = RISK_NONE;
	if (now)
		atomic_store_explicit(&now->call, RISK_NONE,
				      memory_order_release);
}

void
wkr_risk_end(void)
{
	end(RISK_PASSED);
}

void
wkr_risk_fail(void)
{
	end(RISK_FAILED);
}

/*
 * Of two threads that die together, each may find the other's record before
 * that one is marked, but not both: so one of them is left in any case. One
 * that was cleared so is written again.
 */
void
wkr_risk_crash(void)
{
	static _Atomic bool fallen[RISK_THREADS];

	if (now)
		atomic_store(&fallen[now - page->now], true);
	for (unsigned i = 0; i < RISK_THREADS; i++)
		if (!atomic_load(&fallen[i]))
			atomic_store_explicit(&page->now[i].call, RISK_NONE,
					      memory_order_release);
	if (now)
		atomic_store_explicit(&now->call, begun,
				      memory_order_release);
}

void
wkr_risk_code(char out[WKR_RISK_CODE])
{
	static const char digits[] = "0123456789abcdef";
	char *at = out;

	if (now && begun != RISK_NONE) {
		at = stpcpy(at, ", code ");
		for (unsigned i = 0; i < 4; i++) {
			*at++ = digits[now->key[i] >> 4];
			*at++ = digits[now->key[i] & 15];
		}
	}
	*at = '\0';
}
