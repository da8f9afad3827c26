/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an image file.
 */
#include "server/soft/soft_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* No image is larger; a mistake in the path may well be. */
#define FILE_MAX ((off_t)2 << 30)

static bool
read_all(int fd, char *data, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t got = read(fd, data + have, size - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return true;
}

CUresult
soft_file_read(const char *path, char **out_data, size_t *out_size)
{
	CUresult res = CUDA_ERROR_FILE_NOT_FOUND;
	struct stat st;
	char *data;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return res;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		goto out_close;
	res = CUDA_ERROR_OUT_OF_MEMORY;
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		goto out_close;
	res = CUDA_ERROR_OPERATING_SYSTEM;
	if (!read_all(fd, data, (size_t)st.st_size)) {
		free(data);
		goto out_close;
	}
	data[st.st_size] = '\0';
	*out_data = data;
	*out_size = (size_t)st.st_size + 1;
	res = CUDA_SUCCESS;
out_close:
	close(fd);
	return res;
}
