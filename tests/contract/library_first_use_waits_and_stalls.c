/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With lazy loading cuLibraryLoadData neither waits nor stalls: the drain
 * is at the first use of a library. Further functions of it are free.
 */
#include "tests/contract/neighbour.h"

#include <stdlib.h>

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry one()\n{\n\tret;\n}\n"
	".visible .entry two()\n{\n\tret;\n}\n";

static CUlibrary library;
static CUkernel one, two;
static CUfunction function;

static CUresult
load(void *arg)
{
	(void)arg;
	return drv.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL,
				     NULL, 0);
}

static CUresult
get_kernel(void *arg)
{
	(void)arg;
	return drv.cuLibraryGetKernel(&one, library, "one");
}

static CUresult
first_use(void *kernel)
{
	return drv.cuKernelGetFunction(&function, *(CUkernel *)kernel);
}

int
main(void)
{
	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	neighbour_start();
	neighbour_expect("cuLibraryLoadData", load, NULL, false, false);
	neighbour_expect("cuLibraryGetKernel", get_kernel, NULL, false, false);
	neighbour_expect("cuKernelGetFunction, first of the library",
			 first_use, &one, true, true);
	OK(drv.cuLibraryGetKernel(&two, library, "two"));
	neighbour_expect("cuKernelGetFunction, second of the library",
			 first_use, &two, false, false);
	test_pass();
}
