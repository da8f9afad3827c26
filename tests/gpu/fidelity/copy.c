/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies, fills, arrays, textures, surfaces and tensor maps.
 */
#include "tests/gpu/fidelity/rows.h"

#define ALL (~(size_t)0)
#define UNMAPPED ((CUdeviceptr)0xdead0000)
#define SIZE 4096

static char host[2 * SIZE];

static void
plain_copies(CUdeviceptr p, CUdeviceptr q)
{
	ROW(cuMemcpyHtoD_v2, "0 bytes to 0", 0, host, 0);
	ROW(cuMemcpyHtoD_v2, "0 bytes", p, host, 0);
	ROW(cuMemcpyHtoD_v2, "to 0", 0, host, 4);
	ROW(cuMemcpyHtoD_v2, "to unmapped", UNMAPPED, host, 4);
	ROW(cuMemcpyHtoD_v2, "from NULL", p, NULL, 4);
	ROW(cuMemcpyHtoD_v2, "all bytes", p, host, ALL);
	ROW(cuMemcpyHtoD_v2, "to memory of the host",
	    (CUdeviceptr)(uintptr_t)host, host + SIZE, 4);
	ROW(cuMemcpyDtoH_v2, "0 bytes", host, p, 0);
	ROW(cuMemcpyDtoH_v2, "0 bytes to NULL", NULL, p, 0);
	ROW(cuMemcpyDtoH_v2, "0 bytes from 0", host, 0, 0);
	ROW(cuMemcpyDtoH_v2, "to NULL", NULL, p, 4);
	ROW(cuMemcpyDtoH_v2, "from 0", host, 0, 4);
	ROW(cuMemcpyDtoH_v2, "from unmapped", host, UNMAPPED, 4);
	ROW(cuMemcpyDtoD_v2, "0 bytes", p, q, 0);
	ROW(cuMemcpyDtoD_v2, "from 0", p, 0, 4);
	ROW(cuMemcpyDtoD_v2, "to 0", 0, p, 4);
	ROW(cuMemcpyDtoD_v2, "to unmapped", UNMAPPED, p, 4);
	ROW(cuMemcpyDtoD_v2, "all bytes", p, q, ALL);
	ROW(cuMemcpyDtoD_v2, "onto itself", p, p, 64);
	ROW(cuMemcpyDtoD_v2, "overlapping", p, p + 4, 64);
	ROW(cuMemcpy, "0 bytes", p, q, 0);
	ROW(cuMemcpy, "to 0", 0, p, 4);
	ROW(cuMemcpy, "from 0", p, 0, 4);
	ROW(cuMemcpy, "from unmapped", p, UNMAPPED, 4);
	ROW(cuMemcpyAsync, "0 bytes", p, q, 0, NULL);
	ROW(cuMemcpyAsync, "to 0", 0, p, 4, NULL);
	ROW(cuMemcpyHtoDAsync_v2, "0 bytes", p, host, 0, NULL);
	ROW(cuMemcpyHtoDAsync_v2, "to 0", 0, host, 4, NULL);
	ROW(cuMemcpyHtoDAsync_v2, "from NULL", p, NULL, 4, NULL);
	ROW(cuMemcpyHtoDAsync_v2, "to unmapped", UNMAPPED, host, 4, NULL);
	ROW(cuMemcpyDtoHAsync_v2, "to NULL", NULL, p, 4, NULL);
	ROW(cuMemcpyDtoHAsync_v2, "from 0", host, 0, 4, NULL);
	ROW(cuMemcpyDtoHAsync_v2, "from unmapped", host, UNMAPPED, 4, NULL);
	ROW(cuMemcpyDtoDAsync_v2, "0 bytes", p, q, 0, NULL);
	ROW(cuMemcpyDtoDAsync_v2, "to 0", 0, p, 4, NULL);
	ROW(cuMemcpyDtoDAsync_v2, "from unmapped", p, UNMAPPED, 4, NULL);
	ROW(cuMemcpyPeer, "no contexts", p, NULL, q, NULL, 4);
	ROW(cuMemcpyPeerAsync, "no contexts, 0 bytes", p, NULL, q, NULL, 0,
	    NULL);
	ROW(cuMemcpy3DPeer, "no description", NULL);
}

static void
fills(CUdeviceptr p)
{
	ROW(cuMemsetD8_v2, "0 bytes at 0", 0, 1, 0);
	ROW(cuMemsetD8_v2, "0 bytes", p, 1, 0);
	ROW(cuMemsetD8_v2, "at 0", 0, 1, 4);
	ROW(cuMemsetD8_v2, "unmapped", UNMAPPED, 1, 4);
	ROW(cuMemsetD8_v2, "all bytes", p, 1, ALL);
	ROW(cuMemsetD8_v2, "memory of the host",
	    (CUdeviceptr)(uintptr_t)host, 1, 4);
	ROW(cuMemsetD16_v2, "odd address", p + 1, 1, 2);
	ROW(cuMemsetD16_v2, "odd address, none", p + 1, 1, 0);
	ROW(cuMemsetD16_v2, "count overflows", p, 1, (size_t)1 << 63);
	ROW(cuMemsetD32_v2, "odd address", p + 2, 1, 2);
	ROW(cuMemsetD32_v2, "at 0", 0, 1, 2);
	ROW(cuMemsetD32_v2, "count overflows", p, 1, (size_t)1 << 62);
	ROW(cuMemsetD2D8_v2, "pitch 0", p, 0, 1, 16, 2);
	ROW(cuMemsetD2D8_v2, "pitch less than width", p, 8, 1, 16, 2);
	ROW(cuMemsetD2D8_v2, "one line, pitch less than width", p, 8, 1, 16,
	    1);
	ROW(cuMemsetD2D8_v2, "width 0", p, 16, 1, 0, 2);
	ROW(cuMemsetD2D8_v2, "height 0", p, 16, 1, 16, 0);
	ROW(cuMemsetD2D8_v2, "at 0", 0, 16, 1, 16, 2);
	ROW(cuMemsetD2D16_v2, "odd pitch", p, 17, 1, 4, 2);
	ROW(cuMemsetD2D16_v2, "odd address", p + 1, 16, 1, 4, 2);
	ROW(cuMemsetD2D32_v2, "odd pitch", p, 18, 1, 4, 2);
	ROW(cuMemsetD2D32_v2, "odd address", p + 2, 16, 1, 4, 2);
	ROW(cuMemsetD2D32_v2, "huge height", p, 16, 1, 4, ALL);
	ROW(cuMemsetD8Async, "at 0", 0, 1, 4, NULL);
	ROW(cuMemsetD8Async, "0 bytes", p, 1, 0, NULL);
	ROW(cuMemsetD8Async, "unmapped", UNMAPPED, 1, 4, NULL);
	ROW(cuMemsetD16Async, "odd address", p + 1, 1, 2, NULL);
	ROW(cuMemsetD32Async, "odd address", p + 1, 1, 2, NULL);
	ROW(cuMemsetD32Async, "at 0", 0, 1, 2, NULL);
	ROW(cuMemsetD2D8Async, "pitch less than width", p, 8, 1, 16, 2, NULL);
	ROW(cuMemsetD2D16Async, "odd pitch", p, 17, 1, 4, 2, NULL);
	ROW(cuMemsetD2D32Async, "at 0", 0, 16, 1, 4, 2, NULL);
}

/* A good copy with one thing wrong. */
static void
copies_2d(CUdeviceptr p, CUarray array)
{
	const CUDA_MEMCPY2D good = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host,
		.srcPitch = 64, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = p, .dstPitch = 64, .WidthInBytes = 32,
		.Height = 4,
	};
	CUDA_MEMCPY2D c = good;

#define COPY2D(what)							\
	ROW(cuMemcpy2D_v2, what, &c);					\
	ROW(cuMemcpy2DUnaligned_v2, what, &c);				\
	ROW(cuMemcpy2DAsync_v2, what, &c, NULL);			\
	c = good
	ROW(cuMemcpy2D_v2, "no description", NULL);
	ROW(cuMemcpy2DAsync_v2, "no description", NULL, NULL);
	ROW(cuMemcpy2DUnaligned_v2, "no description", NULL);
	COPY2D("good");
	c.WidthInBytes = 0;
	COPY2D("width 0");
	c.Height = 0;
	COPY2D("height 0");
	c.srcMemoryType = 0;
	COPY2D("source of kind 0");
	c.srcMemoryType = 9;
	COPY2D("source of kind 9");
	c.dstMemoryType = 9;
	COPY2D("target of kind 9");
	c.srcPitch = 16;
	COPY2D("source pitch less than width");
	c.dstPitch = 16;
	COPY2D("target pitch less than width");
	c.srcPitch = 0;
	COPY2D("source pitch 0");
	c.srcXInBytes = 40;
	COPY2D("x beyond the pitch");
	c.dstDevice = 0;
	COPY2D("to 0");
	c.dstDevice = UNMAPPED;
	COPY2D("to unmapped");
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = NULL;
	COPY2D("to no array");
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	c.dstXInBytes = 48;
	COPY2D("beyond the array's width");
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	c.dstY = 14;
	COPY2D("beyond the array's height");
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	c.WidthInBytes = 30;
	COPY2D("a part of an element");
}

static void
copies_3d(CUdeviceptr p, CUarray array)
{
	const CUDA_MEMCPY3D good = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host,
		.srcPitch = 64, .srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p,
		.dstPitch = 64, .dstHeight = 4, .WidthInBytes = 32,
		.Height = 4, .Depth = 2,
	};
	CUDA_MEMCPY3D c = good;

#define COPY3D(what)							\
	ROW(cuMemcpy3D_v2, what, &c);					\
	ROW(cuMemcpy3DAsync_v2, what, &c, NULL);			\
	c = good
	ROW(cuMemcpy3D_v2, "no description", NULL);
	ROW(cuMemcpy3DAsync_v2, "no description", NULL, NULL);
	COPY3D("good");
	c.Depth = 0;
	COPY3D("depth 0");
	c.reserved0 = (void *)1;
	COPY3D("reserved pointer");
	c.srcHeight = 2;
	COPY3D("source height less than the copy's");
	c.dstPitch = 16;
	COPY3D("target pitch less than width");
	c.srcLOD = 1;
	COPY3D("source level 1 of plain memory");
	c.dstMemoryType = 7;
	COPY3D("target of kind 7");
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	COPY3D("two layers into a flat array");
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	c.Depth = 1;
	c.dstZ = 1;
	COPY3D("beyond the array's depth");
}

void
group_copies(void)
{
	const CUDA_ARRAY_DESCRIPTOR d = { 16, 16, CU_AD_FORMAT_FLOAT, 1 };
	CUdeviceptr p, q;
	CUarray array;

	row_context();
	OK(cuMemAlloc_v2, &p, SIZE);
	OK(cuMemAlloc_v2, &q, SIZE);
	OK(cuArrayCreate_v2, &array, &d);
	plain_copies(p, q);
	fills(p);
	copies_2d(p, array);
	copies_3d(p, array);
	ROW(cuMemcpyAtoH_v2, "no array", host, NULL, 0, 4);
	ROW(cuMemcpyAtoH_v2, "to NULL", NULL, array, 0, 4);
	ROW(cuMemcpyAtoH_v2, "0 bytes", host, array, 0, 0);
	ROW(cuMemcpyAtoH_v2, "offset 2", host, array, 2, 4);
	ROW(cuMemcpyAtoH_v2, "beyond", host, array, 1020, 8);
	ROW(cuMemcpyHtoA_v2, "no array", NULL, 0, host, 4);
	ROW(cuMemcpyHtoA_v2, "from NULL", array, 0, NULL, 4);
	ROW(cuMemcpyHtoA_v2, "beyond", array, 1020, host, 8);
	ROW(cuMemcpyHtoAAsync_v2, "no array", NULL, 0, host, 4, NULL);
	ROW(cuMemcpyAtoHAsync_v2, "no array", host, NULL, 0, 4, NULL);
	ROW(cuMemcpyAtoD_v2, "no array", p, NULL, 0, 4);
	ROW(cuMemcpyAtoD_v2, "to 0", 0, array, 0, 4);
	ROW(cuMemcpyDtoA_v2, "no array", NULL, 0, p, 4);
	ROW(cuMemcpyDtoA_v2, "from 0", array, 0, 0, 4);
	ROW(cuMemcpyAtoA_v2, "no target", NULL, 0, array, 0, 4);
	ROW(cuMemcpyAtoA_v2, "no source", array, 0, NULL, 0, 4);
	ROW(cuMemcpyAtoA_v2, "0 bytes", array, 0, array, 0, 0);
}

static void
array_rows(const char *what, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	ROW(cuArray3DCreate_v2, what, PTR(0), d);
	ROW(cuMipmappedArrayCreate, what, PTR(0), d, 2);
}

void
group_arrays(void)
{
	const CUDA_ARRAY_DESCRIPTOR flat = { 16, 16, CU_AD_FORMAT_FLOAT, 1 };
	const CUDA_ARRAY3D_DESCRIPTOR good = { 16, 16, 16,
					       CU_AD_FORMAT_FLOAT, 1, 0 };
	CUDA_ARRAY_DESCRIPTOR e = flat;
	CUDA_ARRAY3D_DESCRIPTOR d = good;
	CUmipmappedArray levels = NULL;
	CUarray array;

	row_context();
	OK(cuArrayCreate_v2, &array, &flat);
	TRY(cuMipmappedArrayCreate, &levels, &good, 3);
	ROW(cuArrayCreate_v2, "no out", NULL, &flat);
	ROW(cuArrayCreate_v2, "no description", PTR(0), NULL);
	e.Width = 0;
	ROW(cuArrayCreate_v2, "width 0", PTR(0), &e);
	e = flat;
	e.Format = 0;
	ROW(cuArrayCreate_v2, "format 0", PTR(0), &e);
	e.Format = 0x77;
	ROW(cuArrayCreate_v2, "format 0x77", PTR(0), &e);
	e = flat;
	e.NumChannels = 0;
	ROW(cuArrayCreate_v2, "0 channels", PTR(0), &e);
	e.NumChannels = 3;
	ROW(cuArrayCreate_v2, "3 channels", PTR(0), &e);
	e = flat;
	e.Width = (size_t)1 << 20;
	ROW(cuArrayCreate_v2, "too wide", PTR(0), &e);
	ROW(cuArray3DCreate_v2, "no out", NULL, &good);
	ROW(cuArray3DCreate_v2, "no description", PTR(0), NULL);
	d.Width = 0;
	array_rows("width 0", &d);
	d = good;
	d.Height = 0;
	array_rows("depth without height", &d);
	d = good;
	d.NumChannels = 3;
	array_rows("3 channels", &d);
	d = good;
	d.Flags = 0x8000;
	array_rows("flags 0x8000", &d);
	d.Flags = CUDA_ARRAY3D_CUBEMAP;
	array_rows("a cube of 16 faces", &d);
	d.Flags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP;
	array_rows("layers of cubes, 16 faces", &d);
	d.Flags = CUDA_ARRAY3D_TEXTURE_GATHER;
	array_rows("gather in depth", &d);
	d = good;
	d.Depth = 1 << 20;
	array_rows("too deep", &d);
	ROW(cuMipmappedArrayCreate, "no out", NULL, &good, 2);
	ROW(cuMipmappedArrayCreate, "no description", PTR(0), NULL, 2);
	ROW(cuMipmappedArrayCreate, "0 levels", PTR(0), &good, 0);
	ROW(cuMipmappedArrayCreate, "99 levels", PTR(0), &good, 99);
	ROW(cuMipmappedArrayGetLevel, "no out", NULL, levels, 0);
	ROW(cuMipmappedArrayGetLevel, "none", PTR(0), NULL, 0);
	ROW(cuMipmappedArrayGetLevel, "level 3 of 3", PTR(0), levels, 3);
	ROW(cuMipmappedArrayDestroy, "none", NULL);
	ROW(cuArrayDestroy, "none", NULL);
	ROW(cuArrayGetDescriptor_v2, "no out", NULL, array);
	ROW(cuArrayGetDescriptor_v2, "none", SOME(0), NULL);
	ROW(cuArray3DGetDescriptor_v2, "no out", NULL, array);
	ROW(cuArray3DGetDescriptor_v2, "none", SOME(0), NULL);
	ROW(cuArray3DGetDescriptor_v2, "a flat array", BYTES(0), array);
	ROW(cuArrayGetPlane, "plane 5 of a plain array", PTR(0), array, 5);
	ROW(cuArrayGetSparseProperties, "not sparse", SOME(0), array);
	ROW(cuArrayGetMemoryRequirements, "no out", NULL, array, 0);
	{
		CUarray level = NULL;

		TRY(cuMipmappedArrayGetLevel, &level, levels, 1);
		ROW(cuArrayDestroy, "a level", level);
	}
}

static void
tensors(CUdeviceptr p)
{
	const cuuint64_t dims[] = { 64, 64 }, strides[] = { 256 };
	const cuuint64_t bad_strides[] = { 100 }, no_dims[] = { 0, 64 };
	const cuuint32_t box[] = { 16, 16 }, steps[] = { 1, 1 };
	const cuuint32_t bad_box[] = { 257, 16 }, no_box[] = { 0, 16 };
	void *at = (void *)(uintptr_t)p;

#define TILED(what, out, type, rank, address, dims_, strides_, box_, inter, \
	      swizzle)							\
	ROW(cuTensorMapEncodeTiled, what, out, type, rank, address, dims_, \
	    strides_, box_, steps, inter, swizzle, 0, 0)
#define F32_TYPE CU_TENSOR_MAP_DATA_TYPE_FLOAT32
	TILED("no out", NULL, F32_TYPE, 2, at, dims, strides, box, 0, 0);
	TILED("type 99", BYTES(0), 99, 2, at, dims, strides, box, 0, 0);
	TILED("rank 0", BYTES(0), F32_TYPE, 0, at, dims, strides, box, 0, 0);
	TILED("rank 6", BYTES(0), F32_TYPE, 6, at, dims, strides, box, 0, 0);
	TILED("address 0", BYTES(0), F32_TYPE, 2, NULL, dims, strides, box,
	      0, 0);
	TILED("odd address", BYTES(0), F32_TYPE, 2, (char *)at + 4, dims,
	      strides, box, 0, 0);
	TILED("no sizes", BYTES(0), F32_TYPE, 2, at, NULL, strides, box, 0,
	      0);
	TILED("no strides", BYTES(0), F32_TYPE, 2, at, dims, NULL, box, 0, 0);
	TILED("no box", BYTES(0), F32_TYPE, 2, at, dims, strides, NULL, 0, 0);
	TILED("size 0", BYTES(0), F32_TYPE, 2, at, no_dims, strides, box, 0,
	      0);
	TILED("stride 100", BYTES(0), F32_TYPE, 2, at, dims, bad_strides, box,
	      0, 0);
	TILED("box 257", BYTES(0), F32_TYPE, 2, at, dims, strides, bad_box, 0,
	      0);
	TILED("box 0", BYTES(0), F32_TYPE, 2, at, dims, strides, no_box, 0,
	      0);
	TILED("interleave 9", BYTES(0), F32_TYPE, 2, at, dims, strides, box,
	      9, 0);
	TILED("swizzle 99", BYTES(0), F32_TYPE, 2, at, dims, strides, box, 0,
	      99);
	TILED("swizzle of 32 bytes, box of 64", BYTES(0), F32_TYPE, 2, at,
	      dims, strides, box, 0, CU_TENSOR_MAP_SWIZZLE_32B);
	ROW(cuTensorMapReplaceAddress, "no map", NULL, at);
}

void
group_textures(void)
{
	const CUDA_ARRAY_DESCRIPTOR flat = { 16, 16, CU_AD_FORMAT_FLOAT, 1 };
	const CUDA_TEXTURE_DESC plain = { 0 };
	CUDA_RESOURCE_DESC r = { .resType = CU_RESOURCE_TYPE_ARRAY };
	CUDA_RESOURCE_DESC linear = { .resType = CU_RESOURCE_TYPE_LINEAR };
	CUDA_TEXTURE_DESC t = plain;
	CUtexObject texture;
	CUarray array;
	CUdeviceptr p;

	row_context();
	OK(cuArrayCreate_v2, &array, &flat);
	OK(cuMemAlloc_v2, &p, 65536);
	r.res.array.hArray = array;
	linear.res.linear.devPtr = p;
	linear.res.linear.format = CU_AD_FORMAT_FLOAT;
	linear.res.linear.numChannels = 1;
	linear.res.linear.sizeInBytes = SIZE;
	OK(cuTexObjectCreate, &texture, &r, &plain, NULL);
	ROW(cuTexObjectCreate, "no out", NULL, &r, &plain, NULL);
	ROW(cuTexObjectCreate, "no resource", I64(0), NULL, &plain, NULL);
	ROW(cuTexObjectCreate, "no texture", I64(0), &r, NULL, NULL);
	t.addressMode[0] = 9;
	ROW(cuTexObjectCreate, "address mode 9", I64(0), &r, &t, NULL);
	t = plain;
	t.filterMode = 7;
	ROW(cuTexObjectCreate, "filter mode 7", I64(0), &r, &t, NULL);
	t = plain;
	t.flags = 0x1000;
	ROW(cuTexObjectCreate, "flags 0x1000", I64(0), &r, &t, NULL);
	linear.res.linear.devPtr = p + 4;
	ROW(cuTexObjectCreate, "odd address", I64(0), &linear, &plain, NULL);
	linear.res.linear.devPtr = 0;
	ROW(cuTexObjectCreate, "address 0", I64(0), &linear, &plain, NULL);
	linear.res.linear.devPtr = p;
	linear.res.linear.numChannels = 3;
	ROW(cuTexObjectCreate, "3 channels", I64(0), &linear, &plain, NULL);
	linear.res.linear.numChannels = 1;
	linear.res.linear.sizeInBytes = 0;
	ROW(cuTexObjectCreate, "0 bytes", I64(0), &linear, &plain, NULL);
	linear.res.linear.sizeInBytes = SIZE;
	r.res.array.hArray = NULL;
	ROW(cuTexObjectCreate, "no array", I64(0), &r, &plain, NULL);
	r.resType = 9;
	ROW(cuTexObjectCreate, "resource of kind 9", I64(0), &r, &plain,
	    NULL);
	r.resType = CU_RESOURCE_TYPE_ARRAY;
	r.res.array.hArray = array;
	r.flags = 1;
	ROW(cuTexObjectCreate, "resource flags 1", I64(0), &r, &plain, NULL);
	r.flags = 0;
	ROW(cuTexObjectDestroy, "0", 0);
	ROW(cuTexObjectDestroy, "unknown", 0x123456789);
	ROW(cuTexObjectGetResourceDesc, "no out", NULL, texture);
	ROW(cuTexObjectGetResourceDesc, "0", SOME(0), 0);
	ROW(cuTexObjectGetTextureDesc, "no out", NULL, texture);
	ROW(cuTexObjectGetTextureDesc, "unknown", SOME(0), 0x123456789);
	ROW(cuTexObjectGetResourceViewDesc, "no out", NULL, texture);
	ROW(cuTexObjectGetResourceViewDesc, "no view", SOME(0), texture);
	ROW(cuSurfObjectCreate, "no out", NULL, &r);
	ROW(cuSurfObjectCreate, "no resource", I64(0), NULL);
	ROW(cuSurfObjectCreate, "an array without the flag", SOME(0), &r);
	ROW(cuSurfObjectCreate, "linear memory", I64(0), &linear);
	ROW(cuSurfObjectDestroy, "0", 0);
	ROW(cuSurfObjectDestroy, "a texture", texture);
	ROW(cuSurfObjectGetResourceDesc, "0", SOME(0), 0);
	tensors(p);
}
