/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing code to the broker. The hash says what it is; only a broker that
 * has never seen it asks for the bytes, in shared memory of its own.
 *
 * The broker is asked at every load: it alone knows what it still keeps and
 * whether the worker of the day has it. That is one question of some ten
 * microseconds beside a load of milliseconds.
 */
#include "shim/code.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/shmem.h"
#include "shim/chan.h"
#include "shim/process.h"

/* One image at a time: the broker keeps one upload a client, from Image to
 * Ready, and threads load code at once. */
static pthread_mutex_t upload_lock = PTHREAD_MUTEX_INITIALIZER;

static void
hash_image(const struct image *image, uint8_t out_hash[SHA256_SIZE])
{
	struct sha256 sha;

	sha256_init(&sha);
	sha256_update(&sha, image->data, image->size);
	sha256_final(&sha, out_hash);
}

static CUresult
fill(int fd, const void *data, size_t size)
{
	void *map = shmem_map(fd, size);

	if (map == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(map, data, size);
	munmap(map, size);
	return CUDA_SUCCESS;
}

static CUresult
say_ready(int device, CUresult status)
{
	Mps__Ready ready = MPS__READY__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	ready.what = MPS__READY__WHAT__IMAGE;
	ready.object = (uint64_t)device;
	ready.status = status;
	message.body_case = MPS__CONTROL__BODY_READY;
	message.ready = &ready;
	return shim_ask_done(&message);
}

/* data is NULL when there is nothing to fill it with. */
static CUresult
bring_locked(const struct shim_code *code, int device, const void *data)
{
	int real = shim_process.devices[device].real, fds[1] = { -1 };
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__Image ask = MPS__IMAGE__INIT;
	struct shim_chan *chan;
	int nfds = 1;
	CUresult r, told;

	/* The broker hands code to workers that we are attached to. */
	r = shim_chan_get(device, &chan);
	if (r != CUDA_SUCCESS)
		return r;
	ask.hash.data = (uint8_t *)code->hash;
	ask.hash.len = SHA256_SIZE;
	ask.size = code->size;
	ask.device = real;
	message.body_case = MPS__CONTROL__BODY_IMAGE;
	message.image = &ask;
	r = shim_ask(&message, MPS__CONTROL__BODY_IMAGE_REPLY, &answer, fds,
		     &nfds);
	if (r != CUDA_SUCCESS)
		return r;
	r = answer->image_reply->status;
	if (r == CUDA_SUCCESS && !answer->image_reply->have) {
		if (nfds != 1)
			r = CUDA_ERROR_MPS_RPC_FAILURE;
		else if (data == NULL)
			r = CUDA_ERROR_INVALID_IMAGE;
		else
			r = fill(fds[0], data, code->size);
		/* Also when it is not filled: the broker waits for it. */
		told = say_ready(real, r);
		r = r == CUDA_SUCCESS ? told : r;
	}
	if (nfds > 0)
		err_closep(&fds[0]);
	mps__control__free_unpacked(answer, NULL);
	return r;
}

static CUresult
bring(const struct shim_code *code, int device, const void *data)
{
	CUresult r;

	pthread_mutex_lock(&upload_lock);
	r = bring_locked(code, device, data);
	pthread_mutex_unlock(&upload_lock);
	return r;
}

CUresult
shim_code_upload(const struct image *image, int device,
		 struct shim_code *out_code)
{
	hash_image(image, out_code->hash);
	out_code->size = image->size;
	out_code->kind = image->kind;
	return bring(out_code, device, image->data);
}

CUresult
shim_code_ensure(const struct shim_code *code, int device)
{
	CUresult r = bring(code, device, code->preserved);

	if (r == CUDA_ERROR_INVALID_IMAGE)
		log_line(LOG_WARN, "the broker no longer keeps an image of "
			 "%zu bytes that a library needs",
			 (size_t)code->size);
	return r;
}

CUresult
shim_code_find(struct image *image, const void *from)
{
	int r;

	if (from == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = image_find(image, from);
	if (r < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return r == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

/* All of a file and a NUL, which text needs for its end. NULL and errno. */
static uint8_t *
read_all(int fd, size_t size)
{
	uint8_t *data = malloc(size + 1);
	size_t done = 0;

	while (data != NULL && done < size) {
		ssize_t n = read(fd, data + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			free(data);
			errno = n < 0 ? errno : EIO;
			return NULL;
		}
		done += (size_t)n;
	}
	if (data != NULL)
		data[size] = '\0';
	return data;
}

CUresult
shim_code_read_bytes(struct image *image, const char *path)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (path == NULL || path[0] == '\0')
		return CUDA_ERROR_INVALID_VALUE;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) != 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	/* The driver takes its length from seeking to its end. */
	if (S_ISDIR(st.st_mode))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || (uint64_t)st.st_size > IMAGE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	*image = (struct image){ .kind = MODULE_BARE,
				 .size = (size_t)st.st_size };
	image->owned = read_all(fd, image->size);
	image->data = image->owned;
	if (image->owned == NULL)
		return errno == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY :
					 CUDA_ERROR_FILE_NOT_FOUND;
	return CUDA_SUCCESS;
}

CUresult
shim_code_read_file(struct image *image, const char *path)
{
	struct image file;
	CUresult r = shim_code_read_bytes(&file, path);

	if (r != CUDA_SUCCESS)
		return r;
	r = shim_code_find(image, file.data);
	/* What it says of its length must not lead out of the file. A wrapper
	 * refers to memory, which a file cannot. */
	if (r == CUDA_SUCCESS &&
	    (image->data != file.data || image->size > file.size + 1)) {
		image_fini(image);
		r = CUDA_ERROR_INVALID_IMAGE;
	}
	if (r == CUDA_SUCCESS)
		image->owned = file.owned;
	else
		image_fini(&file);
	return r;
}
