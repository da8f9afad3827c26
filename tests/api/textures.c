/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and surfaces: kernels fetch from arrays, from plain and pitched
 * memory and from a level of a mipmapped array, and store into a surface.
 */
#include <string.h>

#include "tests/api/facts.h"

/* The software device has none of these. */
#pragma weak cuMipmappedArrayCreate
#pragma weak cuMipmappedArrayDestroy
#pragma weak cuMipmappedArrayGetLevel

#define W 32u
#define H 16u

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	/* out[y * w + x] = tex(x, y) */
	".visible .entry plane(.param .u64 out, .param .u64 tex,"
	" .param .u32 wide)\n"
	"{ .reg .u64 p, t, o; .reg .u32 i, x, y, w; .reg .f32 f<6>;"
	" ld.param.u64 p,[out]; ld.param.u64 t,[tex]; ld.param.u32 w,[wide];"
	" mov.u32 x,%tid.x; mov.u32 y,%ctaid.x;"
	" cvt.rn.f32.u32 f0,x; cvt.rn.f32.u32 f1,y;"
	" add.f32 f0,f0,0f3F000000; add.f32 f1,f1,0f3F000000;"
	" tex.2d.v4.f32.f32 {f2,f3,f4,f5},[t,{f0,f1}];"
	" mad.lo.u32 i,y,w,x; mul.wide.u32 o,i,4; add.u64 p,p,o;"
	" st.global.f32 [p],f2; ret; }\n"
	/* out[x] = tex(x) */
	".visible .entry line(.param .u64 out, .param .u64 tex)\n"
	"{ .reg .u64 p, t, o; .reg .s32 x, r<4>;"
	" ld.param.u64 p,[out]; ld.param.u64 t,[tex]; mov.u32 x,%tid.x;"
	" tex.1d.v4.s32.s32 {r0,r1,r2,r3},[t,{x}];"
	" mul.wide.u32 o,x,4; add.u64 p,p,o; st.global.u32 [p],r0; ret; }\n"
	/* out[x] = tex at the middle, level x */
	".visible .entry level(.param .u64 out, .param .u64 tex)\n"
	"{ .reg .u64 p, t, o; .reg .u32 x; .reg .f32 f<6>;"
	" ld.param.u64 p,[out]; ld.param.u64 t,[tex]; mov.u32 x,%tid.x;"
	" cvt.rn.f32.u32 f1,x; mov.f32 f0,0f3F000000;"
	" tex.level.2d.v4.f32.f32 {f2,f3,f4,f5},[t,{f0,f0}],f1;"
	" mul.wide.u32 o,x,4; add.u64 p,p,o; st.global.f32 [p],f2; ret; }\n"
	/* surface(x, y) = 1000 y + x */
	".visible .entry store(.param .u64 surface)\n"
	"{ .reg .u64 s; .reg .u32 x, y, b, v;"
	" ld.param.u64 s,[surface]; mov.u32 x,%tid.x; mov.u32 y,%ctaid.x;"
	" mad.lo.u32 v,y,1000,x; shl.b32 b,x,2;"
	" sust.b.2d.b32.trap [s,{b,y}],{v}; ret; }\n";

static CUmodule module;

static void
launch(const char *name, unsigned int blocks, unsigned int threads, void **args)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	OK(cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, NULL, args,
			  NULL));
}

static bool
fetches(CUtexObject tex, CUdeviceptr out, const float *want)
{
	float host[W * H];
	uint32_t width = W;
	void *args[] = { &out, &tex, &width };

	memset(host, 0, sizeof(host));
	OK(cuMemsetD8(out, 0, sizeof(host)));
	launch("plane", H, W, args);
	OK(cuMemcpyDtoH(host, out, sizeof(host)));
	return !memcmp(host, want, sizeof(host));
}

static void
of_array(CUdeviceptr out, const float *host)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = W, .Height = H, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	};
	CUDA_TEXTURE_DESC how = {
		.addressMode = { CU_TR_ADDRESS_MODE_CLAMP,
				 CU_TR_ADDRESS_MODE_CLAMP,
				 CU_TR_ADDRESS_MODE_CLAMP },
		.filterMode = CU_TR_FILTER_MODE_POINT,
	}, how_is;
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host,
		.srcPitch = W * 4, .dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.WidthInBytes = W * 4, .Height = H,
	};
	CUDA_RESOURCE_DESC of = { .resType = CU_RESOURCE_TYPE_ARRAY }, of_is;
	float other[W * H];
	CUtexObject tex;
	CUarray array;

	OK(cuArrayCreate(&array, &shape));
	copy.dstArray = array;
	OK(cuMemcpy2D(&copy));
	of.res.array.hArray = array;
	OK(cuTexObjectCreate(&tex, &of, &how, NULL));
	fact("a texture has a value", tex != 0);
	fact("kernels fetch from an array", fetches(tex, out, host));
	OK(cuTexObjectGetResourceDesc(&of_is, tex));
	OK(cuTexObjectGetTextureDesc(&how_is, tex));
	fact("a texture knows what it was made of",
	     of_is.resType == CU_RESOURCE_TYPE_ARRAY &&
	     of_is.res.array.hArray == array &&
	     how_is.filterMode == CU_TR_FILTER_MODE_POINT);
	for (unsigned int i = 0; i < W * H; i++)
		other[i] = host[i] * 2;
	copy.srcHost = other;
	OK(cuMemcpy2D(&copy));
	fact("what is copied into the array later is seen",
	     fetches(tex, out, other));
	OK(cuTexObjectDestroy(tex));
	OK(cuArrayDestroy(array));
}

static void
of_memory(CUdeviceptr out, const float *host)
{
	CUDA_TEXTURE_DESC how = {
		.addressMode = { CU_TR_ADDRESS_MODE_CLAMP,
				 CU_TR_ADDRESS_MODE_CLAMP,
				 CU_TR_ADDRESS_MODE_CLAMP },
		.flags = 0,
	};
	CUDA_RESOURCE_DESC of = { .resType = CU_RESOURCE_TYPE_PITCH2D };
	int32_t numbers[W], back[W];
	CUtexObject tex;
	CUdeviceptr p;
	size_t pitch;

	OK(cuMemAllocPitch(&p, &pitch, W * 4, H, 4));
	for (unsigned int y = 0; y < H; y++)
		OK(cuMemcpyHtoD(p + y * pitch, host + y * W, W * 4));
	of.res.pitch2D.devPtr = p;
	of.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
	of.res.pitch2D.numChannels = 1;
	of.res.pitch2D.width = W;
	of.res.pitch2D.height = H;
	of.res.pitch2D.pitchInBytes = pitch;
	OK(cuTexObjectCreate(&tex, &of, &how, NULL));
	fact("kernels fetch from pitched memory", fetches(tex, out, host));
	OK(cuTexObjectDestroy(tex));

	for (int i = 0; i < (int)W; i++)
		numbers[i] = 7 * i - 100;
	OK(cuMemcpyHtoD(p, numbers, sizeof(numbers)));
	memset(&of, 0, sizeof(of));
	of.resType = CU_RESOURCE_TYPE_LINEAR;
	of.res.linear.devPtr = p;
	of.res.linear.format = CU_AD_FORMAT_SIGNED_INT32;
	of.res.linear.numChannels = 1;
	of.res.linear.sizeInBytes = sizeof(numbers);
	how.flags = CU_TRSF_READ_AS_INTEGER;
	OK(cuTexObjectCreate(&tex, &of, &how, NULL));
	{
		void *args[] = { &out, &tex };

		launch("line", 1, W, args);
	}
	OK(cuMemcpyDtoH(back, out, sizeof(back)));
	fact("kernels fetch integers from plain memory",
	     !memcmp(back, numbers, sizeof(back)));
	OK(cuTexObjectDestroy(tex));
	OK(cuMemFree(p));
}

static void
of_mipmaps(CUdeviceptr out)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = W, .Height = H, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	}, is;
	CUDA_TEXTURE_DESC how = {
		.addressMode = { CU_TR_ADDRESS_MODE_CLAMP,
				 CU_TR_ADDRESS_MODE_CLAMP,
				 CU_TR_ADDRESS_MODE_CLAMP },
		.flags = CU_TRSF_NORMALIZED_COORDINATES,
		.maxMipmapLevelClamp = 10,
	};
	CUDA_RESOURCE_DESC of = {
		.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
	};
	float host[W * H], back[3];
	CUmipmappedArray mipmap;
	CUtexObject tex;
	CUarray level;
	CUresult r;

	r = cuMipmappedArrayCreate ?
	    cuMipmappedArrayCreate(&mipmap, &shape, 3) :
	    CUDA_ERROR_NOT_SUPPORTED;
	if (r == CUDA_ERROR_NOT_SUPPORTED) {
		puts("---  this driver has no mipmapped arrays");
		return;
	}
	OK(r);
	for (unsigned int i = 0; i < 3; i++) {
		CUDA_MEMCPY2D copy = {
			.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host,
			.srcPitch = (size_t)(W >> i) * 4,
			.dstMemoryType = CU_MEMORYTYPE_ARRAY,
			.WidthInBytes = (size_t)(W >> i) * 4,
			.Height = H >> i,
		};

		OK(cuMipmappedArrayGetLevel(&level, mipmap, i));
		OK(cuArray3DGetDescriptor(&is, level));
		fact("a level is half as large as the one before",
		     is.Width == W >> i && is.Height == H >> i);
		for (unsigned int j = 0; j < W * H; j++)
			host[j] = (float)i * 10 + 1;
		copy.dstArray = level;
		OK(cuMemcpy2D(&copy));
	}
	answers("there is no level behind the last",
		cuMipmappedArrayGetLevel(&level, mipmap, 3),
		CUDA_ERROR_INVALID_VALUE);
	of.res.mipmap.hMipmappedArray = mipmap;
	OK(cuTexObjectCreate(&tex, &of, &how, NULL));
	{
		void *args[] = { &out, &tex };

		launch("level", 1, 3, args);
	}
	OK(cuMemcpyDtoH(back, out, sizeof(back)));
	fact("kernels fetch from its levels",
	     back[0] == 1 && back[1] == 11 && back[2] == 21);
	OK(cuTexObjectDestroy(tex));
	OK(cuMipmappedArrayDestroy(mipmap));
}

static void
surfaces(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = W, .Height = H,
		.Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1,
		.Flags = CUDA_ARRAY3D_SURFACE_LDST,
	};
	CUDA_RESOURCE_DESC of = { .resType = CU_RESOURCE_TYPE_ARRAY }, is;
	uint32_t host[W * H];
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = host,
		.dstPitch = W * 4, .WidthInBytes = W * 4, .Height = H,
	};
	CUsurfObject surface;
	bool right = true;
	CUarray array;
	void *args[] = { &surface };

	OK(cuArray3DCreate(&array, &shape));
	of.res.array.hArray = array;
	OK(cuSurfObjectCreate(&surface, &of));
	OK(cuSurfObjectGetResourceDesc(&is, surface));
	fact("a surface knows its array", is.res.array.hArray == array);
	launch("store", H, W, args);
	copy.srcArray = array;
	OK(cuMemcpy2D(&copy));
	for (uint32_t i = 0; i < W * H; i++)
		right &= host[i] == i / W * 1000 + i % W;
	fact("kernels store into it", right);
	OK(cuSurfObjectDestroy(surface));
	OK(cuArrayDestroy(array));
}

/* Arrays that are destroyed with work under way, again and again. */
static void
come_and_go(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 512, .Height = 512, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 4,
	};
	unsigned char *host = malloc(512 * 16 * 512);
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host,
		.srcPitch = 512 * 16, .dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.WidthInBytes = 512 * 16, .Height = 512,
	};
	CUstream stream;
	CUarray array;

	memset(host, 1, 512 * 16 * 512);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 40; i++) {
		CUstream other;

		OK(cuArrayCreate(&array, &shape));
		copy.dstArray = array;
		OK(cuMemcpy2DAsync(&copy, stream));
		OK(cuArrayDestroy(array));
		OK(cuStreamCreate(&other, 0));
		OK(cuStreamDestroy(other));
	}
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy(stream));
	fact("forty arrays come and go under work", true);
	free(host);
}

int
main(void)
{
	float host[W * H];
	CUcontext ctx;
	CUdeviceptr out;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuMemAlloc(&out, sizeof(host)));
	for (unsigned int i = 0; i < W * H; i++)
		host[i] = (float)i * 0.25f;
	of_array(out, host);
	of_memory(out, host);
	of_mipmaps(out);
	surfaces();
	come_and_go();
	/* What is left must go with the process. */
	return facts_end();
}
