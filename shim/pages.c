/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanging pages under a program's feet. A piece is copied to its new place
 * and one mremap() puts that where the old one was, so that every address is
 * mapped at every moment. Threads that write between the two are held up
 * (hold.h). Where the system does not allow that, what they write is lost;
 * pieces are small to keep that short. Pages that hold the program's other
 * data as well are exchanged only if all can be held up, or there are none.
 *
 * What lies at an address is read from /proc/self/maps each time: programs
 * unmap and map again without asking us.
 */
#include "shim/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/err.h"
#include "shim/crew.h"
#include "shim/hold.h"

/* 0.1 ms of copying. */
#define PIECE (UINT64_C(1) << 20)
#define LINE 512u

/* ---- what is mapped ----------------------------------------------------- */

/* A file of /proc, line by line; allocates nothing, as a forked child reads
 * it. Of long lines, the beginning. */
struct reader {
	int fd;
	size_t at, have;
	char buffer[4096];
	char line[LINE];
};

struct mapped {
	uint64_t start, end, ino, dev, offset;
	char access[5];
	const char *name;
};

static bool
next_byte(struct reader *r, char *out)
{
	if (r->at == r->have) {
		ssize_t n = read(r->fd, r->buffer, sizeof(r->buffer));

		if (n <= 0)
			return false;
		r->at = 0;
		r->have = (size_t)n;
	}
	*out = r->buffer[r->at++];
	return true;
}

static bool
next_line(struct reader *r)
{
	size_t size = 0;
	char c;

	while (next_byte(r, &c)) {
		if (c == '\n') {
			r->line[size] = '\0';
			return true;
		}
		if (size < LINE - 1)
			r->line[size++] = c;
	}
	return false;
}

static bool
parse(const char *line, struct mapped *m)
{
	unsigned long start, end, offset, ino;
	unsigned int major_, minor_;
	int name = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end,
		   m->access, &offset, &major_, &minor_, &ino, &name) != 7)
		return false;
	m->start = start;
	m->end = end;
	m->offset = offset;
	m->dev = makedev(major_, minor_);
	m->ino = ino;
	m->name = line + name;
	return true;
}

/* The next mapping that has pages in [start, end). */
static bool
next_mapped(struct reader *r, uint64_t start, uint64_t end, struct mapped *m)
{
	while (next_line(r))
		if (parse(r->line, m) && m->start < end && m->end > start)
			return true;
	return false;
}

static int
open_proc(struct reader *r, const char *path)
{
	r->at = r->have = 0;
	r->fd = open(path, O_RDONLY | O_CLOEXEC);
	return r->fd < 0 ? err_origin(-errno) : 0;
}

/* A number of /proc/self/status; 0 too if it is not there. */
static unsigned long
status_of(const char *what)
{
	size_t size = strlen(what);
	unsigned long value = 0;
	struct reader r;

	if (open_proc(&r, "/proc/self/status") < 0)
		return 0;
	while (next_line(&r))
		if (!strncmp(r.line, what, size) && r.line[size] == ':')
			value = strtoul(r.line + size + 1, NULL, 10);
	close(r.fd);
	return value;
}

static bool
is_plain(const struct mapped *m)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);

	if (strcmp(m->access, "rw-p") || m->ino ||
	    (here >= m->start && here < m->end))
		return false;
	/* Named by a program, or the heap; not [stack] and its like. */
	return !*m->name || !strcmp(m->name, "[heap]") ||
	       !strncmp(m->name, "[anon:", 6);
}

static int
check_kind(const struct shim_pages *pages)
{
	uint64_t at = pages->start, end = pages->start + pages->size;
	struct mapped m;
	struct reader r;
	int result = open_proc(&r, "/proc/self/maps");

	if (result < 0)
		return err_trace(result);
	while (at < end && next_mapped(&r, at, end, &m)) {
		if (m.start > at || !is_plain(&m))
			break;
		at = m.end;
	}
	close(r.fd);
	return at < end ? PAGES_E_KIND : 0;
}

/* What madvise() has been told, as smaps has it. */
static const struct advice {
	char flag[4];
	int advice;
	bool private;       /* says nothing of shared memory */
} advices[] = {
	{ " dc", MADV_DONTFORK, false }, { " dd", MADV_DONTDUMP, false },
	{ " hg", MADV_HUGEPAGE, false }, { " nh", MADV_NOHUGEPAGE, false },
	{ " rr", MADV_RANDOM, false }, { " sr", MADV_SEQUENTIAL, false },
	{ " mg", MADV_MERGEABLE, true }, { " wf", MADV_WIPEONFORK, true },
};
#define ADVICES (sizeof(advices) / sizeof(*advices))
#define WIPE (1u << (ADVICES - 1))

static unsigned int
bits_of(const char *flags)
{
	unsigned int bits = 0;

	for (unsigned int i = 0; i < ADVICES; i++)
		if (strstr(flags, advices[i].flag))
			bits |= 1u << i;
	return bits;
}

static int
note_span(struct shim_advised *advised, uint64_t start, uint64_t end,
	  unsigned int bits)
{
	unsigned int n = advised->count;

	if (!bits)
		return 0;
	if (n && advised->spans[n - 1].bits == bits &&
	    advised->spans[n - 1].end == start) {
		advised->spans[n - 1].end = end;
		return 0;
	}
	if (n == PAGES_ADVISED)
		return PAGES_E_ADVISED;
	advised->spans[n].start = start;
	advised->spans[n].end = end;
	advised->spans[n].bits = bits;
	advised->count++;
	return 0;
}

/* What is said of them, and whether a part of them is locked. Costs a walk
 * through the memory of the process that lies below them, 7 ms a GiB. */
static int
read_flags(const struct shim_pages *pages, struct shim_advised *out_advised,
	   bool *out_locked)
{
	uint64_t end = pages->start + pages->size;
	struct mapped m = { .start = end };
	struct reader r;
	int result = open_proc(&r, "/proc/self/smaps");

	out_advised->count = 0;
	*out_locked = false;
	if (result < 0)
		return err_trace(result);
	while (!result && next_line(&r)) {
		if (parse(r.line, &m)) {
			if (m.start >= end)
				break;
		} else if (m.start < end && m.end > pages->start &&
			   !strncmp(r.line, "VmFlags:", 8)) {
			*out_locked |= strstr(r.line, " lo") != NULL;
			result = note_span(out_advised, m.start > pages->start ?
					   m.start : pages->start,
					   m.end < end ? m.end : end,
					   bits_of(r.line));
		}
	}
	close(r.fd);
	return result;
}

/* Say it again of what is there now. It is advice: what the system does not
 * take of it is as if it were not followed. */
static void
advise(const struct shim_advised *advised, uint64_t from, uint64_t to,
       bool private)
{
	for (unsigned int n = 0; n < advised->count; n++) {
		uint64_t start = advised->spans[n].start;
		uint64_t end = advised->spans[n].end;

		start = start > from ? start : from;
		end = end < to ? end : to;
		for (unsigned int i = 0; i < ADVICES && start < end; i++)
			if (advised->spans[n].bits & 1u << i &&
			    (!advices[i].private || private))
				madvise((void *)(uintptr_t)start, end - start,
					advices[i].advice);
	}
}

static bool
is_alone(void)
{
	return status_of("Threads") == 1 + shim_crew_count();
}

int
shim_pages_check(uint64_t start, uint64_t size, struct shim_pages *out_pages)
{
	uint64_t first = start / PAGES_SIZE * PAGES_SIZE;
	uint64_t end = (start + size + PAGES_SIZE - 1) / PAGES_SIZE *
		       PAGES_SIZE;
	int r;

	*out_pages = (struct shim_pages){
		.start = first, .size = end - first, .file = { .fd = -1 },
	};
	r = check_kind(out_pages);
	if (r)
		return r;
	/* A network card, or a ring of the kernel's, would go on with the old
	 * ones; nobody says with which. */
	if (status_of("VmPin"))
		return PAGES_E_PINNED;
	out_pages->mixed = first != start || end != start + size;
	return read_flags(out_pages, &out_pages->advised, &out_pages->locked);
}

/* ---- exchanging --------------------------------------------------------- */

/* What lies at `from` goes to `to` in one step, in place of what is there. */
static int
put(void *from, uint64_t to, uint64_t size)
{
	if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
		   (void *)(uintptr_t)to) == MAP_FAILED) {
		int r = -errno;

		munmap(from, size);
		return err_origin(r);
	}
	return 0;
}

static int
share_piece(const struct shim_pages *pages, const struct shim_hold *hold,
	    uint64_t at, uint64_t size)
{
	int locked = pages->locked ? MAP_LOCKED : 0, r;
	void *file = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_SHARED | locked, pages->file.fd, (off_t)at);

	if (file == MAP_FAILED)
		return err_origin(-errno);
	if (!shim_hold_pages(hold, pages->start + at, size) && hold->must) {
		munmap(file, size);
		return PAGES_E_SHARED;
	}
	memcpy(pages->mirror + at,
	       (const void *)(uintptr_t)(pages->start + at), size);
	r = put(file, pages->start + at, size);
	if (!r)
		advise(&pages->advised, pages->start + at,
		       pages->start + at + size, false);
	shim_hold_release(hold, pages->start + at, size);
	return r;
}

static int
own_piece(const struct shim_pages *pages, const struct shim_hold *hold,
	  uint64_t at, uint64_t size, int access)
{
	int locked = pages->locked ? MAP_LOCKED : 0, r;
	void *own = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | locked, -1, 0);

	if (own == MAP_FAILED)
		return err_origin(-errno);
	if (!shim_hold_pages(hold, pages->start + at, size) && hold->must) {
		munmap(own, size);
		return PAGES_E_SHARED;
	}
	memcpy(own, pages->mirror + at, size);
	/* What the program has forbidden since stays so. */
	if (access != (PROT_READ | PROT_WRITE))
		mprotect(own, size, access);
	r = put(own, pages->start + at, size);
	if (!r)
		advise(&pages->advised, pages->start + at,
		       pages->start + at + size, true);
	shim_hold_release(hold, pages->start + at, size);
	return r;
}

static uint64_t
piece_at(uint64_t at, uint64_t end)
{
	return end - at < PIECE ? end - at : PIECE;
}

static int
access_of(const struct mapped *m)
{
	return (m->access[0] == 'r' ? PROT_READ : 0) |
	       (m->access[1] == 'w' ? PROT_WRITE : 0) |
	       (m->access[2] == 'x' ? PROT_EXEC : 0);
}

/* Walk through those pages of a part that still are the file's. */
static int
each_of_file(const struct shim_pages *pages, const struct shim_hold *hold,
	     uint64_t at, uint64_t end,
	     int (*take)(const struct shim_pages *pages,
			 const struct shim_hold *hold, uint64_t at,
			 uint64_t size, int access))
{
	int result = 0;

	at += pages->start;
	end += pages->start;
	while (at < end) {
		struct mapped m;
		struct reader r;
		bool found;

		/* Read anew each time: what take() does changes the list. */
		result = open_proc(&r, "/proc/self/maps");
		if (result < 0)
			return err_trace(result);
		do
			found = next_mapped(&r, at, end, &m);
		while (found && (m.ino != pages->file.ino || m.dev != pages->file.dev));
		close(r.fd);
		if (!found)
			return 0;
		if (at < m.start)
			at = m.start;
		while (at < m.end && at < end) {
			uint64_t size = piece_at(at, m.end < end ? m.end : end);
			/* The program may have moved them. */
			uint64_t offset = m.offset + (at - m.start);

			if (offset == at - pages->start)
				result = take(pages, hold, offset, size,
					      access_of(&m));
			if (result)
				return result;
			at += size;
		}
	}
	return 0;
}

/* True if all who might lose what they write are held up. */
static bool
begin(const struct shim_pages *pages, struct shim_hold *hold)
{
	shim_hold_begin(hold);
	hold->must = pages->mixed && !is_alone();
	return !hold->must || hold->all;
}

int
shim_pages_share(const struct shim_pages *pages)
{
	struct shim_hold hold;
	int r = begin(pages, &hold) ? 0 : PAGES_E_SHARED;
	bool begun = !r;

	for (uint64_t at = 0, n; at < pages->size && !r; at += n) {
		n = piece_at(at, pages->size);
		r = share_piece(pages, &hold, at, n);
	}
	shim_hold_end(&hold);
	if (r && begun)
		shim_pages_own(pages);
	return r;
}

/* What was said since they are the file's counts, where that can be said of
 * shared memory; of the rest, what was said before. */
static void
merge_advice(const struct shim_pages *pages, struct shim_pages *out)
{
	unsigned int private = 0;
	bool locked;

	*out = *pages;
	if (read_flags(pages, &out->advised, &locked)) {
		out->advised = pages->advised;
		return;
	}
	for (unsigned int i = 0; i < ADVICES; i++)
		private |= advices[i].private ? 1u << i : 0;
	for (unsigned int n = 0; n < pages->advised.count; n++)
		note_span(&out->advised, pages->advised.spans[n].start,
			  pages->advised.spans[n].end,
			  pages->advised.spans[n].bits & private);
}

int
shim_pages_own(const struct shim_pages *given)
{
	struct shim_hold hold;
	struct shim_pages merged, *pages = &merged;
	int r = PAGES_E_SHARED;

	merge_advice(given, &merged);
	/* Without memory for a piece it stays the file's, which nobody else
	 * has any more: only a forked child would notice. */
	if (begin(pages, &hold))
		r = each_of_file(pages, &hold, 0, pages->size, own_piece);
	shim_hold_end(&hold);
	return r > 0 ? r : 0;
}

bool
shim_pages_are_file(const struct shim_pages *pages, uint64_t start,
		    uint64_t size)
{
	uint64_t at = start, end = start + size;
	struct mapped m;
	struct reader r;

	if (open_proc(&r, "/proc/self/maps") < 0)
		return false;
	while (at < end && next_mapped(&r, at, end, &m)) {
		if (m.start > at || m.ino != pages->file.ino ||
		    m.dev != pages->file.dev ||
		    m.offset + (at - m.start) != at - pages->start)
			break;
		at = m.end;
	}
	close(r.fd);
	return at >= end;
}

static int
fork_piece(const struct shim_pages *pages, const struct shim_hold *hold,
	   uint64_t at, uint64_t size, int access)
{
	if (shim_fd_is_ours(&pages->file) &&
	    mmap((void *)(uintptr_t)(pages->start + at), size, access,
		 MAP_PRIVATE | MAP_FIXED, pages->file.fd,
		 (off_t)at) != MAP_FAILED)
		return 0;
	/* The program has closed our descriptor. */
	return own_piece(pages, hold, at, size, access);
}

static int
wipe_piece(const struct shim_pages *pages, const struct shim_hold *hold,
	   uint64_t at, uint64_t size, int access)
{
	void *to = (void *)(uintptr_t)(pages->start + at);

	(void)hold;
	if (mmap(to, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		return err_origin(-errno);
	madvise(to, size, MADV_WIPEONFORK);
	return 0;
}

void
shim_pages_forked(const struct shim_pages *pages)
{
	/* It has no other threads yet. */
	const struct shim_hold nobody = { .fd = -1 };
	uint64_t edge = pages->mixed ? PAGES_SIZE : 0;
	uint64_t last = pages->size - edge;
	const struct shim_advised *advised = &pages->advised;

	for (unsigned int n = 0; n < advised->count; n++)
		if (advised->spans[n].bits & WIPE)
			each_of_file(pages, &nobody,
				     advised->spans[n].start - pages->start,
				     advised->spans[n].end - pages->start,
				     wipe_piece);
	each_of_file(pages, &nobody, 0, edge, own_piece);
	/* A single page is both. */
	each_of_file(pages, &nobody, last, pages->size, own_piece);
	each_of_file(pages, &nobody, edge, last, fork_piece);
}
