/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: arrays, textures, surfaces.
 */
#include "tests/unit/soft_kit.h"

static const char tex_ptx[] =
".version 8.0\n.target sm_75\n.address_size 64\n"
/* look(tex, x, y, out): one float fetch at float coordinates */
".visible .entry look(.param .u64 t, .param .f32 x, .param .f32 y,\n"
"                     .param .u64 out) {\n"
" .reg .b64 %rd<3>; .reg .f32 %f<7>;\n"
" ld.param.u64 %rd1, [t]; ld.param.f32 %f1, [x]; ld.param.f32 %f2, [y];\n"
" ld.param.u64 %rd2, [out];\n"
" tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}];\n"
" st.global.f32 [%rd2], %f3; st.global.f32 [%rd2+4], %f6; ret; }\n"
/* mark(surf): surface word (1, 2) becomes word (0, 0) plus 1 */
".visible .entry mark(.param .u64 s) {\n"
" .reg .b64 %rd; .reg .b32 %r<5>;\n"
" ld.param.u64 %rd, [s]; mov.u32 %r1, 0; mov.u32 %r2, 4;\n"
" mov.u32 %r3, 2;\n"
" suld.b.2d.b32.trap %r4, [%rd, {%r1, %r1}];\n"
" add.u32 %r4, %r4, 1;\n"
" sust.b.2d.b32.trap [%rd, {%r2, %r3}], %r4; ret; }\n";

struct plane {
	struct kit k;
	CUmodule module;
	CUfunction look, mark;
	CUarray array;
	CUdeviceptr out;
};

/* 4 x 3 floats, value 10 * y + x. */
static void
plane_open(struct plane *p, CUarray_format format, const void *rows,
	   size_t row_bytes)
{
	CUDA_ARRAY3D_DESCRIPTOR desc;
	CUDA_MEMCPY2D c;

	kit_context(&p->k);
	ok(cuModuleLoadData(&p->module, tex_ptx));
	ok(cuModuleGetFunction(&p->look, p->module, "look"));
	ok(cuModuleGetFunction(&p->mark, p->module, "mark"));
	memset(&desc, 0, sizeof(desc));
	desc.Width = 4;
	desc.Height = 3;
	desc.Format = format;
	desc.NumChannels = 1;
	desc.Flags = CUDA_ARRAY3D_SURFACE_LDST;
	ok(cuArray3DCreate(&p->array, &desc));
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = rows;
	c.srcPitch = row_bytes;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = p->array;
	c.WidthInBytes = row_bytes;
	c.Height = 3;
	ok(cuMemcpy2D(&c));
	ok(cuMemAlloc(&p->out, 8));
}

static void
float_plane(struct plane *p)
{
	float rows[3][4];

	for (int y = 0; y < 3; y++)
		for (int x = 0; x < 4; x++)
			rows[y][x] = (float)(10 * y + x);
	plane_open(p, CU_AD_FORMAT_FLOAT, rows, sizeof(rows[0]));
}

static CUtexObject
texture_of(struct plane *p, CUfilter_mode filter, CUaddress_mode mode,
	   unsigned flags)
{
	CUDA_RESOURCE_DESC res;
	CUDA_TEXTURE_DESC tex;
	CUtexObject t;

	memset(&res, 0, sizeof(res));
	memset(&tex, 0, sizeof(tex));
	res.resType = CU_RESOURCE_TYPE_ARRAY;
	res.res.array.hArray = p->array;
	tex.filterMode = filter;
	tex.flags = flags;
	tex.borderColor[0] = -1.0f;
	for (int i = 0; i < 3; i++)
		tex.addressMode[i] = mode;
	ok(cuTexObjectCreate(&t, &res, &tex, NULL));
	return t;
}

static float
look(struct plane *p, CUtexObject t, float x, float y)
{
	void *params[] = { &t, &x, &y, &p->out };
	float got[2];

	ok(cuLaunchKernel(p->look, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	ok(cuMemcpyDtoH(got, p->out, sizeof(got)));
	return got[0];
}

START_TEST(point_fetch_takes_the_texel_under_it)
{
	struct plane p;
	CUtexObject t;

	float_plane(&p);
	t = texture_of(&p, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_CLAMP,
		       0);
	ck_assert(look(&p, t, 0.5f, 0.5f) == 0.0f);
	ck_assert(look(&p, t, 3.9f, 2.1f) == 23.0f);
	ck_assert(look(&p, t, -5.0f, 1.0f) == 10.0f);
	ck_assert(look(&p, t, 100.0f, 100.0f) == 23.0f);
}
END_TEST

START_TEST(linear_fetch_weighs_neighbours)
{
	struct plane p;
	CUtexObject t;

	float_plane(&p);
	t = texture_of(&p, CU_TR_FILTER_MODE_LINEAR, CU_TR_ADDRESS_MODE_CLAMP,
		       0);
	ck_assert(look(&p, t, 1.5f, 1.5f) == 11.0f);
	ck_assert(look(&p, t, 2.0f, 2.0f) == 16.5f);
	ck_assert(look(&p, t, 1.75f, 0.5f) == 1.25f);
}
END_TEST

START_TEST(address_modes_fold_coordinates)
{
	unsigned n = CU_TRSF_NORMALIZED_COORDINATES;
	struct plane p;
	CUtexObject t;

	float_plane(&p);
	t = texture_of(&p, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_WRAP,
		       n);
	ck_assert(look(&p, t, 1.125f, 0.5f) == 10.0f);
	t = texture_of(&p, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_MIRROR,
		       n);
	ck_assert(look(&p, t, 1.125f, 0.5f) == 13.0f);
	t = texture_of(&p, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_BORDER,
		       0);
	ck_assert(look(&p, t, -1.0f, 0.5f) == -1.0f);
}
END_TEST

START_TEST(bytes_are_normalised)
{
	unsigned char rows[3][4] = { { 0, 51, 255 } };
	struct plane p;
	CUtexObject t;

	plane_open(&p, CU_AD_FORMAT_UNSIGNED_INT8, rows, 4);
	t = texture_of(&p, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_CLAMP,
		       0);
	ck_assert(look(&p, t, 1.5f, 0.5f) == 0.2f);
	ck_assert(look(&p, t, 2.5f, 0.5f) == 1.0f);
}
END_TEST

START_TEST(surfaces_load_and_store)
{
	CUDA_RESOURCE_DESC res;
	uint32_t rows[3][4] = { { 41 } }, out = 0;
	CUDA_MEMCPY2D c;
	CUsurfObject s;
	struct plane p;

	plane_open(&p, CU_AD_FORMAT_UNSIGNED_INT32, rows, 16);
	memset(&res, 0, sizeof(res));
	res.resType = CU_RESOURCE_TYPE_ARRAY;
	res.res.array.hArray = p.array;
	ok(cuSurfObjectCreate(&s, &res));
	void *params[] = { &s };

	ok(cuLaunchKernel(p.mark, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = p.array;
	c.srcXInBytes = 4;
	c.srcY = 2;
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	c.dstHost = &out;
	c.WidthInBytes = 4;
	c.Height = 1;
	ok(cuMemcpy2D(&c));
	ck_assert_uint_eq(out, 42);
	ok(cuSurfObjectDestroy(s));
	expect(cuSurfObjectDestroy(s), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(fetch_from_a_destroyed_object_is_a_fault)
{
	struct plane p;
	CUtexObject t;
	float x = 0;

	float_plane(&p);
	t = texture_of(&p, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_CLAMP,
		       0);
	ok(cuTexObjectDestroy(t));
	void *params[] = { &t, &x, &x, &p.out };

	ok(cuLaunchKernel(p.look, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	expect(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(arrays_describe_themselves_and_count)
{
	CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 100, .Height = 50,
		.Format = CU_AD_FORMAT_HALF, .NumChannels = 4,
	}, got;
	size_t before, during, after, total;
	CUarray array;
	struct kit k;

	kit_context(&k);
	ok(cuMemGetInfo(&before, &total));
	ok(cuArrayCreate(&array, &desc));
	ok(cuMemGetInfo(&during, &total));
	ck_assert_uint_ge(before - during, 100 * 50 * 8);
	ok(cuArrayGetDescriptor(&got, array));
	ck_assert_uint_eq(got.Width, 100);
	ck_assert_uint_eq(got.NumChannels, 4);
	ok(cuArrayDestroy(array));
	expect(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	ok(cuMemGetInfo(&after, &total));
	ck_assert_uint_eq(before, after);
	desc.NumChannels = 3;
	expect(cuArrayCreate(&array, &desc), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, address_modes_fold_coordinates);
	tcase_add_test(tc, arrays_describe_themselves_and_count);
	tcase_add_test(tc, bytes_are_normalised);
	tcase_add_test(tc, fetch_from_a_destroyed_object_is_a_fault);
	tcase_add_test(tc, linear_fetch_weighs_neighbours);
	tcase_add_test(tc, point_fetch_takes_the_texel_under_it);
	tcase_add_test(tc, surfaces_load_and_store);
}

int
main(void)
{
	return kit_main("soft_tex", fill);
}
