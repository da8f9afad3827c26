/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUB's examples take from CUB's own tests, which no package has:
 * arguments, numbers, timers, comparisons. samples.sh puts it where they
 * look for it (test/test_util.h); nothing else includes it.
 */
#ifndef SAMPLES_CUB_H
#define SAMPLES_CUB_H

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <vector>

#include <cub/util_debug.cuh>
#include <cub/util_device.cuh>

#define AssertEquals(a, b) \
	do { \
		if (!((a) == (b))) { \
			std::printf("\n%s:%d: not equal\n", __FILE__, \
				    __LINE__); \
			std::exit(1); \
		} \
	} while (0)

#if defined(CCCL_MAJOR_VERSION) && CCCL_MAJOR_VERSION >= 3
/* Public until CCCL 3. */
#define CUB_MAX(a, b) ((a) > (b) ? (a) : (b))
#define CUB_MIN(a, b) ((a) < (b) ? (a) : (b))

template <class T, class S>
T
SafeBitCast(const S &s)
{
	T t;

	static_assert(sizeof(T) == sizeof(S), "not the same bits");
	std::memcpy(&t, &s, sizeof(T));
	return t;
}
#endif

/* Examples run without arguments: every value is their own. */
struct CommandLineArgs {
	CommandLineArgs(int, char **)
	{
	}

	bool
	CheckCmdLineFlag(const char *)
	{
		return false;
	}

	template <class T>
	void
	GetCmdLineArgument(const char *, T &)
	{
	}

	cudaError_t
	DeviceInit()
	{
		return cudaSetDevice(0);
	}
};

template <class T>
void
RandomBits(T &out)
{
	static std::mt19937 numbers(1);
	unsigned char bytes[sizeof(T)];

	/* What is no number has no place in an order. */
	do {
		for (unsigned char &b : bytes)
			b = (unsigned char)numbers();
		std::memcpy(&out, bytes, sizeof(T));
	} while (out != out);
}

template <class T>
void
DisplayResults(T *, size_t)
{
}

template <class S, class T>
int
CompareResults(T *computed, S *reference, size_t count, bool)
{
	for (size_t i = 0; i < count; i++) {
		if (!(computed[i] == reference[i])) {
			std::printf("[%zu] is wrong ", i);
			return 1;
		}
	}
	return 0;
}

template <class S, class T>
int
CompareDeviceResults(S *reference, T *device, size_t count, bool verbose = true,
		     bool = false)
{
	std::vector<T> computed(count);
	cudaError_t e = cudaMemcpy(computed.data(), device, count * sizeof(T),
				   cudaMemcpyDeviceToHost);

	if (e) {
		std::printf("%s ", cudaGetErrorString(e));
		return 1;
	}
	return CompareResults(computed.data(), reference, count, verbose);
}

struct GpuTimer {
	cudaEvent_t begin, end;

	GpuTimer()
	{
		cudaEventCreate(&begin);
		cudaEventCreate(&end);
	}

	~GpuTimer()
	{
		cudaEventDestroy(begin);
		cudaEventDestroy(end);
	}

	void
	Start()
	{
		cudaEventRecord(begin, 0);
	}

	void
	Stop()
	{
		cudaEventRecord(end, 0);
	}

	float
	ElapsedMillis()
	{
		float ms = 0;

		cudaEventSynchronize(end);
		cudaEventElapsedTime(&ms, begin, end);
		return ms;
	}
};

#endif
