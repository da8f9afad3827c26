/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the driver library.
 *
 * A worker opens its driver by absolute path: a look-up by name could
 * find our own shim, whose SONAME is the driver's, or a toolkit's stub, which
 * answers every call with CUDA_ERROR_STUB_LIBRARY. Both are skipped here.
 */
#include "server/broker/driver.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"

#define TAKEN "MPSSHIM_DRIVER takes auto, cuda, soft or a path"
#define CUDA_NAME "libcuda.so.1"
#define SOFT_NAME "libsoftcuda.so"
/* The real library has some 30 to 100 MB. Only smaller files are searched
 * for a word that our shim has in it and a driver has not. */
#define SHIM_MAX (16u << 20)
#define SHIM_WORD "MPSSHIM_NO_BROKER"

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

static const char *const cuda_dirs[] = {
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/usr/lib64",
	"/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib",
	"/usr/lib/wsl/lib",
	"/run/opengl-driver/lib",
	"/usr/lib",
	"/usr/local/cuda/compat",
};

/* Is it our shim, by whatever name? */
static bool
is_shim(int fd, size_t size)
{
	bool found;
	void *map;

	if (size >= SHIM_MAX)
		return false;
	map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return true;
	found = memmem(map, size, SHIM_WORD, sizeof(SHIM_WORD) - 1) != NULL;
	munmap(map, size);
	return found;
}

/* No driver is without it. */
static bool
names_init(int fd, size_t size)
{
	static const char word[] = "cuInit";
	bool found;
	void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (map == MAP_FAILED)
		return true;
	/* With its NUL: a name in the table of them. */
	found = memmem(map, size, word, sizeof(word)) != NULL;
	munmap(map, size);
	return found;
}

/* Of this machine's kind? A descriptor of it, or -1. */
static int
open_library(const char *path, struct stat *out_st)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf64_Ehdr head;

	if (fd < 0 || fstat(fd, out_st) < 0 || !S_ISREG(out_st->st_mode))
		return -1;
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_machine != OWN_MACHINE)
		return -1;
	return steal_fd(&fd);
}

/* A library of this machine's kind that is neither stub nor shim? */
static bool
is_driver(const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!real || strstr(real, "/stubs/") || strstr(path, "/stubs/"))
		return false;
	fd = open_library(real, &st);
	return fd >= 0 && !is_shim(fd, (size_t)st.st_size);
}

static bool
try_dir(const char *dir, size_t size, char *out)
{
	int n = snprintf(out, PATH_MAX, "%.*s/" CUDA_NAME, (int)size, dir);

	return size && *dir == '/' && n > 0 && n < PATH_MAX && is_driver(out);
}

/* Directories of a colon-separated list. */
static bool
try_list(const char *list, char *out)
{
	while (list && *list) {
		size_t size = strcspn(list, ":;");

		if (try_dir(list, size, out))
			return true;
		list += size + (list[size] != 0);
	}
	return false;
}

/*
 * /etc/ld.so.cache, the format of glibc 2.2 and newer: a header of 48 bytes
 * that ends with the number of entries at byte 20, then entries of 24 bytes
 * (flags, key, value, OS version, hwcap) whose key and value are offsets of
 * strings from the header.
 */
static bool
try_cache(const char *cache, size_t size, char *out)
{
	static const char magic[] = "glibc-ld.so.cache1.1";
	const char *base = memmem(cache, size, magic, sizeof(magic) - 1);
	uint32_t count;
	size_t left;

	if (!base)
		return false;
	left = size - (size_t)(base - cache);
	if (left < 48)
		return false;
	memcpy(&count, base + 20, sizeof(count));
	if (count > (left - 48) / 24)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t key, value;

		memcpy(&key, base + 48 + 24 * (size_t)i + 4, sizeof(key));
		memcpy(&value, base + 48 + 24 * (size_t)i + 8, sizeof(value));
		if (key >= left || value >= left ||
		    !memchr(base + key, 0, left - key) ||
		    !memchr(base + value, 0, left - value))
			return false;
		if (!strcmp(base + key, CUDA_NAME) && is_driver(base + value)) {
			snprintf(out, PATH_MAX, "%s", base + value);
			return true;
		}
	}
	return false;
}

static bool
try_loader_cache(char *out)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	bool found;
	void *map;

	fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
		return false;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;
	found = try_cache(map, (size_t)st.st_size, out);
	munmap(map, (size_t)st.st_size);
	return found;
}

static bool
find_cuda(char *out)
{
	if (try_list(getenv("LD_LIBRARY_PATH"), out))
		return true;
	if (try_loader_cache(out))
		return true;
	for (size_t i = 0; i < sizeof(cuda_dirs) / sizeof(*cuda_dirs); i++)
		if (try_dir(cuda_dirs[i], strlen(cuda_dirs[i]), out))
			return true;
	return false;
}

/* Beside bin/ in a build tree as well as installed. */
static bool
find_soft(const char *own_dir, char *out)
{
	static const char *const places[] = { "../lib", "../lib/mpsshim", "." };

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s/%s/" SOFT_NAME,
				 own_dir, places[i]);

		if (n > 0 && (size_t)n < sizeof(path) && realpath(path, out))
			return true;
	}
	return false;
}

static bool
has_gpu(void)
{
	return !access("/dev/nvidiactl", F_OK) || !access("/dev/dxg", F_OK);
}

int
brk_driver_choose(struct brk_driver *driver, const char *choice,
		  const char *own_dir, char *why, size_t why_size)
{
	_cleanup_close_ int fd = -1;
	bool any = !strcmp(choice, "auto");
	struct stat st;

	*driver = (struct brk_driver){ .software = false };
	if (any || !strcmp(choice, "cuda")) {
		if ((!any || has_gpu()) && find_cuda(driver->path))
			return 0;
		if (!any) {
			snprintf(why, why_size, "no " CUDA_NAME " of a CUDA "
				 "driver found (driver=cuda)");
			return -ENOENT;
		}
	}
	if (any || !strcmp(choice, "soft")) {
		driver->software = true;
		if (find_soft(own_dir, driver->path))
			return 0;
		snprintf(why, why_size, any ?
			 "neither a CUDA driver with a GPU nor " SOFT_NAME
			 " found" : "no " SOFT_NAME " beside this program");
		return -ENOENT;
	}
	if (!realpath(choice, driver->path)) {
		snprintf(why, why_size, "driver library %.100s: %s (" TAKEN ")",
			 choice, strerror(errno));
		return -ENOENT;
	}
	/* What else is wrong with it the worker says. */
	fd = open_library(driver->path, &st);
	if (fd < 0) {
		snprintf(why, why_size, "driver library %.100s: no library of "
			 "this machine (" TAKEN ")", choice);
		return -ENOEXEC;
	}
	if (!names_init(fd, (size_t)st.st_size)) {
		snprintf(why, why_size, "driver library %.100s: no CUDA "
			 "driver, it has no cuInit (" TAKEN ")", choice);
		return -ENOEXEC;
	}
	driver->software = strstr(driver->path, "/" SOFT_NAME) != NULL;
	return 0;
}
