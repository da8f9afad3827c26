/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia-cuda-mps-control, for scripts that start and ask NVIDIA's daemon of
 * that name: the same options, commands, output and exit statuses, as far as
 * there is something to it here. What it prints was recorded from NVIDIA's of
 * driver 580. Never in a directory of PATH by itself: programs that were not
 * started by mpsrun must find NVIDIA's.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/mpsenv.h"
#include "proto/version.h"
#include "server/ctl/mps.h"

/* Of CUDA 13.0, as NVIDIA's says it. */
#define BINARY_VERSION "13000"

static const char usage[] =
	"usage: nvidia-cuda-mps-control [-d | -f | -v | -h] [COMMAND]\n"
	"Control mpsd as NVIDIA's program of this name controls its daemon.\n"
	"\n"
	"  -d, --daemon      start the daemon (mpsd) in the background\n"
	"  -f, --foreground  start it in the foreground, its log on stderr\n"
	"  -v, --version     version\n"
	"  -h, --help        this text\n"
	"Without an option: one command, given as arguments, or those of\n"
	"standard input, one a line.\n"
	"\n"
	"  get_server_list                    workers: a server here is a worker\n"
	"  get_server_status PID\n"
	"  start_server -uid UID              of this user\n"
	"  get_client_list PID\n"
	"  get_device_client_list [PID]\n"
	"  ps [-p PID]\n"
	"  device_query [PID] [--csv]\n"
	"  terminate_client SERVER_PID CLIENT_PID\n"
	"  quit [-t SECONDS]\n"
	"  set_default_device_pinned_mem_limit DEVICE SIZE, and the four like it:\n"
	"                                     one limit, from now on, of what a\n"
	"                                     program has on all devices\n"
	"  get_default_active_thread_percentage and the like: 100.0, always;\n"
	"                                     clients share all multiprocessors\n"
	"  get_default_client_priority        0, always\n"
	"  shutdown_server PID                refused: it ends with the daemon\n"
	"\n"
	"Environment of the daemon: CUDA_MPS_PIPE_DIRECTORY,\n"
	"CUDA_MPS_LOG_DIRECTORY (control.log there; without it mpsd.log in the\n"
	"first), CUDA_VISIBLE_DEVICES, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT.\n"
	"Exit status: 0; 1 no daemon runs or answers, or with -d one does.\n";

/* ---- the daemon ---------------------------------------------------------*/

/* In the build tree and installed: lib/mpsshim/mps, mps beside bin. */
static int
find_mpsd(char *out, size_t size)
{
	static const char *const places[] = {
		"../bin/mpsd", "../../../bin/mpsd",
	};
	char own[PATH_MAX], path[PATH_MAX + 32], *slash;
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (n < 0)
		return err_origin(-errno);
	own[n] = 0;
	slash = strrchr(own, '/');
	*slash = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), "%s/%s", own, places[i]);
		if (!access(path, X_OK))
			return snprintf(out, size, "%s", path) < (int)size ?
				0 : -ENAMETOOLONG;
	}
	return -ENOENT;
}

/* What has no effect is said, not taken in silence. */
static void
warn_of_variables(void)
{
	char line[256];

	for (unsigned int i = 0; mpsenv_idle(i, line, sizeof(line)); i++)
		fprintf(stderr, "%s\n", line);
}

static int
set_log(void)
{
	const char *dir = getenv("CUDA_MPS_LOG_DIRECTORY");
	char spec[PATH_MAX + 32];

	if (!dir || !*dir || getenv("MPSSHIM_LOG"))
		return 0;
	if (*dir != '/') {
		fprintf(stderr, "CUDA_MPS_LOG_DIRECTORY=%s: it takes an "
			"absolute path\n", dir);
		return -EINVAL;
	}
	/* As NVIDIA's, it may be there. */
	mkdir(dir, 0755);
	snprintf(spec, sizeof(spec), "info:%s/control.log", dir);
	if (setenv("MPSSHIM_LOG", spec, 1) < 0 ||
	    setenv("MPSSHIM_LOG_MB", "8", 0) < 0)
		return err_origin(-ENOMEM);
	return 0;
}

static int
start_daemon(bool foreground)
{
	static struct ctl_broker broker;
	char mpsd[PATH_MAX], limit[64], devices[1024], pid[PATH_MAX + 64];
	char *argv[7] = { (char *)"mpsd" };
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	Mps__Control *hello = ctl_connect(&broker, "nvidia-cuda-mps-control");
	uint64_t most;
	bool good;
	int n = 1;

	if (hello) {
		puts("An instance of this daemon is already running");
		return 1;
	}
	if (find_mpsd(mpsd, sizeof(mpsd)) < 0) {
		fputs("mpsd is not where this program expects it\n", stderr);
		return 1;
	}
	if (set_log() < 0)
		return 1;
	most = mpsenv_memory_limit(&good);
	if (!good) {
		fputs("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: it takes "
		      "DEVICE=SIZE,..., as 0=10G\n", stderr);
		return 1;
	}
	warn_of_variables();
	snprintf(pid, sizeof(pid), "--pid-file=%s/nvidia-cuda-mps-control.pid",
		 broker.dir);
	argv[n++] = pid;
	if (foreground)
		argv[n++] = (char *)"--foreground";
	if (most) {
		snprintf(limit, sizeof(limit), "--device-limit=%" PRIu64, most);
		argv[n++] = limit;
	}
	if (visible) {
		snprintf(devices, sizeof(devices), "--devices=%s", visible);
		argv[n++] = devices;
	}
	execv(mpsd, argv);
	fprintf(stderr, "%s: %s\n", mpsd, strerror(errno));
	return 1;
}

/* ---- sessions -----------------------------------------------------------*/

/* Commands until the daemon or the input ends. The exit status. */
static int
converse(struct ctl_broker *broker)
{
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int r = 0;

	while (!r && (n = getline(&line, &cap, stdin)) >= 0) {
		if (n && line[n - 1] == '\n')
			line[n - 1] = 0;
		r = mps_command(broker, line);
		fflush(stdout);
	}
	return r < 0;
}

/* The words of the command line are one command. */
static int
one_command(struct ctl_broker *broker, char **words)
{
	char line[4096] = "";

	for (; *words; words++) {
		size_t used = strlen(line);

		snprintf(line + used, sizeof(line) - used, "%s%s",
			 used ? " " : "", *words);
	}
	return mps_command(broker, line) < 0;
}

static int
control(char **words)
{
	static struct ctl_broker broker;
	Mps__Control *hello = ctl_connect(&broker, "nvidia-cuda-mps-control");
	int status;

	if (!hello) {
		fputs("Cannot find MPS control daemon process\n", stderr);
		return 1;
	}
	mps__control__free_unpacked(hello, NULL);
	status = *words ? one_command(&broker, words) : converse(&broker);
	if (status)
		fprintf(stderr, "%s\n", broker.why);
	close(broker.fd);
	return fflush(stdout) || ferror(stdout) ? 1 : status;
}

static bool
is(const char *word, const char *a, const char *b)
{
	return !strcmp(word, a) || !strcmp(word, b);
}

int
main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	log_init("nvidia-cuda-mps-control", LOG_ERROR);
	if (*word != '-')
		return control(argv + (argc > 0));
	if (is(word, "-d", "--daemon"))
		return start_daemon(false);
	if (is(word, "-f", "--foreground"))
		return start_daemon(true);
	if (is(word, "-v", "--version")) {
		puts("CUDA MPS Control of mpsshim " MPSSHIM_VERSION
		     ". Binary version: " BINARY_VERSION);
		return fflush(stdout) ? 1 : 0;
	}
	if (is(word, "-M", "--multiuser-server") ||
	    is(word, "-multiuser-server", "-S") ||
	    is(word, "--static-partitioning", "--multiuser")) {
		fprintf(stderr, "%s is not served: a daemon has the programs "
			"of one user, who share all multiprocessors\n", word);
		return 1;
	}
	if (!is(word, "-h", "--help"))
		printf("Unrecognized option  \n");
	fputs(usage, stdout);
	return fflush(stdout) ? 1 : 0;
}
