/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own pages, exchanged for pages of a file and back.
 * Used by register.c alone.
 */
#ifndef SHIM_PAGES_H
#define SHIM_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/control.h"

#define PAGES_SIZE UINT64_C(4096)

/* Whole pages, and what is to lie in their place. */
struct shim_pages {
	uint64_t start, size;
	struct shim_fd file; /* its first byte lies at start */
	uint8_t *mirror;    /* all of the file, mapped elsewhere */
	bool locked;        /* the program had locked them */
};

enum {
	PAGES_E_KIND = 1,   /* not private, anonymous, readable, writable
			     * memory, or a stack */
	PAGES_E_SHARED,     /* [start, start + size) are not whole pages, and
			     * other threads may write beside them */
};

/*
 * May these bytes be exchanged? Widened to whole pages in *out_pages. 0,
 * PAGES_E_*, -errno.
 */
int shim_pages_check(uint64_t start, uint64_t size,
		     struct shim_pages *out_pages);
/*
 * Put the file in place of the pages, with what they hold. What another
 * thread writes into them meanwhile may be lost. 0 or -errno; then the
 * program's pages are its own, as before.
 */
int shim_pages_share(const struct shim_pages *pages);
/* The contrary, but for pages that the program has meanwhile given another
 * meaning. Takes the contents from the mirror. */
void shim_pages_own(const struct shim_pages *pages);
/* In a forked child: what it writes from now on is its own. The parent's
 * writes show in pages that it has not written to. Takes no lock. */
void shim_pages_forked(const struct shim_pages *pages);

#endif
