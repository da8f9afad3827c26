/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a group, as main() starts it and as groups set it up.
 * For tests/gpu/fidelity only.
 */
#ifndef TESTS_GPU_FIDELITY_GROUP_H
#define TESTS_GPU_FIDELITY_GROUP_H

/* Before the group's function: print from that row on. */
void row_start(void *library, unsigned int skip);

/* Exit status: start the group again behind the row that was printed last. */
#define ROW_POISONED 5

/* A check of its own after each row; it prints by row_put_after(). */
void row_set_after(void (*after)(void));
void row_put_after(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif
