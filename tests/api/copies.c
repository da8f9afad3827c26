/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of two and three dimensions between all kinds of memory, and of
 * arrays.
 */
#include <string.h>

#include "tests/api/facts.h"

static CUstream stream;

static void
fill(unsigned char *p, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1103515245u + 12345u;
		p[i] = (unsigned char)(seed >> 16);
	}
}

/* Are rows of `width` bytes the same? */
static bool
same_rows(const unsigned char *a, size_t a_pitch, const unsigned char *b,
	  size_t b_pitch, size_t width, size_t rows)
{
	for (size_t i = 0; i < rows; i++)
		if (memcmp(a + i * a_pitch, b + i * b_pitch, width))
			return false;
	return true;
}

struct side {
	CUmemorytype type;
	void *host;
	CUdeviceptr device;
	CUarray array;
	size_t pitch, x, y;
};

static CUresult
copy(struct side dst, struct side src, size_t width, size_t rows, bool async)
{
	CUDA_MEMCPY2D m = {
		.srcMemoryType = src.type, .srcHost = src.host,
		.srcDevice = src.device, .srcArray = src.array,
		.srcPitch = src.pitch, .srcXInBytes = src.x, .srcY = src.y,
		.dstMemoryType = dst.type, .dstHost = dst.host,
		.dstDevice = dst.device, .dstArray = dst.array,
		.dstPitch = dst.pitch, .dstXInBytes = dst.x, .dstY = dst.y,
		.WidthInBytes = width, .Height = rows,
	};

	return async ? cuMemcpy2DAsync(&m, stream) : cuMemcpy2D(&m);
}

static struct side
host(void *p, size_t pitch, size_t x, size_t y)
{
	return (struct side){ .type = CU_MEMORYTYPE_HOST, .host = p,
			      .pitch = pitch, .x = x, .y = y };
}

static struct side
device(CUdeviceptr p, size_t pitch, size_t x, size_t y)
{
	return (struct side){ .type = CU_MEMORYTYPE_DEVICE, .device = p,
			      .pitch = pitch, .x = x, .y = y };
}

static struct side
array(CUarray p, size_t x, size_t y)
{
	return (struct side){ .type = CU_MEMORYTYPE_ARRAY, .array = p,
			      .x = x, .y = y };
}

/* There and back again through pitched memory, with and without Async. */
static void
there_and_back(const char *text, size_t width, size_t rows, bool pinned,
	       bool async)
{
	size_t pitch, from_pitch = width + 24, to_pitch = width + 8;
	size_t from_size = from_pitch * (rows + 2), to_size = to_pitch * rows;
	unsigned char *from, *to;
	CUdeviceptr p;

	if (pinned) {
		OK(cuMemAllocHost((void **)&from, from_size));
		OK(cuMemAllocHost((void **)&to, to_size));
	} else {
		from = malloc(from_size);
		to = malloc(to_size);
	}
	fill(from, from_size, (unsigned int)width);
	memset(to, 0, to_size);
	OK(cuMemAllocPitch(&p, &pitch, width + 16, rows + 1, 4));
	OK(copy(device(p, pitch, 8, 1), host(from, from_pitch, 4, 2), width,
		rows, async));
	if (async && !pinned)
		/* Taken already. */
		memset(from, 0xee, 4);
	OK(copy(host(to, to_pitch, 0, 0), device(p, pitch, 8, 1), width, rows,
		async));
	if (async)
		OK(cuStreamSynchronize(stream));
	fact(text, same_rows(to, to_pitch, from + 2 * from_pitch + 4,
			     from_pitch, width, rows));
	OK(cuMemFree(p));
	if (pinned) {
		OK(cuMemFreeHost(from));
		OK(cuMemFreeHost(to));
	} else {
		free(from);
		free(to);
	}
}

static void
rows_of_memory(void)
{
	there_and_back("small rows of pageable memory", 100, 37, false, false);
	there_and_back("without waiting", 100, 37, false, true);
	there_and_back("rows of pinned memory", 100, 37, true, false);
	there_and_back("without waiting", 100, 37, true, true);
	there_and_back("many rows", 1000, 3000, false, false);
	there_and_back("rows longer than any staging", 1400004, 3, false,
		       true);
}

static void
device_to_device(void)
{
	unsigned char *a = malloc(64 * 64), *b = calloc(1, 64 * 64);
	CUdeviceptr p, q;

	fill(a, 64 * 64, 7);
	OK(cuMemAlloc(&p, 64 * 64));
	OK(cuMemAlloc(&q, 128 * 64));
	OK(cuMemsetD8(q, 0, 128 * 64));
	OK(cuMemcpyHtoD(p, a, 64 * 64));
	OK(copy(device(q, 128, 0, 0), device(p, 64, 16, 8), 48, 50, false));
	OK(copy(host(b, 64, 0, 0), device(q, 128, 0, 0), 48, 50, false));
	fact("between two pitches of device memory",
	     same_rows(b, 64, a + 8 * 64 + 16, 64, 48, 50));
	answers("rows longer than the pitch are refused",
		copy(device(p, 64, 0, 0), host(a, 32, 0, 0), 48, 2, false),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(p));
	OK(cuMemFree(q));
	free(a);
	free(b);
}

static CUarray
make_array(size_t width, size_t height, CUarray_format format,
	   unsigned int channels)
{
	CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = width, .Height = height, .Format = format,
		.NumChannels = channels,
	}, is;
	CUarray a;

	OK(cuArrayCreate(&a, &desc));
	OK(cuArrayGetDescriptor(&is, a));
	fact("an array knows its shape",
	     is.Width == width && is.Height == height &&
	     is.Format == format && is.NumChannels == channels);
	return a;
}

static void
arrays(void)
{
	unsigned char *a = malloc(4096 * 100), *b = calloc(1, 4096 * 100);
	CUarray row, plane, other, none;
	CUdeviceptr p;

	fill(a, 4096 * 100, 3);
	OK(cuMemAlloc(&p, 4096 * 100));
	row = make_array(1024, 0, CU_AD_FORMAT_FLOAT, 1);
	OK(cuMemcpyHtoA(row, 64, a, 4000));
	OK(cuMemcpyAtoD(p, row, 64, 4000));
	OK(cuMemcpyDtoH(b, p, 4000));
	fact("host to array to device to host", !memcmp(a, b, 4000));
	OK(cuMemcpyDtoA(row, 0, p, 4000));
	memset(b, 0, 4000);
	OK(cuMemcpyAtoH(b, row, 0, 4000));
	fact("device to array to host", !memcmp(a, b, 4000));
	other = make_array(1024, 0, CU_AD_FORMAT_FLOAT, 1);
	OK(cuMemcpyAtoA(other, 0, row, 1000, 3000));
	OK(cuCtxSynchronize());
	memset(b, 0, 4000);
	OK(cuMemcpyAtoHAsync(b, other, 0, 3000, stream));
	OK(cuStreamSynchronize(stream));
	fact("array to array", !memcmp(a + 1000, b, 3000));
	answers("a copy beyond an array is refused",
		cuMemcpyHtoA(row, 4096, a, 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(other));

	plane = make_array(333, 90, CU_AD_FORMAT_UNSIGNED_INT8, 4);
	OK(copy(array(plane, 0, 0), host(a, 4096, 0, 0), 333 * 4, 90, false));
	OK(cuCtxSynchronize());
	memset(b, 0, 4096 * 100);
	OK(copy(host(b, 2000, 0, 0), array(plane, 40, 5), 1000, 80, true));
	OK(cuStreamSynchronize(stream));
	fact("part of an array of two dimensions",
	     same_rows(b, 2000, a + 5 * 4096 + 40, 4096, 1000, 80));
	OK(cuMemsetD8(p, 0, 4096 * 100));
	OK(copy(device(p, 1024, 0, 0), array(plane, 0, 10), 1024, 70, false));
	OK(cuMemcpyDtoH(b, p, 1024 * 70));
	fact("to device memory", same_rows(b, 1024, a + 10 * 4096, 4096, 1024,
					   70));
	answers("rows beyond an array are refused",
		copy(array(plane, 0, 60), host(a, 4096, 0, 0), 16, 40, false),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(plane));
	OK(cuArrayDestroy(row));
	/* Handles of dead arrays are undefined natively: a wrong one is not
	 * tried here. */
	none = NULL;
	fact("nothing is no array", cuArrayDestroy(none) != CUDA_SUCCESS);
	OK(cuMemFree(p));
	free(a);
	free(b);
}

static void
boxes(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = 40, .Height = 30, .Depth = 20,
		.Format = CU_AD_FORMAT_UNSIGNED_INT16, .NumChannels = 2,
	}, is;
	size_t slice = 200 * 32;
	unsigned char *a = malloc(slice * 20), *b = calloc(1, slice * 20);
	bool right = true;
	CUDA_MEMCPY3D m;
	CUarray box;

	fill(a, slice * 20, 11);
	OK(cuArray3DCreate(&box, &desc));
	OK(cuArray3DGetDescriptor(&is, box));
	fact("an array of three dimensions", is.Depth == 20 && is.Height == 30);
	m = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = a,
		.srcPitch = 200, .srcHeight = 32,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = box,
		.WidthInBytes = 160, .Height = 30, .Depth = 20,
	};
	OK(cuMemcpy3D(&m));
	OK(cuCtxSynchronize());
	m = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = box,
		.srcXInBytes = 8, .srcY = 3, .srcZ = 2,
		.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = b,
		.dstPitch = 200, .dstHeight = 32,
		.WidthInBytes = 100, .Height = 20, .Depth = 15,
	};
	OK(cuMemcpy3DAsync(&m, stream));
	OK(cuStreamSynchronize(stream));
	for (size_t z = 0; z < 15; z++)
		right &= same_rows(b + z * slice, 200,
				   a + (z + 2) * slice + 3 * 200 + 8, 200, 100,
				   20);
	fact("part of a box", right);
	m.srcZ = 10;
	answers("a box beyond the array is refused", cuMemcpy3D(&m),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(box));
	free(a);
	free(b);
}

/* A large box of pageable memory in many pieces. */
static void
large_box(void)
{
	size_t width = 700, rows = 900, slices = 9;
	size_t size = width * rows * slices;
	unsigned char *a = malloc(size), *b = calloc(1, size);
	CUDA_MEMCPY3D m = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = a,
		.srcPitch = width, .srcHeight = rows,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = width, .dstHeight = rows,
		.WidthInBytes = width, .Height = rows, .Depth = slices,
	};
	CUdeviceptr p;

	fill(a, size, 5);
	OK(cuMemAlloc(&p, size));
	m.dstDevice = p;
	OK(cuMemcpy3D(&m));
	OK(cuMemcpyDtoH(b, p, size));
	fact("a large box", !memcmp(a, b, size));
	memset(b, 0, size);
	m.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	m.srcDevice = p;
	m.dstMemoryType = CU_MEMORYTYPE_HOST;
	m.dstHost = b;
	OK(cuMemcpy3D(&m));
	fact("and back", !memcmp(a, b, size));
	OK(cuMemFree(p));
	free(a);
	free(b);
}

/* cuDNN captures fills at addresses that are none, to see what a plan does. */
static void
captured_at_no_address(void)
{
	CUgraphExec exec;
	CUgraph graph;
	size_t nodes = 0;

	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	fact("a fill at no address is captured",
	     cuMemsetD8Async(0x80, 0, 4096, stream) == CUDA_SUCCESS);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphGetNodes(graph, NULL, &nodes));
	fact("as a node", nodes == 1);
	fact("such a graph cannot be instantiated",
	     cuGraphInstantiate(&exec, graph, 0) != CUDA_SUCCESS);
	OK(cuGraphDestroy(graph));
}

int
main(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	rows_of_memory();
	device_to_device();
	arrays();
	boxes();
	large_box();
	captured_at_no_address();
	return facts_end();
}
