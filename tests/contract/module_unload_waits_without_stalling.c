/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuModuleUnload waits for a neighbour's kernel; others' launches go on
 * meanwhile.
 */
#include "tests/contract/neighbour.h"

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry one()\n{\n\tret;\n}\n";

static CUresult
unload(void *arg)
{
	return drv.cuModuleUnload(*(CUmodule *)arg);
}

int
main(void)
{
	CUmodule module;

	neighbour_start();
	module = drv_load(image);
	neighbour_expect("cuModuleUnload", unload, &module, true, false);
	test_pass();
}
