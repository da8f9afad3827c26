/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects: fetching and storing texels.
 *
 * The object's value is what kernels carry, so it is a small number that is
 * looked up, never an address that is believed.
 */
#include "server/soft/soft_tex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_mem.h"

struct texture {
	bool used, is_surface;
	CUDA_RESOURCE_DESC res;
	CUDA_TEXTURE_DESC tex;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view;
	/* Where the texels are: */
	uint64_t base;
	size_t pitch, rows;        /* bytes, rows of a slice */
	size_t width, height, depth;
	unsigned channels, channel_bytes;
	CUarray_format format;
	bool in_array;
};

/* Guards the table. Fetches take it shared. */
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct texture *table;
static size_t table_size;

static CUresult
place_array(struct texture *t, CUarray handle)
{
	const struct soft_array *array = soft_array_from(handle);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	t->base = (uintptr_t)array->data;
	t->pitch = array->pitch;
	t->rows = array->rows;
	t->width = array->desc.Width;
	t->height = array->rows;
	t->depth = array->slices;
	t->channels = array->desc.NumChannels;
	t->format = array->desc.Format;
	t->in_array = true;
	return CUDA_SUCCESS;
}

static CUresult
place_memory(struct texture *t, CUdeviceptr base, CUarray_format format,
	     unsigned channels)
{
	if (channels != 1 && channels != 2 && channels != 4)
		return CUDA_ERROR_INVALID_VALUE;
	t->base = base;
	t->channels = channels;
	t->format = format;
	t->depth = 1;
	return CUDA_SUCCESS;
}

static CUresult
place(struct texture *t)
{
	const CUDA_RESOURCE_DESC *r = &t->res;
	CUresult res;
	size_t size;

	switch (r->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		res = place_array(t, r->res.array.hArray);
		break;
	case CU_RESOURCE_TYPE_LINEAR:
		res = place_memory(t, r->res.linear.devPtr,
				   r->res.linear.format,
				   r->res.linear.numChannels);
		size = r->res.linear.sizeInBytes;
		t->pitch = size;
		t->rows = t->height = 1;
		break;
	case CU_RESOURCE_TYPE_PITCH2D:
		res = place_memory(t, r->res.pitch2D.devPtr,
				   r->res.pitch2D.format,
				   r->res.pitch2D.numChannels);
		t->pitch = r->res.pitch2D.pitchInBytes;
		t->width = r->res.pitch2D.width;
		t->rows = t->height = r->res.pitch2D.height;
		break;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (res)
		return res;
	t->channel_bytes = soft_format_bytes(t->format);
	if (!t->channel_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (r->resType == CU_RESOURCE_TYPE_LINEAR)
		t->width = t->pitch / (t->channels * t->channel_bytes);
	if (!t->width || !t->height ||
	    t->width > t->pitch / (t->channels * t->channel_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!t->in_array && !soft_mem_check(t->base, (t->height - 1) *
			t->pitch + t->width * t->channels * t->channel_bytes,
			false))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult
table_put(const struct texture *t, uint64_t *out)
{
	CUresult res = CUDA_SUCCESS;
	size_t i = 0;

	pthread_rwlock_wrlock(&table_lock);
	while (i < table_size && table[i].used)
		i++;
	if (i == table_size) {
		size_t size = table_size ? table_size * 2 : 16;
		struct texture *grown = realloc(table, size * sizeof(*grown));

		if (!grown) {
			res = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			memset(grown + table_size, 0,
			       (size - table_size) * sizeof(*grown));
			table = grown;
			table_size = size;
		}
	}
	if (!res) {
		table[i] = *t;
		table[i].used = true;
		*out = i + 1;
	}
	pthread_rwlock_unlock(&table_lock);
	return res;
}

static bool
table_get(uint64_t object, bool is_surface, struct texture *out)
{
	bool ok;

	pthread_rwlock_rdlock(&table_lock);
	ok = object && object <= table_size && table[object - 1].used &&
	     table[object - 1].is_surface == is_surface;
	if (ok)
		*out = table[object - 1];
	pthread_rwlock_unlock(&table_lock);
	return ok;
}

static CUresult
table_drop(uint64_t object, bool is_surface)
{
	bool ok;

	pthread_rwlock_wrlock(&table_lock);
	ok = object && object <= table_size && table[object - 1].used &&
	     table[object - 1].is_surface == is_surface;
	if (ok)
		table[object - 1].used = false;
	pthread_rwlock_unlock(&table_lock);
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *res_desc,
		  const CUDA_TEXTURE_DESC *tex_desc,
		  const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct soft_ctx *ctx;
	struct texture t = { 0 };
	CUresult res = soft_enter_ctx(&ctx);
	uint64_t object = 0;

	if (res)
		return res;
	if (!out || !res_desc || !tex_desc)
		return CUDA_ERROR_INVALID_VALUE;
	t.res = *res_desc;
	t.tex = *tex_desc;
	if (view) {
		t.view = *view;
		t.has_view = true;
	}
	for (int i = 0; i < 3; i++)
		if (t.tex.addressMode[i] < 0 ||
		    t.tex.addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
			return CUDA_ERROR_INVALID_VALUE;
	res = place(&t);
	if (!res)
		res = table_put(&t, &object);
	if (!res)
		*out = object;
	return res;
}

CUresult
cuTexObjectDestroy(CUtexObject object)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	return res ? res : table_drop(object, false);
}

static CUresult
object_enter(uint64_t object, bool is_surface, const void *out,
	     struct texture *t)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	return out && table_get(object, is_surface, t) ? CUDA_SUCCESS :
	       CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUtexObject object)
{
	struct texture t;
	CUresult res = object_enter(object, false, out, &t);

	if (!res)
		*out = t.res;
	return res;
}

CUresult
cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *out, CUtexObject object)
{
	struct texture t;
	CUresult res = object_enter(object, false, out, &t);

	if (!res)
		*out = t.tex;
	return res;
}

CUresult
cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out,
			       CUtexObject object)
{
	struct texture t;
	CUresult res = object_enter(object, false, out, &t);

	if (!res && !t.has_view)
		res = CUDA_ERROR_INVALID_VALUE;
	if (!res)
		*out = t.view;
	return res;
}

CUresult
cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *res_desc)
{
	struct soft_ctx *ctx;
	struct texture t = { .is_surface = true };
	CUresult res = soft_enter_ctx(&ctx);
	uint64_t object = 0;

	if (res)
		return res;
	soft_follow(out);
	if (!out || !res_desc || res_desc->resType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	t.res = *res_desc;
	res = place(&t);
	if (!res)
		res = table_put(&t, &object);
	if (!res)
		*out = object;
	return res;
}

CUresult
cuSurfObjectDestroy(CUsurfObject object)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	return res ? res : table_drop(object, true);
}

CUresult
cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject object)
{
	struct texture t;
	CUresult res = object_enter(object, true, out, &t);

	if (!res)
		*out = t.res;
	return res;
}

/* Whether the texel's memory is still there. */
static bool
texel_at(const struct texture *t, size_t x, size_t y, size_t z,
	 const char **out)
{
	unsigned bytes = t->channels * t->channel_bytes;
	uint64_t at = t->base + (z * t->rows + y) * t->pitch + x * bytes;

	if (t->in_array ? !soft_array_from(t->res.res.array.hArray) :
			  !soft_mem_check(at, bytes, false))
		return false;
	*out = (const char *)(uintptr_t)at;
	return true;
}

static float
half_to_float(uint16_t h)
{
	unsigned exponent = h >> 10 & 31, mantissa = h & 1023;
	float value;

	if (exponent == 31)
		value = mantissa ? NAN : INFINITY;
	else if (exponent)
		value = ldexpf((float)(mantissa | 1024), (int)exponent - 25);
	else
		value = ldexpf((float)mantissa, -24);
	return h & 0x8000 ? -value : value;
}

static bool
reads_as_float(const struct texture *t)
{
	if (t->format == CU_AD_FORMAT_FLOAT || t->format == CU_AD_FORMAT_HALF)
		return true;
	/* Integers are normalised unless asked not to be; 32-bit ones
	 * never are. */
	return t->channel_bytes < 4 &&
	       !(t->tex.flags & CU_TRSF_READ_AS_INTEGER);
}

static uint32_t
channel_raw(const struct texture *t, const char *at)
{
	int8_t s8;
	int16_t s16;
	uint32_t word = 0;

	switch (t->format) {
	case CU_AD_FORMAT_SIGNED_INT8:
		memcpy(&s8, at, 1);
		return (uint32_t)s8;
	case CU_AD_FORMAT_SIGNED_INT16:
		memcpy(&s16, at, 2);
		return (uint32_t)s16;
	default:
		memcpy(&word, at, t->channel_bytes);
		return word;
	}
}

static float
channel_float(const struct texture *t, const char *at)
{
	uint32_t raw = channel_raw(t, at);
	float value;

	switch (t->format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
		return (float)raw / 255.0f;
	case CU_AD_FORMAT_UNSIGNED_INT16:
		return (float)raw / 65535.0f;
	case CU_AD_FORMAT_SIGNED_INT8:
		return fmaxf((float)(int32_t)raw / 127.0f, -1.0f);
	case CU_AD_FORMAT_SIGNED_INT16:
		return fmaxf((float)(int32_t)raw / 32767.0f, -1.0f);
	case CU_AD_FORMAT_HALF:
		return half_to_float((uint16_t)raw);
	default:
		memcpy(&value, &raw, sizeof(value));
		return value;
	}
}

/* Texel index under the address mode; false: the border. */
static bool
address(CUaddress_mode mode, bool normalised, int64_t at, size_t extent,
	size_t *out)
{
	int64_t n = (int64_t)extent;

	if (at >= 0 && at < n) {
		*out = (size_t)at;
		return true;
	}
	/* Wrap and mirror exist for normalised coordinates only. */
	if (!normalised && mode != CU_TR_ADDRESS_MODE_BORDER)
		mode = CU_TR_ADDRESS_MODE_CLAMP;
	switch (mode) {
	case CU_TR_ADDRESS_MODE_WRAP:
		at = ((at % n) + n) % n;
		break;
	case CU_TR_ADDRESS_MODE_MIRROR:
		at = ((at % (2 * n)) + 2 * n) % (2 * n);
		if (at >= n)
			at = 2 * n - 1 - at;
		break;
	case CU_TR_ADDRESS_MODE_BORDER:
		return false;
	default:
		at = at < 0 ? 0 : n - 1;
		break;
	}
	*out = (size_t)at;
	return true;
}

/* One texel as floats or raw words. */
static bool
fetch(const struct texture *t, const int64_t at[3], bool normalised,
      float values[4], uint32_t words[4])
{
	size_t extent[3] = { t->width, t->height, t->depth }, index[3];
	bool as_float = reads_as_float(t);
	const char *texel;

	for (int i = 0; i < 4; i++) {
		values[i] = t->tex.borderColor[i];
		words[i] = 0;
	}
	for (int d = 0; d < 3; d++)
		if (!address(t->tex.addressMode[d], normalised, at[d],
			     extent[d], &index[d]))
			return true;
	if (!texel_at(t, index[0], index[1], index[2], &texel))
		return false;
	for (unsigned c = 0; c < 4; c++) {
		bool there = c < t->channels;
		const char *channel = texel + c * t->channel_bytes;

		if (as_float)
			values[c] = there ? channel_float(t, channel) :
				    c == 3 ? 1.0f : 0.0f;
		else
			words[c] = there ? channel_raw(t, channel) :
				   c == 3 ? 1 : 0;
	}
	return true;
}

static int64_t
clamp_index(float x)
{
	/* NaN and far outside: still an index that addresses can fold. */
	if (!(x > -1e9f))
		return -1000000000;
	return x > 1e9f ? 1000000000 : (int64_t)x;
}

/* The eight (four, two) neighbours, weighted with 8 bits of fraction, as
 * the hardware does. */
static bool
fetch_linear(const struct texture *t, const float x[3], int geom,
	     bool normalised, float values[4])
{
	int64_t base[3] = { 0 };
	float part[3] = { 0 }, one[4];
	uint32_t words[4];

	for (int d = 0; d < geom; d++) {
		float low = floorf(x[d] - 0.5f);

		base[d] = clamp_index(low);
		part[d] = roundf((x[d] - 0.5f - low) * 256.0f) / 256.0f;
	}
	memset(values, 0, 4 * sizeof(*values));
	for (int corner = 0; corner < 1 << geom; corner++) {
		int64_t at[3] = { base[0], base[1], base[2] };
		float weight = 1.0f;

		for (int d = 0; d < geom; d++) {
			bool high = corner >> d & 1;

			at[d] += high;
			weight *= high ? part[d] : 1.0f - part[d];
		}
		if (weight == 0.0f)
			continue;
		if (!fetch(t, at, normalised, one, words))
			return false;
		for (int c = 0; c < 4; c++)
			values[c] += weight * one[c];
	}
	return true;
}

bool
soft_tex_fetch(void *ctx, uint64_t tex, int geom, bool is_float,
	       const uint32_t coord[4], float lod, uint32_t out[4])
{
	bool normalised, linear, ok;
	int64_t at[3] = { 0 };
	float x[3] = { 0 }, values[4];
	size_t extent[3];
	struct texture t;

	(void)ctx;
	(void)lod;   /* no mipmaps: every level is the first */
	if (geom < 1 || geom > 3 || !table_get(tex, false, &t))
		return false;
	extent[0] = t.width;
	extent[1] = t.height;
	extent[2] = t.depth;
	normalised = is_float && t.tex.flags & CU_TRSF_NORMALIZED_COORDINATES;
	linear = is_float && t.tex.filterMode == CU_TR_FILTER_MODE_LINEAR &&
		 reads_as_float(&t);
	for (int d = 0; d < geom; d++) {
		if (!is_float) {
			at[d] = (int32_t)coord[d];
			continue;
		}
		memcpy(&x[d], &coord[d], sizeof(x[d]));
		if (normalised)
			x[d] *= (float)extent[d];
		at[d] = clamp_index(floorf(x[d]));
	}
	ok = linear ? fetch_linear(&t, x, geom, normalised, values) :
	     fetch(&t, at, normalised, values, out);
	if (ok && reads_as_float(&t))
		memcpy(out, values, sizeof(values));
	return ok;
}

bool
soft_surf_access(void *ctx, uint64_t surf, int geom, bool is_store,
		 const int32_t coord[4], int clamp, unsigned bytes, void *data)
{
	int64_t at[3] = { 0 }, limit[3];
	struct texture t;
	char *texel;

	(void)ctx;
	if (geom < 1 || geom > 3 || !table_get(surf, true, &t) ||
	    !soft_array_from(t.res.res.array.hArray))
		return false;
	limit[0] = (int64_t)(t.width * t.channels * t.channel_bytes) - bytes;
	limit[1] = (int64_t)t.height - 1;
	limit[2] = (int64_t)t.depth - 1;
	for (int d = 0; d < geom; d++) {
		at[d] = coord[d];
		if (at[d] >= 0 && at[d] <= limit[d])
			continue;
		if (clamp == 0 || limit[d] < 0)
			return false;
		if (clamp == 2) {
			if (!is_store)
				memset(data, 0, bytes);
			return true;
		}
		at[d] = at[d] < 0 ? 0 : limit[d];
	}
	texel = (char *)(uintptr_t)t.base + ((size_t)at[2] * t.rows +
		(size_t)at[1]) * t.pitch + (size_t)at[0];
	if (is_store)
		memcpy(texel, data, bytes);
	else
		memcpy(data, texel, bytes);
	return true;
}
