/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code of a client that another worker has had. It is loaded when it is
 * wanted, and not before: by the gate, as any code. Whoever wants it
 * meanwhile tries again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/launch.h"
#include "server/worker/crash.h"
#include "server/worker/module.h"

int
wkr_dormant_module(struct wkr_client *client, uint64_t handle,
		   const uint8_t *hash, uint64_t size, uint32_t kind,
		   const void *options, size_t options_size)
{
	struct wkr_module *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->client = client;
	m->handle = handle;
	m->kind = kind;
	m->restored = true;
	atomic_store(&m->refs, 1);
	m->dormant = wkr_image_ref(hash, WKR_HASH_SIZE);
	m->options = malloc(options_size ? options_size : 1);
	if (!m->options || !m->dormant || m->dormant->size != size) {
		wkr_module_free(m);
		return -ENOENT;
	}
	memcpy(m->options, options, options_size);
	m->options_size = options_size;
	r = wkr_put(client, HANDLE_MODULE, handle, m);
	if (r < 0)
		wkr_module_free(m);
	else
		wkr_module_list(m);
	return r;
}

int
wkr_dormant_function(struct wkr_module *module, uint64_t handle,
		     const char *name)
{
	struct wkr_client *client = module->client;
	struct wkr_function *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->module = module;
	f->handle = handle;
	f->name = strdup(name);
	r = f->name ? wkr_put(client, HANDLE_FUNCTION, handle, f) : -ENOMEM;
	if (r < 0) {
		free(f->name);
		free(f);
		return r;
	}
	pthread_mutex_lock(&client->lock);
	f->next = module->functions;
	module->functions = f;
	client->nfunctions++;
	pthread_mutex_unlock(&client->lock);
	return 0;
}

/* ---- gate ---- */

CUresult
wkr_module_wake(struct wkr_module *m)
{
	CUresult r;

	if (!m->dormant)
		return CUDA_SUCCESS;
	r = wkr_module_read(m, m->dormant, m->kind, m->options,
			    m->options_size);
	if (r != CUDA_SUCCESS)
		return r;
	m->printing = m->dormant->traits.prints;
	wkr_image_unref(m->dormant);
	m->dormant = NULL;
	return CUDA_SUCCESS;
}

struct waking {
	struct wkr_job job;
	struct wkr_function *function;
};

static enum wkr_job_result
wake(struct wkr_job *job)
{
	struct waking *w = (struct waking *)job;
	struct wkr_function *f = w->function;
	struct wkr_module *m = f->module;
	struct wkr_client *client = m->client;
	CUresult r;

	wkr_at_call(client, "a module's next load");
	r = wkr_module_wake(m);
	if (r == CUDA_SUCCESS)
		r = wkr_function_read(f);
	if (r == WKR_AGAIN)
		return WKR_JOB_AGAIN;
	f->error = r;
	/* Release: what was read of the function, for whoever sees this. */
	atomic_store_explicit(&f->ready, true, memory_order_release);
	if (r != CUDA_SUCCESS)
		log_line(LOG_WARN, "client %llu (pid %d): kernel %.200s cannot "
			 "be loaded again: %d", (unsigned long long)client->id,
			 client->pid, f->name, (int)r);
	wkr_module_unref(m);
	wkr_client_unpin(client);
	free(w);
	return WKR_JOB_DONE;
}

/* ---- whoever wants it ---- */

CUresult
wkr_function_want(struct wkr_function *f)
{
	struct waking *w;

	if (atomic_load_explicit(&f->ready, memory_order_acquire))
		return f->error;
	if (atomic_exchange(&f->waking, true))
		return WKR_AGAIN;
	w = calloc(1, sizeof(*w));
	if (!w) {
		atomic_store(&f->waking, false);
		return WKR_AGAIN;
	}
	w->job.run = wake;
	w->function = f;
	atomic_fetch_add(&f->module->refs, 1);
	wkr_client_pin(f->module->client);
	wkr_queue_add(&wkr.gate, &w->job);
	return WKR_AGAIN;
}

CUresult
wkr_head_want(struct wkr_client *client, const void *head, size_t size)
{
	struct wkr_function *f;
	struct launch_head h;
	CUresult r;

	if (!head || size != sizeof(h))
		return CUDA_SUCCESS; /* said elsewhere */
	memcpy(&h, head, sizeof(h));
	f = wkr_function_ref(client, h.function);
	if (!f)
		return CUDA_SUCCESS;
	r = wkr_function_want(f);
	if (r == WKR_AGAIN)
		client->parked = "its code";
	wkr_module_unref(f->module);
	return r;
}
