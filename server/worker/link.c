/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's linker, on the gate's thread alone: compiling and linking do
 * not touch the device, but only one of them runs at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/sha256.h"
#include "server/worker/compile.h"
#include "server/worker/jit.h"
#include "server/worker/module.h"
#include "server/worker/risk.h"

/* Of each log; the client asks for no more. */
#define LOG_SIZE 4096u

struct wkr_link {
	CUlinkState native; /* first member (struct wkr_object) */
	const uint8_t *linked;
	size_t size;
	uint8_t key[RISK_KEY]; /* of all that has been added */
	/* The driver writes into these until the state is destroyed. */
	struct wkr_jit jit;
	char info[LOG_SIZE], error[LOG_SIZE];
	struct wkr_job end;
};

static enum wkr_job_result
end(struct wkr_job *job)
{
	struct wkr_link *l = (struct wkr_link *)((uint8_t *)job -
						 offsetof(struct wkr_link, end));

	wkr_ok(wkr.drv.cuLinkDestroy(l->native));
	free(l);
	return WKR_JOB_DONE;
}

void
wkr_link_end(struct wkr_object *object)
{
	struct wkr_link *l = (struct wkr_link *)object;

	l->end.run = end;
	wkr_queue_add(&wkr.gate, &l->end);
}

CUresult
wkr_mpsLinkCreate(struct wkr_call *call, uint64_t link, const void *options,
		  size_t options_size, uint32_t logs)
{
	_cleanup_free_ struct wkr_link *made = calloc(1, sizeof(*made));
	CUresult r;

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = wkr_jit_read(options, options_size, &made->jit);
	if (r != CUDA_SUCCESS)
		return r;
	if (logs) {
		wkr_jit_add_log(&made->jit, CU_JIT_INFO_LOG_BUFFER,
				CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, made->info,
				sizeof(made->info));
		wkr_jit_add_log(&made->jit, CU_JIT_ERROR_LOG_BUFFER,
				CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
				made->error, sizeof(made->error));
	}
	r = wkr_ok(wkr.drv.cuLinkCreate_v2(made->jit.count, made->jit.names,
					   made->jit.values, &made->native));
	if (r != CUDA_SUCCESS)
		return r;
	if (wkr_put(call->client, HANDLE_LINK, link, made) < 0) {
		wkr_ok(wkr.drv.cuLinkDestroy(made->native));
		return CUDA_ERROR_INVALID_HANDLE;
	}
	steal_ptr(&made);
	return CUDA_SUCCESS;
}

/* What the driver has said so far. */
static void
give_log(const char *log, void *out, size_t *size)
{
	size_t n = strnlen(log, LOG_SIZE - 1);

	if (!out)
		return;
	*size = n < *size ? n : *size;
	memcpy(out, log, *size);
}

/* Of what it was and the next input. */
static void
extend_key(struct wkr_link *l, uint32_t type, const struct wkr_image *image)
{
	struct sha256 sha;

	_Static_assert(SHA256_SIZE == RISK_KEY, "a hash is a key");
	sha256_init(&sha);
	sha256_update(&sha, l->key, sizeof(l->key));
	sha256_update(&sha, &type, sizeof(type));
	sha256_update(&sha, image->hash, sizeof(image->hash));
	sha256_final(&sha, l->key);
}

/* Has another process end over it first, if one will. What it makes cannot be
 * linked with others, and is dropped. */
static bool
ends_a_compiler(const struct wkr_image *image, const struct wkr_jit *jit)
{
	struct wkr_compiled compiled;
	CUresult r;
	int e;

	if (!wkr_risk_is_suspect(image->hash) ||
	    !wkr_compile_is_for(image, false))
		return false;
	e = wkr_compile(image, jit, &compiled, &r);
	wkr_compiled_drop(&compiled);
	return e == WKR_COMPILE_E_CRASHED;
}

static CUresult
refuse(void *error, size_t *error_size)
{
	give_log(WKR_RISK_TEXT, error, error_size);
	return CUDA_ERROR_INVALID_IMAGE;
}

CUresult
wkr_mpsLinkAdd(struct wkr_call *call, uint64_t link, uint32_t type,
	       const void *hash, size_t hash_size, uint64_t image_size,
	       const char *name, const void *options, size_t options_size,
	       void *info, size_t *info_size, uint32_t info_cap, void *error,
	       size_t *error_size, uint32_t error_cap)
{
	struct wkr_link *l = wkr_get(call->client, HANDLE_LINK, link);
	/* The driver keeps nothing of what it is given to link. */
	_cleanup_image_ struct wkr_image *image =
		wkr_image_ref(hash, hash_size);
	struct wkr_jit jit;
	CUresult r;

	(void)info_cap;
	(void)error_cap;
	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!image || image->size != image_size)
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_JIT_INPUT_NVVM || type >= CU_JIT_NUM_INPUT_TYPES)
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((type == CU_JIT_INPUT_LIBRARY) !=
	    wkr_image_is_archive(image->data, image->size) ||
	    !wkr_image_is_sound(image->data, image->size))
		return CUDA_ERROR_INVALID_IMAGE;
	r = wkr_jit_read(options, options_size, &jit);
	if (r != CUDA_SUCCESS)
		return r;
	if (!wkr_risk_begin(call->client, RISK_LINK, image->hash, type))
		return refuse(error, error_size);
	if (ends_a_compiler(image, &jit)) {
		wkr_risk_fail();
		return refuse(error, error_size);
	}
	r = wkr_ok(wkr.drv.cuLinkAddData_v2(
		l->native, (CUjitInputType)type, (void *)image->data,
		image->size, name, jit.count, jit.names, jit.values));
	wkr_risk_end();
	extend_key(l, type, image);
	give_log(l->info, info, info_size);
	give_log(l->error, error, error_size);
	return r;
}

CUresult
wkr_mpsLinkComplete(struct wkr_call *call, uint64_t link, uint64_t *size,
		    void *info, size_t *info_size, uint32_t info_cap,
		    void *error, size_t *error_size, uint32_t error_cap)
{
	struct wkr_link *l = wkr_get(call->client, HANDLE_LINK, link);
	void *linked = NULL;
	CUresult r;

	(void)info_cap;
	(void)error_cap;
	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!wkr_risk_begin(call->client, RISK_LINK, l->key, 0))
		return refuse(error, error_size);
	r = wkr_ok(wkr.drv.cuLinkComplete(l->native, &linked, &l->size));
	wkr_risk_end();
	give_log(l->info, info, info_size);
	give_log(l->error, error, error_size);
	if (r != CUDA_SUCCESS)
		return r;
	l->linked = linked;
	if (size)
		*size = l->size;
	return r;
}

CUresult
wkr_mpsLinkRead(struct wkr_call *call, uint64_t link, uint64_t offset,
		void *data, size_t *data_size, uint32_t data_cap)
{
	struct wkr_link *l = wkr_get(call->client, HANDLE_LINK, link);

	(void)data_cap;
	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!data || !l->linked || offset > l->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (*data_size > l->size - offset)
		*data_size = l->size - offset;
	memcpy(data, l->linked + offset, *data_size);
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsLinkDestroy(struct wkr_call *call, uint64_t link)
{
	struct wkr_client *client = call->client;
	struct wkr_link *l;

	pthread_mutex_lock(&client->lock);
	l = handle_remove(client->table, HANDLE_LINK, link);
	pthread_mutex_unlock(&client->lock);
	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	wkr_journal_drop(client, link);
	wkr_object_end(HANDLE_LINK, (struct wkr_object *)l);
	return CUDA_SUCCESS;
}
