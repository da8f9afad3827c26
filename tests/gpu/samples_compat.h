/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Thrust had until CCCL 3 and its examples of before use.
 * Put in front of each of them by samples.sh; nothing else includes it.
 */
#ifndef SAMPLES_COMPAT_H
#define SAMPLES_COMPAT_H

#include <thrust/functional.h>

#if defined(CCCL_MAJOR_VERSION) && CCCL_MAJOR_VERSION >= 3
namespace thrust {
template <class A, class R>
struct unary_function {
	typedef A argument_type;
	typedef R result_type;
};

template <class A, class B, class R>
struct binary_function {
	typedef A first_argument_type;
	typedef B second_argument_type;
	typedef R result_type;
};

template <class T>
struct identity {
	__host__ __device__ const T &
	operator()(const T &x) const
	{
		return x;
	}
};
}
#endif

#endif
