/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/session.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

void
session_write(int fd, enum entry_kind kind, const void *bytes, size_t size)
{
	struct entry_head head = {.kind = kind, .size = (uint32_t)size};
	struct iovec parts[] = {
		{&head, sizeof(head)},
		{(void *)bytes, size},
	};

	if (writev(fd, parts, 2) != (ssize_t)(sizeof(head) + size))
		err(1, "session file");
}

static void
add(struct session *session, const struct entry_head *head, FILE *file)
{
	struct entry *entry;

	session->entries = reallocarray(session->entries, session->count + 1,
					sizeof(*session->entries));
	if (!session->entries)
		err(1, "session");
	entry = &session->entries[session->count++];
	*entry = (struct entry){
		.kind = (enum entry_kind)head->kind,
		.size = head->size,
		.bytes = malloc(head->size ? head->size : 1),
	};
	if (!entry->bytes || fread(entry->bytes, 1, head->size, file) !=
				     head->size)
		errx(1, "a session that ends inside an entry");
	session->ndata += entry->kind == ENTRY_DATA;
}

void
session_read(struct session *out, const char *path)
{
	const char *slash = strrchr(path, '/');
	FILE *file = fopen(path, "re");
	struct entry_head head;

	if (!file)
		err(1, "%s", path);
	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "%s", slash ? slash + 1 : path);
	while (fread(&head, sizeof(head), 1, file) == 1)
		add(out, &head, file);
	fclose(file);
	if (!out->ndata)
		errx(1, "%s: a session without data frames", path);
}

void
session_free(struct session *session)
{
	for (size_t i = 0; i < session->count; i++)
		free(session->entries[i].bytes);
	free(session->entries);
	memset(session, 0, sizeof(*session));
}
