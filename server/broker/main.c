/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpsd: one broker a user.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/settings.h"
#include "proto/sock.h"
#include "proto/version.h"
#include "server/broker/broker.h"
#include "server/broker/device.h"
#include "server/broker/pid.h"

/* A program that ends has seconds for what it had on the device. */
#define HANDOVER_S 10
/* Our log file goes on anew at so many MiB. */
#define LOG_MB "8"
/* Each has a context: 526 MiB on an H200. */
#define SOLO_MAX 16

static const char usage[] =
	"usage: mpsd [OPTION]...\n"
	"The broker of mpsshim: gives the programs of one user one GPU context.\n"
	"Runs in the background unless told otherwise.\n"
	"\n"
	"  -s, --socket-dir=DIR    directory of the socket, the log and the lock\n"
	"                          (default $CUDA_MPS_PIPE_DIRECTORY, else\n"
	"                          $XDG_RUNTIME_DIR/mpsshim, /tmp/mpsshim-UID)\n"
	"  -d, --driver=DRIVER     auto, cuda, soft or a path (default\n"
	"                          $MPSSHIM_DRIVER, else auto)\n"
	"      --devices=LIST      the GPUs to use, numbers or UUIDs as in\n"
	"                          CUDA_VISIBLE_DEVICES; for clients they are the\n"
	"                          devices 0, 1 and so on\n"
	"      --idle=SECONDS      end when nobody was connected for so long\n"
	"      --warm              have a worker on each device before anybody\n"
	"                          comes; costs a context's memory there\n"
	"      --device-limit=SIZE device memory of one client or job, as 40G\n"
	"      --host-limit=SIZE   shared and pinned memory of one client or job\n"
	"      --store-limit=SIZE  code images kept for all (default 8G, at most a\n"
	"                          quarter of the machine's memory)\n"
	"      --overlap           measure how long kernels of two clients ran at\n"
	"                          once; costs two event records a launch\n"
	"      --pid-file=FILE     has our process id, without a newline, while\n"
	"                          we serve\n"
	"  -f, --foreground        stay in the foreground, log to stderr\n"
	"      --ready-fd=N        do not fork; write a newline to descriptor N\n"
	"                          when ready, or a line that says what failed\n"
	"  -h, --help              this text\n"
	"  -V, --version           version and wire number\n"
	"\n"
	"Exit status: 0; 1 it cannot serve, and one line says why; 2 usage.\n";

enum {
	OPT_IDLE = 256, OPT_READY, OPT_DEVICE_LIMIT, OPT_HOST_LIMIT,
	OPT_STORE_LIMIT, OPT_OVERLAP, OPT_WARM, OPT_DEVICES,
	OPT_PID_FILE,
};

static const struct option long_options[] = {
	{ "socket-dir", required_argument, NULL, 's' },
	{ "driver", required_argument, NULL, 'd' },
	{ "devices", required_argument, NULL, OPT_DEVICES },
	{ "idle", required_argument, NULL, OPT_IDLE },
	{ "device-limit", required_argument, NULL, OPT_DEVICE_LIMIT },
	{ "host-limit", required_argument, NULL, OPT_HOST_LIMIT },
	{ "store-limit", required_argument, NULL, OPT_STORE_LIMIT },
	{ "warm", no_argument, NULL, OPT_WARM },
	{ "overlap", no_argument, NULL, OPT_OVERLAP },
	{ "pid-file", required_argument, NULL, OPT_PID_FILE },
	{ "foreground", no_argument, NULL, 'f' },
	{ "ready-fd", required_argument, NULL, OPT_READY },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct options {
	const char *driver, *devices, *pid_file;
	bool foreground, warm;
	int ready_fd;           /* -1: none */
	uint64_t idle_ms, device_limit, host_limit, store_limit;
};

/* One line for whoever started us, wherever he listens. Returns 1. */
__attribute__((format(printf, 2, 3))) static int
fail(int ready_fd, const char *format, ...)
{
	char line[512];
	va_list args;
	int n;

	n = snprintf(line, sizeof(line), "mpsd: ");
	va_start(args, format);
	vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	va_end(args);
	fprintf(stderr, "%s\n", line);
	if (ready_fd >= 0 && write(ready_fd, line, strlen(line)) < 0)
		return 1;
	return 1;
}

static int
parse_number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno || *end || end == text || *text == '-' || *out > max ?
		-EINVAL : 0;
}

static const char *
name_of(int c)
{
	const struct option *option = long_options;

	while (option->name && option->val != c)
		option++;
	return option->name;
}

static int
parse_option(int c, struct options *options)
{
	uint64_t n = 0;
	int r = 0;

	switch (c) {
	case 's': r = setenv("CUDA_MPS_PIPE_DIRECTORY", optarg, 1); break;
	case 'd': options->driver = optarg; break;
	case 'f': options->foreground = true; break;
	case OPT_IDLE:
		r = parse_number(optarg, 1u << 30, &n);
		options->idle_ms = n * 1000;
		break;
	case OPT_DEVICES: options->devices = optarg; break;
	case OPT_PID_FILE: options->pid_file = optarg; break;
	case OPT_WARM: options->warm = true; break;
	case OPT_READY:
		r = parse_number(optarg, 1u << 20, &n);
		options->ready_fd = (int)n;
		if (!r && fcntl(options->ready_fd, F_GETFD) < 0)
			r = -errno;
		break;
	case OPT_DEVICE_LIMIT:
		r = brk_quota_parse(optarg, &options->device_limit);
		break;
	case OPT_HOST_LIMIT:
		r = brk_quota_parse(optarg, &options->host_limit);
		break;
	case OPT_STORE_LIMIT:
		r = brk_quota_parse(optarg, &options->store_limit);
		break;
	/* The worker inherits it. */
	case OPT_OVERLAP: r = setenv("MPSSHIM_OVERLAP", "1", 1); break;
	case 'h':
		fputs(usage, stdout);
		exit(fflush(stdout) ? 1 : 0);
	case 'V':
		printf(VERSION_LINE("mpsd"));
		exit(fflush(stdout) ? 1 : 0);
	default:
		return -EINVAL;
	}
	if (r)
		fprintf(stderr, "mpsd: --%s=%s: not understood\n", name_of(c),
			optarg);
	return r;
}

static int
parse(int argc, char **argv, struct options *options)
{
	int c;

	*options = (struct options){ .ready_fd = -1 };
	options->driver = getenv("MPSSHIM_DRIVER");
	while ((c = getopt_long(argc, argv, "s:d:fhV", long_options, NULL)) !=
	       -1)
		if (parse_option(c, options) < 0)
			return -EINVAL;
	if (!options->driver || !*options->driver)
		options->driver = "auto";
	if (optind == argc)
		return 0;
	fprintf(stderr, "mpsd: it takes no argument: %s\n", argv[optind]);
	return -EINVAL;
}

static int
own_directory(char *out, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", out, size - 1);
	char *slash;

	if (n < 0)
		return err_origin(-errno);
	out[n] = 0;
	slash = strrchr(out, '/');
	if (!slash)
		return err_origin(-ENOENT);
	*slash = 0;
	return 0;
}

/* Where the worker's program is; MPSSHIM_WORKER names another. */
static int
find_worker(const char *own, char *out, size_t size)
{
	static const char *const places[] = {
		"mpsd-worker", "../libexec/mpsshim/mpsd-worker",
	};
	const char *set = getenv("MPSSHIM_WORKER");

	if (set && *set)
		return snprintf(out, size, "%s", set) < (int)size &&
		       !access(out, X_OK) ? 0 : -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (snprintf(out, size, "%s/%s", own, places[i]) < (int)size &&
		    !access(out, X_OK))
			return 0;
	return -ENOENT;
}

/* Every chunk of every client is a descriptor here. */
static void
raise_limits(void)
{
	static const int raised[] = { RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS };
	struct rlimit limit;

	for (size_t i = 0; i < sizeof(raised) / sizeof(*raised); i++) {
		if (getrlimit(raised[i], &limit) < 0)
			continue;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(raised[i], &limit) < 0)
			err_origin(-errno);
	}
	if (!getrlimit(RLIMIT_FSIZE, &limit) &&
	    limit.rlim_max < (UINT64_C(1) << 30))
		log_line(LOG_WARN, "a file size limit (ulimit -f) of %llu "
			 "bytes also limits shared memory",
			 (unsigned long long)limit.rlim_max);
}

/* Unless the user said where lines go, they go to a file of ours. The worker
 * inherits that. */
static void
start_log(const struct brk_broker *broker, bool foreground)
{
	const char *set = getenv("MPSSHIM_LOG");
	char spec[PATH_MAX + 32];
	int n;

	if (!foreground && (!set || !strchr(set, ':'))) {
		n = snprintf(spec, sizeof(spec), "%s:%s/mpsd.log",
			     set && *set ? set : "info", broker->dir);
		if (n > 0 && (size_t)n < sizeof(spec)) {
			setenv("MPSSHIM_LOG", spec, 1);
			setenv("MPSSHIM_LOG_MB", LOG_MB, 0);
		}
	}
	log_init("mpsd", LOG_INFO);
}

static void
detach_output(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; fd >= 0 && i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

/*
 * Go to the background: the parent waits until the child is ready or has
 * failed, and passes that on. Returns in the child, with the descriptor to
 * be ready on.
 */
static int
go_background(void)
{
	int pipe_fds[2], status;
	char byte;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_origin(-errno);
	pid = fork();
	if (pid < 0)
		return err_origin(-errno);
	if (!pid) {
		close(pipe_fds[0]);
		setsid();
		return pipe_fds[1];
	}
	close(pipe_fds[1]);
	if (read(pipe_fds[0], &byte, 1) == 1 && byte == '\n')
		_exit(0);
	waitpid(pid, &status, 0);
	_exit(1);
}

/* Else a descriptor of ours would be taken for stderr. */
static void
fill_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < 3);
	if (fd >= 0)
		close(fd);
}

static int
prepare(struct brk_broker *broker, const struct options *options)
{
	char own[PATH_MAX], why[256];
	int r;

	r = sock_settle();
	if (r < 0)
		return fail(options->ready_fd, "the working directory: %s",
			    err_text(r));
	r = sock_paths(broker->dir, sizeof(broker->dir), broker->path,
		       sizeof(broker->path));
	if (r < 0)
		return fail(options->ready_fd, "the socket's path is longer "
			    "than the system's 107 bytes: %s", broker->path);
	r = sock_directory(broker->dir);
	if (r < 0)
		return fail(options->ready_fd, "socket directory %s: %s",
			    broker->dir, r == -EPERM ?
			    "not ours, or others may write in it" :
			    err_text(r));
	r = own_directory(own, sizeof(own));
	if (r < 0)
		return fail(options->ready_fd, "/proc/self/exe: %s",
			    err_text(r));
	if (brk_driver_choose(&broker->driver, options->driver, own, why,
			      sizeof(why)) < 0)
		return fail(options->ready_fd, "%s", why);
	if (options->devices && broker->driver.software)
		return fail(options->ready_fd, "--devices chooses among GPUs; "
			    "the software device takes SOFTCUDA_DEVICES");
	if (!settings_good(SETTINGS_BROKER |
			   (broker->driver.software ? SETTINGS_SOFT : 0u),
			   why, sizeof(why)))
		return fail(options->ready_fd, "%s", why);
	if (find_worker(own, broker->worker_program,
			sizeof(broker->worker_program)) < 0)
		return fail(options->ready_fd, "mpsd-worker is not beside this "
			    "program (%s)", own);
	return 0;
}

/* How long the work of a client that has ended may keep its worker. */
static uint64_t
read_handover(void)
{
	const char *set = getenv("MPSSHIM_HANDOVER_S");

	return 1000 * (set && *set ? strtoull(set, NULL, 10) : HANDOVER_S);
}

static uint64_t
read_solo_max(void)
{
	const char *set = getenv("MPSSHIM_SOLO_MAX");

	return set && *set ? strtoull(set, NULL, 10) : SOLO_MAX;
}

static void
set_limits(struct brk_broker *broker, const struct options *options)
{
	brk_quotas_init(&broker->quotas);
	if (options->device_limit)
		broker->quotas.limits[QUOTA_DEVICE] = options->device_limit;
	if (options->host_limit)
		broker->quotas.limits[QUOTA_HOST] = options->host_limit;
	brk_store_init(&broker->store);
	if (options->store_limit)
		broker->store.max_bytes = options->store_limit;
	broker->idle_ms = options->idle_ms;
	broker->warm = options->warm;
	broker->visible = options->devices;
	broker->pid_file = options->pid_file;
	broker->handover_ms = read_handover();
	broker->solo_max = read_solo_max();
}

/* From a chosen directory and driver to a socket that listens. */
static int
serve(struct brk_broker *broker, struct options *options)
{
	int r;

	umask(077);
	start_log(broker, options->foreground);
	raise_limits();
#ifndef MPSSHIM_SANITIZED
	/* Descriptors of everybody's memory: not for a debugger of ours. The
	 * leak checker is one. */
	prctl(PR_SET_DUMPABLE, 0);
#endif
	set_limits(broker, options);
	r = brk_broker_start(broker);
	if (r < 0)
		return fail(options->ready_fd, "%s: %s", broker->path,
			    r == -EADDRINUSE ? "another broker is running" :
			    err_text(r));
	log_line(LOG_INFO, "listening on %s, driver %s", broker->path,
		 broker->driver.path);
	r = brk_pid_write(broker->pid_file);
	if (r < 0) {
		brk_broker_fini(broker);
		return fail(options->ready_fd, "--pid-file=%s: %s",
			    options->pid_file, err_text(r));
	}
	if (!options->foreground)
		detach_output();
	if (options->ready_fd >= 0) {
		if (write(options->ready_fd, "\n", 1) < 0)
			err_origin(-errno);
		close(options->ready_fd);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	static struct brk_broker broker;
	struct options options;
	int r;

	fill_standard_descriptors();
	/* A full pipe or a file size limit costs a line, not the broker. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (parse(argc, argv, &options) < 0) {
		/* What is wrong has been said. */
		fputs("mpsd --help lists the options\n", stderr);
		return 2;
	}
	r = prepare(&broker, &options);
	if (r)
		return r;
	if (!options.foreground && options.ready_fd < 0) {
		options.ready_fd = go_background();
		if (options.ready_fd < 0)
			return fail(-1, "fork: %s",
				    err_text(options.ready_fd));
	}
	r = serve(&broker, &options);
	if (r)
		return r;
	brk_device_warm(&broker);
	r = brk_loop_run(&broker.loop);
	brk_broker_fini(&broker);
	return r < 0;
}
