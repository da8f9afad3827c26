/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a module drains everything in flight and stalls everybody's
 * launches meanwhile, a small image as well as PTX.
 */
#include "tests/contract/neighbour.h"

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry small()\n{\n\tret;\n}\n";

static CUresult
load(void *arg)
{
	return drv.cuModuleLoadData(arg, image);
}

int
main(void)
{
	CUmodule module;

	neighbour_start();
	neighbour_expect("cuModuleLoadData", load, &module, true, true);
	neighbour_expect("cuModuleLoadData of the same image again", load,
			 &module, true, true);
	test_pass();
}
