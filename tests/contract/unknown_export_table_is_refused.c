/* SPDX-License-Identifier: Apache-2.0 */
/* An unknown export table gives 1 and a NULL table. */
#include "tests/contract/drv.h"

int
main(void)
{
	CUuuid id = { .bytes = "not a table of" };
	const void *table = &id;

	drv_open();
	OK(drv.cuInit(0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGetExportTable(&table, &id));
	CHECK(!table);
	test_pass();
}
