/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address windows. Clients' device memory and pinned memory have the same
 * addresses here and in every client, so the driver must place nothing of
 * its own there, nor where clients usually have their libraries.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "server/worker/worker.h"

/* 16 TiB for ordinary processes; 256 GiB where sanitizers and valgrind leave
 * room too. */
#define DEFAULT_WINDOWS "0x100000000000:16T,0x7e8000000000:256G"
/* Where the driver would place its own, and clients have libraries. */
#define FILL_BASE UINT64_C(0x7e0000000000)
#define FILL_END UINT64_C(0x7fff00000000)
/* The main thread's stack grows down into this. */
#define STACK_ROOM (UINT64_C(64) << 20)
#define ALIGN (UINT64_C(2) << 20)

#ifdef MPSSHIM_SANITIZED
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static bool
read_size(const char **text, uint64_t *out)
{
	char *end;
	int shift = 0;

	errno = 0;
	*out = strtoull(*text, &end, 0);
	if (end == *text || errno)
		return false;
	switch (*end) {
	case 'T':
		shift += 10;
		/* fall through */
	case 'G':
		shift += 10;
		/* fall through */
	case 'M':
		shift += 20;
		end++;
		break;
	default:
		break;
	}
	*text = end;
	*out <<= shift;
	return true;
}

/* The lower three quarters are for device memory; pinned memory cannot lie
 * inside a reservation of the driver's. */
static void
add_window(uint64_t base, uint64_t size)
{
	uint64_t device = (size / 4 * 3) & ~(ALIGN - 1);
	struct wkr_window *w = &wkr.windows[wkr.nwindows];

	if (wkr.nwindows + 2 > WKR_WINDOWS_MAX || base % ALIGN ||
	    device < ALIGN || base + size < base) {
		log_line(LOG_WARN,
			 "address window %#" PRIx64 ":%#" PRIx64
			 " is not usable",
			 base, size);
		return;
	}
	w[0] = (struct wkr_window){.base = base, .size = device};
	w[1] = (struct wkr_window){
		.base = base + device,
		.size = size - device,
		.host = true,
	};
	wkr.nwindows += 2;
}

void
wkr_windows_read(void)
{
	const char *text = getenv("MPSSHIM_WINDOWS");
	uint64_t base, size;

	if (!text || !*text)
		text = DEFAULT_WINDOWS;
	while (*text) {
		if (!read_size(&text, &base) || *text++ != ':' ||
		    !read_size(&text, &size) || (*text && *text++ != ',')) {
			log_line(LOG_WARN,
				 "MPSSHIM_WINDOWS is "
				 "BASE:SIZE[K|M|G|T],…; the rest is ignored");
			return;
		}
		add_window(base, size);
	}
}

static bool
map_nothing(uint64_t base, uint64_t size)
{
	void *at = (void *)(uintptr_t)base;
	void *p = mmap(at, size, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			       MAP_FIXED_NOREPLACE,
		       -1, 0);

	if (p == at)
		return true;
	/* A kernel that does not know the flag maps elsewhere. */
	if (p != MAP_FAILED)
		munmap(p, size);
	return false;
}

/* Fill [from, to) but for the device windows in it, which are the driver's
 * to reserve. */
static void
fill(uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < wkr.nwindows; i++) {
		const struct wkr_window *w = &wkr.windows[i];

		if (w->base >= to || w->base + w->size <= from)
			continue;
		if (w->base > from)
			fill(from, w->base);
		if (w->base + w->size < to)
			fill(w->base + w->size, to);
		return;
	}
	if (to > from)
		map_nothing(from, to - from);
}

static void
fill_holes(FILE *maps)
{
	uint64_t at = FILL_BASE;
	char line[512];

	while (fgets(line, sizeof(line), maps) && at < FILL_END) {
		uint64_t start, end, stop;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) != 2 ||
		    end <= at)
			continue;
		stop = start;
		if (strstr(line, "[stack]"))
			stop = start > STACK_ROOM ? start - STACK_ROOM : 0;
		if (stop > FILL_END)
			stop = FILL_END;
		if (stop > at)
			fill(at, stop);
		at = end;
	}
	if (at < FILL_END)
		fill(at, FILL_END);
}

void
wkr_windows_fill(void)
{
	FILE *maps;

	for (unsigned i = 0; i < wkr.nwindows; i++) {
		struct wkr_window *w = &wkr.windows[i];

		if (w->host)
			w->reserved = map_nothing(w->base, w->size);
	}
	/* Only a real driver chooses addresses, and sanitizers have their
	 * shadow there. */
	if (SANITIZED || wkr.soft)
		return;
	maps = fopen("/proc/self/maps", "re");
	if (!maps)
		return;
	fill_holes(maps);
	fclose(maps);
}

static bool
reserve(const struct wkr_window *w)
{
	CUdeviceptr at = 0;

	if (wkr.drv.cuMemAddressReserve(&at, w->size, 0, w->base, 0) !=
	    CUDA_SUCCESS)
		return false;
	if (at == w->base)
		return true;
	wkr.drv.cuMemAddressFree(at, w->size);
	return false;
}

void
wkr_windows_reserve(void)
{
	for (unsigned i = 0; i + 1 < wkr.nwindows; i += 2) {
		struct wkr_window *device = &wkr.windows[i];
		struct wkr_window *host = &wkr.windows[i + 1];

		device->reserved = host->reserved && reserve(device);
		if (device->reserved)
			continue;
		log_line(LOG_INFO, "address window %#" PRIx64 " is taken",
			 device->base);
		if (host->reserved)
			munmap((void *)(uintptr_t)host->base, host->size);
		host->reserved = false;
	}
}

bool
wkr_windows_hold(uint64_t address, uint64_t size, bool host)
{
	for (unsigned i = 0; i < wkr.nwindows; i++) {
		const struct wkr_window *w = &wkr.windows[i];

		if (w->reserved && w->host == host && address >= w->base &&
		    size <= w->size && address - w->base <= w->size - size)
			return true;
	}
	return false;
}
