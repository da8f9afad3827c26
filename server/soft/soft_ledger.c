/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account is a small file that all processes of the user map. What a
 * process writes there is believed as long as it lives, which a lock on one
 * byte of the file shows: the lock belongs to the open file, the open file is
 * held by nothing but the mapping, and no child inherits that. So it goes
 * with the process, however that ends, and not before.
 *
 * Memory behind descriptors lives as long as one is open anywhere, maybe in
 * a process that never calls CUDA and knows of no account. When all holders
 * that the account knows are gone, /proc tells whether anybody has it open.
 */
#include "server/soft/soft_ledger.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC (0x534c0000u + (uint32_t)sizeof(struct ledger))
#define PROCESSES 256u
#define FILES 4096u
/* Bytes that are locked, beyond everything that is written. */
#define LOCK_PROCESS ((off_t)1 << 40)
#define LOCK_LEDGER (LOCK_PROCESS + PROCESSES)

struct ledger_process {
	uint32_t taken;
	_Atomic uint64_t used[SOFT_DEVICES_MAX];   /* bytes */
};

struct ledger_file {
	uint64_t dev, ino;
	uint64_t size;                     /* bytes; 0: the row is free */
	uint32_t device;
	uint32_t shared;
	uint64_t holders[PROCESSES / 64];
};

/* Guarded by the lock at LOCK_LEDGER, `used` of the own process apart. */
struct ledger {
	uint32_t magic;
	uint32_t files;                    /* rows that may be in use */
	struct ledger_process process[PROCESSES];
	struct ledger_file file[FILES];
};

/* Guards what follows; taken before LOCK_LEDGER. */
static pthread_mutex_t ledger_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ledger *ledger;
static unsigned self;                      /* our row of processes */
static char path[PATH_MAX];                /* "": the account is private */
static struct stat path_is;

static int
byte_lock(int fd, int command, short type, off_t byte)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = byte,
		.l_len = 1,
	};
	int r;

	do {
		r = fcntl(fd, command, &lock);
	} while (r && errno == EINTR);
	if (command == F_OFD_GETLK)
		return r ? -errno : lock.l_type != F_UNLCK;
	return r ? -errno : 0;
}

/* A descriptor with LOCK_LEDGER locked, or -1 when nobody shares. Each time
 * anew: one that stayed open would be inherited, and closed by programs that
 * close what they do not know. */
static int
ledger_enter(void)
{
	struct stat st;
	int fd = -1;

	pthread_mutex_lock(&ledger_lock);
	if (*path)
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -1;
	/* Somebody has removed the file: the others have another one. */
	if (fstat(fd, &st) || st.st_ino != path_is.st_ino ||
	    st.st_dev != path_is.st_dev ||
	    byte_lock(fd, F_OFD_SETLKW, F_WRLCK, LOCK_LEDGER)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void
ledger_leave(int fd)
{
	if (fd >= 0) {
		/* Said, not left to close(): a child of another thread's fork
		 * may have inherited the descriptor. */
		byte_lock(fd, F_OFD_SETLK, F_UNLCK, LOCK_LEDGER);
		close(fd);
	}
	pthread_mutex_unlock(&ledger_lock);
}

static bool
is_held(const struct ledger_file *file)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < PROCESSES / 64; i++)
		any |= file->holders[i];
	return any;
}

static void
file_free(struct ledger_file *file)
{
	memset(file, 0, sizeof(*file));
	while (ledger->files && !ledger->file[ledger->files - 1].size)
		ledger->files--;
}

static void
process_wipe(unsigned row)
{
	struct ledger_process *process = &ledger->process[row];

	process->taken = 0;
	for (unsigned i = 0; i < SOFT_DEVICES_MAX; i++)
		atomic_store(&process->used[i], 0);
	for (unsigned i = 0; i < ledger->files; i++)
		ledger->file[i].holders[row / 64] &= ~(1ull << row % 64);
}

static void
processes_reap(int fd)
{
	for (unsigned i = 0; i < PROCESSES && fd >= 0; i++)
		if (i != self && ledger->process[i].taken &&
		    !byte_lock(fd, F_OFD_GETLK, F_WRLCK, LOCK_PROCESS + i))
			process_wipe(i);
}

/* Marks the rows of the files that a process has open. */
static void
mark_open_of(const char *pid, bool *open_rows)
{
	char dir[64], link[128], name[PATH_MAX];
	struct dirent *entry;
	DIR *fds;

	snprintf(dir, sizeof(dir), "/proc/%.20s/fd", pid);
	fds = opendir(dir);
	if (!fds)
		return;
	while ((entry = readdir(fds))) {
		struct stat st;
		ssize_t n;

		snprintf(link, sizeof(link), "%s/%.20s", dir, entry->d_name);
		n = readlink(link, name, sizeof(name) - 1);
		if (n < 0)
			continue;
		name[n] = 0;
		if (!strstr(name, "/memfd:" SOFT_LEDGER_FILE) ||
		    stat(link, &st))
			continue;
		for (unsigned i = 0; i < ledger->files; i++)
			if (ledger->file[i].ino == st.st_ino &&
			    ledger->file[i].dev == st.st_dev)
				open_rows[i] = true;
	}
	closedir(fds);
}

/* Files that no living process has registered: still open somewhere? */
static void
files_reap(void)
{
	static bool open_rows[FILES];
	struct dirent *entry;
	bool any = false;
	DIR *proc;

	for (unsigned i = 0; i < ledger->files; i++)
		if (ledger->file[i].size && !is_held(&ledger->file[i]))
			any = true;
	if (!any)
		return;
	memset(open_rows, 0, sizeof(open_rows));
	proc = opendir("/proc");
	while (proc && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			mark_open_of(entry->d_name, open_rows);
	if (proc)
		closedir(proc);
	for (unsigned i = ledger->files; i-- > 0;)
		if (ledger->file[i].size && !is_held(&ledger->file[i]) &&
		    !open_rows[i])
			file_free(&ledger->file[i]);
}

static size_t
used(const struct soft_device *dev, int fd)
{
	size_t sum = 0;

	processes_reap(fd);
	files_reap();
	for (unsigned i = 0; i < PROCESSES; i++)
		sum += atomic_load(&ledger->process[i].used[dev->ordinal]);
	for (unsigned i = 0; i < ledger->files; i++)
		if (ledger->file[i].size &&
		    ledger->file[i].device == (unsigned)dev->ordinal)
			sum += ledger->file[i].size;
	return sum;
}

size_t
soft_ledger_used(struct soft_device *dev)
{
	int fd = ledger_enter();
	size_t sum = used(dev, fd);

	ledger_leave(fd);
	return sum < dev->memory_total ? sum : dev->memory_total;
}

static bool
charge(struct soft_device *dev, size_t size, int fd)
{
	size_t sum = used(dev, fd);

	if (sum > dev->memory_total || size > dev->memory_total - sum)
		return false;
	atomic_fetch_add(&ledger->process[self].used[dev->ordinal], size);
	return true;
}

bool
soft_ledger_charge(struct soft_device *dev, size_t size)
{
	int fd = ledger_enter();
	bool ok = charge(dev, size, fd);

	ledger_leave(fd);
	return ok;
}

void
soft_ledger_uncharge(struct soft_device *dev, size_t size)
{
	atomic_fetch_sub(&ledger->process[self].used[dev->ordinal], size);
}

static struct ledger_file *
file_find(const struct stat *st)
{
	for (unsigned i = 0; i < ledger->files; i++)
		if (ledger->file[i].size && ledger->file[i].ino == st->st_ino &&
		    ledger->file[i].dev == st->st_dev)
			return &ledger->file[i];
	return NULL;
}

/* A row for a new file that fits; NULL without *out_full: it does not. */
static struct ledger_file *
file_new(struct soft_device *dev, const struct stat *st, int fd, bool *out_full)
{
	size_t sum = used(dev, fd), size = (size_t)st->st_size;
	struct ledger_file *file = NULL;

	*out_full = false;
	if (sum > dev->memory_total || size > dev->memory_total - sum)
		return NULL;
	for (unsigned i = 0; i < FILES && !file; i++)
		if (!ledger->file[i].size)
			file = &ledger->file[i];
	*out_full = !file;
	if (file && file == &ledger->file[ledger->files])
		ledger->files++;
	if (file)
		*file = (struct ledger_file){
			.dev = st->st_dev, .ino = st->st_ino, .size = size,
			.device = (unsigned)dev->ordinal,
		};
	return file;
}

bool
soft_ledger_hold(struct soft_device *dev, const struct stat *st)
{
	int fd = ledger_enter();
	struct ledger_file *file = file_find(st);
	bool ok = true, full = false;

	if (!file)
		file = file_new(dev, st, fd, &full);
	if (file)
		file->holders[self / 64] |= 1ull << self % 64;
	else if (full)   /* then it is counted as the process's own */
		ok = charge(dev, (size_t)st->st_size, fd);
	else
		ok = false;
	ledger_leave(fd);
	return ok;
}

void
soft_ledger_share(const struct stat *st)
{
	int fd = ledger_enter();
	struct ledger_file *file = file_find(st);

	if (file)
		file->shared = 1;
	ledger_leave(fd);
}

void
soft_ledger_drop(struct soft_device *dev, const struct stat *st)
{
	int fd = ledger_enter();
	struct ledger_file *file = file_find(st);
	uint64_t bit = 1ull << self % 64;

	if (file && file->holders[self / 64] & bit) {
		file->holders[self / 64] &= ~bit;
		if (!file->shared && !is_held(file))
			file_free(file);
	} else {
		soft_ledger_uncharge(dev, (size_t)st->st_size);
	}
	ledger_leave(fd);
}

/* Our row: one whose lock can be had. fd keeps the lock. */
static bool
row_take(struct ledger *map, int fd)
{
	for (unsigned i = 0; i < PROCESSES; i++) {
		if (byte_lock(fd, F_OFD_SETLK, F_WRLCK, LOCK_PROCESS + i))
			continue;
		self = i;
		ledger = map;
		process_wipe(i);
		map->process[i].taken = 1;
		return true;
	}
	return false;
}

static bool
join_locked(int fd)
{
	struct ledger *map;
	bool ok;

	if (ftruncate(fd, sizeof(*map)))
		return false;
	map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   0);
	if (map == MAP_FAILED)
		return false;
	if (!map->magic)
		map->magic = MAGIC;
	ok = !madvise(map, sizeof(*map), MADV_DONTFORK) &&
	     map->magic == MAGIC && row_take(map, fd);
	if (!ok)
		munmap(map, sizeof(*map));
	return ok;
}

static bool
join_file(const char *folder, const char *account, size_t memory_total)
{
	bool ok = false;
	int fd;

	snprintf(path, sizeof(path), "%s/softcuda-%u-%zu", folder,
		 (unsigned)geteuid(), memory_total);
	if (*account) {
		size_t n = strlen(path);

		snprintf(path + n, sizeof(path) - n, "-%.64s", account);
		for (char *c = path + n; *c; c++)
			if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
				*c = '_';
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return false;
	/* Not one that another user has laid there, nor anything else. */
	if (!fstat(fd, &path_is) && S_ISREG(path_is.st_mode) &&
	    path_is.st_uid == geteuid() &&
	    (!path_is.st_size || path_is.st_size == sizeof(*ledger)) &&
	    !byte_lock(fd, F_OFD_SETLKW, F_WRLCK, LOCK_LEDGER)) {
		ok = join_locked(fd);
		byte_lock(fd, F_OFD_SETLK, F_UNLCK, LOCK_LEDGER);
	}
	/* The mapping keeps the open file, and that the row's lock. */
	close(fd);
	return ok;
}

bool
soft_ledger_join(const char *account, size_t memory_total)
{
	const char *folders[] = { "/dev/shm", getenv("XDG_RUNTIME_DIR"),
				  "/tmp" };

	for (unsigned i = 0; i < 3 && strcmp(account, "private"); i++)
		if (folders[i] && *folders[i] &&
		    join_file(folders[i], account, memory_total))
			return true;
	if (strcmp(account, "private"))
		soft_log("device memory is counted for this process alone: "
			 "no account file in /dev/shm or /tmp");
	*path = 0;
	ledger = calloc(1, sizeof(*ledger));
	return ledger;
}
