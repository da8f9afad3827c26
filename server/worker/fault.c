/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device has faulted: everything of this process answers the same error
 * from now on and only another process recovers. Tell all clients and the
 * broker, and end.
 */
#include <linux/futex.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/worker/call.h"
#include "server/worker/client.h"

/* Codes after which a CUDA process is lost. */
static bool
is_fault(CUresult code)
{
	switch ((int)code) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_EXTERNAL_DEVICE:
		return true;
	default:
		return false;
	}
}

/* Whose kernel it was, when only one client had any in flight. */
static struct wkr_client *
sole_suspect_locked(void)
{
	struct wkr_client *suspect = NULL;

	for (struct wkr_client *c = wkr.clients; c; c = c->next) {
		if (!atomic_load(&c->unretired_launches))
			continue;
		if (suspect)
			return NULL;
		suspect = c;
	}
	return suspect;
}

void
wkr_client_tell(struct wkr_client *client, CUresult code, const char *why)
{
	struct channel_page *page = client->channel.page;

	snprintf(page->why, sizeof(page->why), "%s", why);

	/* Release: whoever sees `dead` has seen all replies that came. */
	atomic_store_explicit(&page->dead, (uint32_t)code,
			      memory_order_release);
	for (unsigned i = 0; i < CHANNEL_SLOTS; i++)
		syscall(SYS_futex, &client->channel.slots[i].state, FUTEX_WAKE,
			INT_MAX, NULL, NULL, 0);
	if (pthread_mutex_trylock(&client->out_lock) == 0) {
		if (client->data >= 0)
			shutdown(client->data, SHUT_RDWR);
		pthread_mutex_unlock(&client->out_lock);
	}
}

/* Whose kernels were in flight, and how many they are. */
static uint32_t
name_suspects_locked(char *out, size_t size)
{
	const char *before = "one of clients";
	uint32_t count = 0;
	size_t at = 0;

	*out = 0;
	for (struct wkr_client *c = wkr.clients; c; c = c->next) {
		if (!atomic_load(&c->unretired_launches))
			continue;
		count++;
		if (at + 1 >= size)
			continue;
		at += (size_t)snprintf(out + at, size - at,
				       "%s %llu (pid %d)", before,
				       (unsigned long long)c->id, c->pid);
		before = ",";
	}
	if (!at)
		snprintf(out, size, "nobody's kernel was in flight");
	return count;
}

static _Noreturn void
fault(CUresult code)
{
	/* Never given back: the first thread ends the process. */
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	Mps__WorkerFault m = MPS__WORKER_FAULT__INIT;
	Mps__Control control = MPS__CONTROL__INIT;
	struct wkr_client *suspect;
	const char *name = NULL;
	char text[240], who[160];

	/* Each thread's own, before only the first one goes on. */
	wkr_keep_undo();
	pthread_mutex_lock(&once);
	pthread_mutex_lock(&wkr.clients_lock);
	suspect = sole_suspect_locked();
	wkr.drv.cuGetErrorName(code, &name);
	if (suspect)
		snprintf(who, sizeof(who), "by client %llu, pid %d",
			 (unsigned long long)suspect->id, suspect->pid);
	else
		m.suspects = name_suspects_locked(who, sizeof(who));
	snprintf(text, sizeof(text), "device %d: %s (%d), %s", wkr.ordinal,
		 name ? name : "fault", (int)code, who);
	/* Before anybody hears of it. */
	wkr_print_last();
	/* Its own code; what the others have lost the broker sees, and who is
	 * given the text of an assertion. */
	if (suspect && code != CUDA_ERROR_ASSERT)
		wkr_client_tell(suspect, code, "a kernel of this program has "
				"faulted");
	log_line(LOG_ERROR, "%s; this worker ends", text);
	m.status = (uint32_t)code;
	m.message = text;
	m.client = suspect ? suspect->id : 0;
	control.body_case = MPS__CONTROL__BODY_WORKER_FAULT;
	control.worker_fault = &m;
	wkr_control_send(&control, NULL, 0);
	wkr_leave(EXIT_FAILURE);
}

CUresult
wkr_ok(CUresult code)
{
	if (!is_fault(code))
		return code;
	fault(code);
}
