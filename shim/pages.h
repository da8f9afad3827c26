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

/* What madvise() was told of parts of the pages, bits of pages.c's list. */
#define PAGES_ADVISED 16
struct shim_advised {
	unsigned int count;
	struct {
		uint64_t start, end;
		unsigned int bits;
	} spans[PAGES_ADVISED];
};

/* Whole pages, and what is to lie in their place. */
struct shim_pages {
	uint64_t start, size;
	struct shim_fd file; /* its first byte lies at start */
	uint8_t *mirror;    /* all of the file, mapped elsewhere */
	bool locked;        /* the program had locked them */
	bool mixed;         /* the first and the last hold other data, too */
	struct shim_advised advised;
};

enum {
	PAGES_E_KIND = 1,   /* not private, anonymous, readable, writable
			     * memory, or a stack */
	PAGES_E_ADVISED,    /* advised upon in too many parts */
	PAGES_E_PINNED,     /* something has pages of the process pinned */
	PAGES_E_SHARED,     /* they are mixed, and other threads that may write
			     * there cannot all be held up */
};

/*
 * May these bytes be exchanged? Widened to whole pages in *out_pages. 0,
 * PAGES_E_*, -errno.
 */
int shim_pages_check(uint64_t start, uint64_t size,
		     struct shim_pages *out_pages);
/*
 * Put the file in place of the pages, with what they hold. What another
 * thread writes meanwhile into pages that are not mixed may be lost.
 * PAGES_E_SHARED or -errno: the program's pages are its own, as before.
 */
int shim_pages_share(const struct shim_pages *pages);
/* The contrary, but for pages that the program has meanwhile given another
 * meaning. Takes the contents from the mirror. PAGES_E_SHARED: some are the
 * file's still, which has to stay. */
int shim_pages_own(const struct shim_pages *pages);
/* Is the file still in place of these pages? */
bool shim_pages_are_file(const struct shim_pages *pages, uint64_t start,
			 uint64_t size);
/*
 * In a forked child: what it writes from now on is its own. Mixed pages are
 * its own at once; in the others the parent's writes show until it writes
 * there itself. Takes no lock.
 */
void shim_pages_forked(const struct shim_pages *pages);

#endif
