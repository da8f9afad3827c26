/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuLibraryUnload of a library in use waits for a neighbour's kernel and
 * stalls others' launches.
 */
#include "tests/contract/neighbour.h"

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry one()\n{\n\tret;\n}\n";

static CUresult
unload(void *arg)
{
	return drv.cuLibraryUnload(*(CUlibrary *)arg);
}

int
main(void)
{
	CUlibrary library;
	CUkernel kernel;
	CUfunction function;

	neighbour_start();
	OK(drv.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL,
				 0));
	OK(drv.cuLibraryGetKernel(&kernel, library, "one"));
	OK(drv.cuKernelGetFunction(&function, kernel));
	OK(drv_launch1(function, neighbour_own_stream, NULL));
	OK(drv.cuStreamSynchronize(neighbour_own_stream));
	neighbour_expect("cuLibraryUnload", unload, &library, true, true);
	test_pass();
}
