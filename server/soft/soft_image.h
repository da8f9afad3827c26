/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: wrapper, fatbin, ELF, PTX text; finding what can be used.
 * Called by server/soft/soft_*.c and by tests.
 */
#ifndef SERVER_SOFT_SOFT_IMAGE_H
#define SERVER_SOFT_SOFT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

enum {
	SOFT_IMAGE_E_INVALID = 1,   /* not an image, or a broken one */
	SOFT_IMAGE_E_NO_CODE,       /* nothing for this device in it */
};

enum soft_image_kind {
	SOFT_IMAGE_PTX,
	SOFT_IMAGE_ELF,
};

struct soft_image {
	enum soft_image_kind kind;
	char *data;                 /* PTX: NUL-terminated, size without */
	size_t size;                /* bytes */
};

/*
 * The best code in an image: PTX of the highest target up to 90, else
 * machine code. limit is how many bytes may be read, SIZE_MAX when the
 * caller's interface does not say; within it nothing is believed.
 * Returns 0, SOFT_IMAGE_E_*, or -ENOMEM.
 */
int soft_image_open(struct soft_image *out_image, const void *data,
		    size_t limit);
void soft_image_close(struct soft_image *image);
/* Length of the image in bytes, as far as its headers say; 0: unknown. */
size_t soft_image_length(const void *data, size_t limit);
/* Text that goes on from another: the header directives left out, so that
 * several files become one module. */
int soft_image_join(struct soft_image *to, const char *text, size_t size);

/* What an ELF cubin says about itself. */
struct soft_elf_param {
	uint32_t offset, size;      /* bytes */
};

struct soft_elf_kernel {
	char *name;
	struct soft_elf_param *params;
	unsigned nparams;
	uint32_t param_size, regs, shared_static, max_threads, local_bytes;
};

struct soft_elf_symbol {
	char *name;
	uint64_t size;              /* bytes */
	char *initial;              /* or NULL: zeros */
};

struct soft_elf {
	struct soft_elf_kernel *kernels;
	unsigned kernel_count;
	struct soft_elf_symbol *symbols;
	unsigned symbol_count;
	unsigned sm;
};

int soft_elf_open(struct soft_elf *out_elf, const char *data, size_t size);
void soft_elf_close(struct soft_elf *elf);
/* Length by the headers; 0 when it is no ELF of ours. */
size_t soft_elf_length(const char *data, size_t limit);

#endif
