/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose whole meaning is in their signature: handles translated, work
 * on a stream counted, replayed through libffi.
 */
#include <stdlib.h>
#include <string.h>

#include "server/worker/call.h"
#include "server/worker/jit.h"
#include "server/worker/module.h"
#include "server/worker/texture.h"

/* What ffi_call() is given for one argument. */
union value {
	uint64_t u;
	float f;
	void *p;
};

struct replay {
	const struct wire_sig *sig;
	union value values[WIRE_MAX_PARAMS];
	void *pointers[WIRE_MAX_PARAMS];
	struct wkr_stream *stream;
	struct wkr_object *made; /* for the new handle */
	unsigned new_param, stream_param;
};

/* The driver's handle for a client's. False: no such object. */
static bool
translate(struct wkr_call *call, struct replay *p, unsigned i, uint64_t handle)
{
	const struct wire_param *param = &p->sig->params[i];
	struct wkr_object *object;

	p->values[i].p = NULL;
	if (!handle && param->flags & WIRE_NULLABLE)
		return true;
	/* Streams and events are the lane's. */
	if (!call->on_lane &&
	    (param->handle == HANDLE_STREAM || param->handle == HANDLE_EVENT))
		return false;
	object = wkr_get(call->client, (enum handle_kind)param->handle, handle);
	if (!object)
		return false;
	if (param->handle == HANDLE_STREAM) {
		p->stream = (struct wkr_stream *)object;
		p->stream_param = i;
	}
	p->values[i].p = object->native;
	return true;
}

static CUresult
prepare(struct wkr_call *call, struct replay *p, struct wire_arg *args)
{
	for (unsigned i = 0; i < p->sig->nparams; i++) {
		const struct wire_param *param = &p->sig->params[i];

		p->pointers[i] = &p->values[i];
		switch ((enum wire_kind)param->kind) {
		case WIRE_VALUE:
		case WIRE_FLOAT:
		case WIRE_DOUBLE:
			p->values[i].u = args[i].value;
			break;
		case WIRE_HANDLE:
			if (!translate(call, p, i, args[i].value))
				return CUDA_ERROR_INVALID_HANDLE;
			break;
		case WIRE_NEW_HANDLE:
			p->made = calloc(1, sizeof(*p->made));
			if (!p->made)
				return CUDA_ERROR_OUT_OF_MEMORY;
			p->new_param = i;
			p->values[i].p = &p->made->native;
			break;
		case WIRE_STRING:
		case WIRE_BYTES:
			p->values[i].p = (void *)args[i].data;
			break;
		case WIRE_OUT_VALUE:
		case WIRE_OUT_BYTES:
			p->values[i].p = args[i].out;
			break;
		case WIRE_INOUT_BYTES:
			if (args[i].out && args[i].data)
				memcpy(args[i].out, args[i].data, args[i].size);
			p->values[i].p = args[i].out;
			break;
		}
	}
	return CUDA_SUCCESS;
}

/* Put what was prepared to the driver; its answer as the driver gave it. */
static CUresult
call_driver(struct replay *p, const struct wkr_ffi *ffi, void (*function)(void))
{
	ffi_arg result = 0;
	ffi_cif cif;

	if (ffi_prep_cif(&cif, FFI_DEFAULT_ABI, ffi->nargs, &ffi_type_sint,
			 ffi->types) != FFI_OK)
		return CUDA_ERROR_NOT_SUPPORTED;
	ffi_call(&cif, function, &result, p->pointers);
	return wkr_ok((CUresult)result);
}

static CUresult
replay(struct wkr_call *call, struct replay *p, const struct wkr_ffi *ffi,
       void (*function)(void))
{
	CUresult r;

	if (!p->stream)
		return call_driver(p, ffi, function);
	r = wkr_stream_begin(call, p->stream);
	if (r != CUDA_SUCCESS)
		return r;
	/* begin may have made it. */
	p->values[p->stream_param].p = p->stream->native;
	r = call_driver(p, ffi, function);
	if (r == CUDA_SUCCESS)
		wkr_stream_end(call, p->stream, false);
	return r;
}

/* Does it end the object of its first argument? */
static bool
ends_object(const struct wire_sig *sig)
{
	return sig->nparams && sig->params[0].kind == WIRE_HANDLE &&
	       strstr(sig->name, "Destroy");
}

static void
end_object(struct wkr_call *call, const struct replay *p,
	   const struct wire_arg *args)
{
	struct wkr_client *client = call->client;
	void *object;

	pthread_mutex_lock(&client->lock);
	object = handle_remove(client->table,
			       (enum handle_kind)p->sig->params[0].handle,
			       args[0].value);
	pthread_mutex_unlock(&client->lock);
	free(object);
}

/* What becomes of an object at its client's end. */
void
wkr_object_end(enum handle_kind kind, struct wkr_object *object)
{
	switch (kind) {
	case HANDLE_ARRAY:
		wkr_array_end(object);
		return;
	case HANDLE_MIPMAP:
		wkr_ok(wkr.drv.cuMipmappedArrayDestroy(object->native));
		break;
	case HANDLE_POOL:
		wkr_ok(wkr.drv.cuMemPoolDestroy(object->native));
		break;
	case HANDLE_LINK:
		wkr_link_end(object);
		return;
	case HANDLE_GREEN:
		wkr_ok(wkr.drv.cuGreenCtxDestroy(object->native));
		break;
	default:
		break;
	}
	free(object);
}

/* Give the new object its handle, or end it: nobody could name it. */
static CUresult
keep_object(struct wkr_call *call, const struct replay *p, uint64_t handle)
{
	enum handle_kind kind =
		(enum handle_kind)p->sig->params[p->new_param].handle;

	if (wkr_put(call->client, kind, handle, p->made) == 0)
		return CUDA_SUCCESS;
	wkr_object_end(kind, p->made);
	return CUDA_ERROR_INVALID_HANDLE;
}

CUresult
wkr_replay(struct wkr_call *call, const struct wire_sig *sig,
	   const struct wkr_ffi *ffi, void (*function)(void),
	   struct wire_arg *args)
{
	struct replay p = {.sig = sig};
	CUresult r = prepare(call, &p, args);

	if (r == CUDA_SUCCESS)
		r = replay(call, &p, ffi, function);
	if (r != CUDA_SUCCESS)
		free(p.made);
	else if (p.made)
		r = keep_object(call, &p, args[p.new_param].value);
	else if (ends_object(sig))
		end_object(call, &p, args);
	return r;
}

CUresult
wkr_generic(struct wkr_call *call, enum api_id id, struct wire_arg *args)
{
	void (*function)(void) = wkr_driver_function(&wkr.drv, id);

	if (!function)
		return CUDA_ERROR_NOT_SUPPORTED;
	return wkr_replay(call, &api_sigs[id], wkr_handlers[id].ffi, function,
			  args);
}
