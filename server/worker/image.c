/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image store: code by the hash that the broker computed. Files come
 * sealed against writing, so what was checked stays what it was.
 */
#include <ar.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/shmem.h"
#include "server/fatbin.h"
#include "server/worker/module.h"

#define BUCKETS 1024u

/* Guards the buckets and references; all else of an image is constant once it
 * is in. */
static pthread_mutex_t store_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wkr_image *buckets[BUCKETS];
static uint64_t image_count;

static struct wkr_image **
bucket_of(const uint8_t *hash)
{
	return &buckets[(hash[0] | (unsigned)hash[1] << 8) % BUCKETS];
}

/* Where it hangs, or where another would. */
static struct wkr_image **
find_locked(const uint8_t *hash)
{
	struct wkr_image **link = bucket_of(hash);

	while (*link && memcmp((*link)->hash, hash, WKR_HASH_SIZE) != 0)
		link = &(*link)->next;
	return link;
}

struct wkr_image *
wkr_image_ref(const void *hash, size_t size)
{
	struct wkr_image *image;

	if (!hash || size != WKR_HASH_SIZE)
		return NULL;
	pthread_mutex_lock(&store_lock);
	image = *find_locked(hash);
	if (image)
		image->refs++;
	pthread_mutex_unlock(&store_lock);
	return image;
}

void
wkr_image_unref(struct wkr_image *image)
{
	bool last;

	pthread_mutex_lock(&store_lock);
	last = --image->refs == 0;
	if (last)
		image_count--;
	pthread_mutex_unlock(&store_lock);
	if (!last)
		return;
	munmap((void *)image->data, image->room);
	free(image);
}

CUresult
wkr_image_drop(const void *hash, size_t size, const char **out_why)
{
	struct wkr_image **link, *image;

	if (!hash || size != WKR_HASH_SIZE) {
		*out_why = "no hash";
		return CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_lock(&store_lock);
	link = find_locked(hash);
	image = *link;
	if (image)
		*link = image->next;
	pthread_mutex_unlock(&store_lock);
	if (image)
		wkr_image_unref(image);
	return CUDA_SUCCESS;
}

uint64_t
wkr_image_count(void)
{
	uint64_t count;

	pthread_mutex_lock(&store_lock);
	count = image_count;
	pthread_mutex_unlock(&store_lock);
	return count;
}

/* The driver reads text up to its NUL, which the client may have left out,
 * in the rest of the last page too: a page of zeroes follows. */
static const uint8_t *
map_image(int fd, size_t size, size_t *out_room)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t room = ((size + page - 1) & ~(page - 1)) + page;
	uint8_t *base =
		mmap(NULL, room, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*out_room = room;
	if (base == MAP_FAILED)
		return NULL;
	if (mmap(base, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		munmap(base, room);
		return NULL;
	}
	return base;
}

static struct wkr_image *
image_create(const uint8_t *hash, uint64_t size, int fd, const char **out_why)
{
	struct wkr_image *image;
	int seals = fcntl(fd, F_GET_SEALS);

	if (!size || shmem_size(fd) != (long)size || seals < 0 ||
	    !(seals & F_SEAL_WRITE)) {
		*out_why = "an image's file is not sealed or has another size";
		return NULL;
	}
	image = calloc(1, sizeof(*image));
	if (!image)
		return NULL;
	memcpy(image->hash, hash, WKR_HASH_SIZE);
	image->size = size;
	image->refs = 1;
	image->data = map_image(fd, size, &image->room);
	if (!image->data) {
		free(image);
		return NULL;
	}
	return image;
}

CUresult
wkr_image_add(const uint8_t *hash, size_t hash_size, uint64_t size, int fd,
	      const char **out_why)
{
	_cleanup_image_ struct wkr_image *there = NULL;
	struct wkr_image *image;

	if (hash_size != WKR_HASH_SIZE || fd < 0) {
		*out_why = "no hash or no file";
		return CUDA_ERROR_INVALID_VALUE;
	}
	there = wkr_image_ref(hash, hash_size);
	if (there)
		return CUDA_SUCCESS;
	*out_why = "the image cannot be mapped";
	image = image_create(hash, size, fd, out_why);
	if (!image)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Only the control thread adds: nobody else has come first. */
	pthread_mutex_lock(&store_lock);
	image->next = *bucket_of(hash);
	*bucket_of(hash) = image;
	image_count++;
	pthread_mutex_unlock(&store_lock);
	return CUDA_SUCCESS;
}

static bool
fits(uint64_t offset, uint64_t size, uint64_t whole)
{
	return offset <= whole && size <= whole - offset;
}

static bool
elf_is_sound(const uint8_t *data, size_t size)
{
	Elf64_Ehdr eh;

	if (size < sizeof(eh))
		return false;
	memcpy(&eh, data, sizeof(eh));
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    (eh.e_shnum && eh.e_shentsize != sizeof(Elf64_Shdr)) ||
	    (eh.e_phnum && eh.e_phentsize != sizeof(Elf64_Phdr)) ||
	    !fits(eh.e_shoff, (uint64_t)eh.e_shnum * sizeof(Elf64_Shdr),
		  size) ||
	    !fits(eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(Elf64_Phdr), size))
		return false;
	for (unsigned i = 0; i < eh.e_shnum; i++) {
		Elf64_Shdr sh;

		memcpy(&sh, data + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type != SHT_NOBITS &&
		    !fits(sh.sh_offset, sh.sh_size, size))
			return false;
	}
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, data + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (!fits(ph.p_offset, ph.p_filesz, size))
			return false;
	}
	return true;
}

static bool
fatbin_is_sound(const uint8_t *data, size_t size)
{
	size_t whole = fatbin_size(data, size), at = 0;
	struct fatbin_entry e;

	if (!whole)
		return false;
	while (fatbin_next(data, whole, &at, &e))
		if (e.kind == FATBIN_ELF && !fatbin_is_compressed(&e) &&
		    !elf_is_sound(e.payload, e.size))
			return false;
	/* What is left was no entry. */
	return at == whole;
}

static bool
is_fatbin(const uint8_t *data, size_t size)
{
	uint32_t magic = 0;

	if (size >= sizeof(magic))
		memcpy(&magic, data, sizeof(magic));
	return magic == FATBIN_MAGIC;
}

static bool
is_elf(const uint8_t *data, size_t size)
{
	return size >= 4 && memcmp(data, ELFMAG, SELFMAG) == 0;
}

bool
wkr_image_is_archive(const uint8_t *data, size_t size)
{
	return size >= SARMAG && memcmp(data, ARMAG, SARMAG) == 0;
}

/* The number in a field of `width` digits and spaces. False: it is none. */
static bool
read_number(const char *field, size_t width, size_t *out)
{
	size_t at = 0, value = 0;

	for (; at < width && field[at] >= '0' && field[at] <= '9'; at++)
		value = 10 * value + (size_t)(field[at] - '0');
	*out = value;
	if (!at)
		return false;
	for (; at < width; at++)
		if (field[at] != ' ')
			return false;
	return true;
}

/* Members lie where their headers say, and those that are ELF are sound. */
static bool
archive_is_sound(const uint8_t *data, size_t size)
{
	size_t at = SARMAG, member;
	struct ar_hdr header;

	while (at < size) {
		if (!fits(at, sizeof(header), size))
			return false;
		memcpy(&header, data + at, sizeof(header));
		at += sizeof(header);
		if (memcmp(header.ar_fmag, ARFMAG, sizeof(header.ar_fmag)) ||
		    !read_number(header.ar_size, sizeof(header.ar_size),
				 &member) || !fits(at, member, size))
			return false;
		if (is_elf(data + at, member) &&
		    !elf_is_sound(data + at, member))
			return false;
		/* They begin at even places; the last need not be filled. */
		at += member + member % 2;
	}
	return true;
}

bool
wkr_image_is_sound(const uint8_t *data, size_t size)
{
	if (is_fatbin(data, size))
		return fatbin_is_sound(data, size);
	if (is_elf(data, size))
		return elf_is_sound(data, size);
	if (wkr_image_is_archive(data, size))
		return archive_is_sound(data, size);
	return true; /* text, which ends at its NUL */
}
