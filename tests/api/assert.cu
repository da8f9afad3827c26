/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel whose assertion fails. Prints the code that synchronising gives.
 */
#include <cassert>
#include <cstdio>

__global__ void
expects_more(int n)
{
	assert(n > 5 && "wanted more");
}

int
main()
{
	expects_more<<<1, 1>>>(3);
	printf("%d\n", (int)cudaDeviceSynchronize());
	return 0;
}
