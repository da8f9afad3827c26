/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpsrun: run a command with its CUDA calls going to the user's broker.
 *
 * The command replaces this process: process id, signals, exit status and
 * descriptors are those of a run without mpsrun.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/mpsenv.h"
#include "proto/settings.h"
#include "proto/sock.h"
#include "proto/version.h"
#include "shim/start.h"

#define HELLO_MS 10000
/* For a broker that shuts down and is about to have ended. */
#define DRAIN_MS 3000

enum {
	EXIT_OURS = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127,
};

static const char usage[] =
	"usage: mpsrun [OPTION]... [--] COMMAND [ARGUMENT]...\n"
	"Run COMMAND so that it shares one GPU context with others of this\n"
	"user. Starts the broker if none runs.\n"
	"\n"
	"  -v, --verbose       say on stderr which driver, broker and library\n"
	"  -d, --driver=DRIVER auto, cuda (a GPU), soft (the software device)\n"
	"                      or a path, for a broker started now; one that\n"
	"                      runs with another driver is refused\n"
	"  -j, --job=NAME      limits and figures are shared by all processes\n"
	"                      of this name\n"
	"  -s, --solo          with a worker and a GPU context of its own, for\n"
	"                      what cannot share one (a broker that runs gives\n"
	"                      it, too)\n"
	"  -h, --help          this text\n"
	"  -V, --version       version and wire number\n"
	"\n"
	"Exit status: the command's; 125 mpsrun failed, 126 the command cannot\n"
	"be executed, 127 it is not found.\n"
	"Environment: CUDA_MPS_PIPE_DIRECTORY, MPSSHIM_DRIVER, MPSSHIM_JOB,\n"
	"MPSSHIM_SOLO=1 (as --solo), MPSSHIM_IDLE_S (a started broker ends after\n"
	"so long without clients), MPSSHIM_NO_BROKER=start|native|error,\n"
	"MPSSHIM_LOG, MPSSHIM_PERF; the README explains them, and others.\n";

static const struct option long_options[] = {
	{ "verbose", no_argument, NULL, 'v' },
	{ "driver", required_argument, NULL, 'd' },
	{ "job", required_argument, NULL, 'j' },
	{ "solo", no_argument, NULL, 's' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct places {
	char shim[PATH_MAX];    /* libmpsshim.so */
	char links[PATH_MAX];   /* directory of libcuda.so and libcuda.so.1 */
};

__attribute__((format(printf, 1, 2), noreturn)) static void
fail(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "mpsrun: %s\n", line);
	exit(EXIT_OURS);
}

/*
 * If the caller left 0, 1 or 2 closed, a socket of ours could become stderr.
 * Filled with descriptors that exec closes again.
 */
static void
fill_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < 3);
	if (fd >= 0)
		close(fd);
}

/* ---- what to preload ----------------------------------------------------*/

static void
find_places(struct places *places)
{
	static const char *const libs[] = {
		"../lib/libmpsshim.so", "../lib/mpsshim/libmpsshim.so",
		"../lib64/libmpsshim.so", "libmpsshim.so",
	};
	char own[PATH_MAX], path[2 * PATH_MAX], *slash;
	bool found = false;

	if (shim_own_directory(own, sizeof(own)) < 0)
		fail("cannot tell where this program is: /proc is needed");
	for (size_t i = 0; !found && i < sizeof(libs) / sizeof(*libs); i++) {
		snprintf(path, sizeof(path), "%s/%s", own, libs[i]);
		found = realpath(path, places->shim) != NULL;
	}
	if (!found)
		fail("libmpsshim.so is neither in %s nor in %s/../lib", own,
		     own);
	/* The loader splits LD_PRELOAD at both, without any quoting. */
	if (strpbrk(places->shim, " :"))
		fail("the preload library's path holds a space or a colon: %s",
		     places->shim);
	snprintf(path, sizeof(path), "%s", places->shim);
	slash = strrchr(path, '/');
	snprintf(slash, sizeof(path) - (size_t)(slash - path), "/mpsshim");
	if (!realpath(path, places->links))
		snprintf(places->links, sizeof(places->links), "%.*s",
			 (int)(slash - path), path);
}

static bool
in_list(const char *list, const char *item, const char *separators)
{
	size_t size = strlen(item);

	while (*list) {
		size_t n = strcspn(list, separators);

		if (n == size && !memcmp(list, item, n))
			return true;
		list += n;
		list += *list != 0;
	}
	return false;
}

/* item first in a list variable, once: mpsrun may run under mpsrun. */
static void
prepend(const char *name, const char *item, const char *separators)
{
	const char *old = getenv(name);
	_cleanup_free_ char *joined = NULL;

	if (old && in_list(old, item, separators))
		return;
	if (asprintf(&joined, "%s%s%s", item, old && *old ? ":" : "",
		     old ? old : "") < 0 || setenv(name, joined, 1) < 0)
		fail("out of memory");
}

/* NVIDIA's NVML asks the driver by the first file, or under WSL the other. */
static bool
can_open(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode);
}

/* Where it cannot, ours says what devices there are. */
static void
offer_nvml(const struct places *places)
{
	char dir[PATH_MAX + 8];

	snprintf(dir, sizeof(dir), "%s/nvml", places->links);
	if (access(dir, X_OK) == 0 && !can_open("/dev/nvidiactl") &&
	    !can_open("/dev/dxg"))
		prepend("LD_LIBRARY_PATH", dir, ":;");
}

static void
set_environment(const struct places *places)
{
	prepend("LD_PRELOAD", places->shim, " :");
	/* For whoever opens libcuda.so, which no SONAME answers to, or asks
	 * the loader's path. */
	prepend("LD_LIBRARY_PATH", places->links, ":;");
	offer_nvml(places);
	if (setenv("TRITON_LIBCUDA_PATH", places->links, 1) < 0)
		fail("out of memory");
}

/* ---- the broker ---------------------------------------------------------*/

/* Ask who it is. NULL: it went away before it answered. */
static Mps__Control *
ask(int fd)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Hello hello = MPS__HELLO__INIT;
	int r;

	hello.wire = WIRE_NUMBER;
	hello.exe = (char *)"mpsrun";
	hello.ask_only = true;
	hello.pid = getpid();
	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &hello;
	r = sock_send_control(fd, &question, NULL, 0, HELLO_MS);
	if (!r)
		r = sock_recv_control(fd, &answer, NULL, NULL, HELLO_MS);
	if (r == -EPIPE || r == -ECONNRESET)
		return NULL;
	if (r < 0)
		fail("the broker does not answer: %s", strerror(-r));
	if (answer->body_case != MPS__CONTROL__BODY_HELLO_REPLY)
		fail("what listens at the socket is no broker of ours");
	return answer;
}

static void
check_driver(const Mps__HelloReply *reply)
{
	const char *asked = getenv("MPSSHIM_DRIVER");
	char real[PATH_MAX];
	bool same;

	if (!asked || !*asked || !strcmp(asked, "auto"))
		return;
	if (!strcmp(asked, "soft") || !strcmp(asked, "cuda"))
		same = reply->software == !strcmp(asked, "soft");
	else
		same = realpath(asked, real) && !strcmp(real, reply->driver);
	if (!same && !strchr(asked, '/') && strcmp(asked, "soft") &&
	    strcmp(asked, "cuda") && access(asked, F_OK) < 0)
		fail("driver library %.100s: %s (MPSSHIM_DRIVER takes auto, "
		     "cuda, soft or a path)", asked, strerror(errno));
	if (!same)
		fail("the running broker uses driver %s, not %s: end it "
		     "(mpsctl quit) or use another CUDA_MPS_PIPE_DIRECTORY",
		     reply->driver, asked);
}

static bool
is_told(const Mps__HelloReply *reply, const char *entry)
{
	for (size_t i = 0; i < reply->n_settings; i++)
		if (!strcmp(reply->settings[i], entry))
			return true;
	return false;
}

/* One line for all that is set now and was not, or otherwise, when the broker
 * started. */
static void
warn_of_settings(const Mps__HelloReply *reply)
{
	char line[1024] = "";

	for (char **e = environ; *e; e++) {
		size_t used = strlen(line);

		if (settings_of_start(*e, reply->software) &&
		    !is_told(reply, *e))
			snprintf(line + used, sizeof(line) - used, "%s%.200s",
				 used ? ", " : "", *e);
	}
	if (*line)
		fprintf(stderr, "mpsrun: %s: without effect, the broker that "
			"runs was started otherwise (mpsctl quit ends it)\n",
			line);
}

static void
describe(int fd, const Mps__HelloReply *reply, const struct places *places)
{
	char dir[PATH_MAX], path[PATH_MAX] = "";
	pid_t pid = 0;
	uid_t uid;
	gid_t gid;

	sock_paths(dir, sizeof(dir), path, sizeof(path));
	sock_peer(fd, &pid, &uid, &gid);
	fprintf(stderr, "mpsrun: driver %s%s\n", reply->driver,
		reply->software ? " (software device)" : "");
	fprintf(stderr, "mpsrun: broker pid %d at %s\n", (int)pid, path);
	fprintf(stderr, "mpsrun: preload %s\n", places->shim);
}

/* One that shuts down goes when its last program has. False: it has gone;
 * does not return when it stays. */
static bool
outlasts(int fd, const Mps__HelloReply *reply)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (!reply->draining)
		return true;
	if (poll(&p, 1, DRAIN_MS) > 0)
		return false;
	fail("the broker is shutting down (mpsctl quit) and waits for "
	     "programs that run: try again when they have ended, or end them "
	     "with `mpsctl quit --force` (`mpsctl status` lists them)");
}

/* A broker that suits answers. False: none runs and none is wanted. */
static bool
reach_broker(bool verbose, const struct places *places)
{
	Mps__Control *answer = NULL;
	char why[512] = "";
	int fd = -1;

	/* One that ends in this moment closes without an answer. */
	for (int tries = 0; !answer && tries < 3; tries++) {
		if (fd >= 0)
			close(fd);
		fd = shim_broker_connect(why, sizeof(why));
		if (fd < 0 && shim_no_broker() == SHIM_NO_BROKER_NATIVE) {
			if (verbose)
				fprintf(stderr, "mpsrun: %s: running without "
					"it\n", why);
			return false;
		}
		if (fd < 0)
			fail("%s", why);
		answer = ask(fd);
		if (answer && !outlasts(fd, answer->hello_reply)) {
			mps__control__free_unpacked(answer, NULL);
			answer = NULL;
		}
	}
	if (!answer)
		fail("the broker closes every connection");
	if (answer->hello_reply->status)
		fail("the broker refuses: %s", answer->hello_reply->message);
	check_driver(answer->hello_reply);
	warn_of_settings(answer->hello_reply);
	if (verbose)
		describe(fd, answer->hello_reply, places);
	mps__control__free_unpacked(answer, NULL);
	close(fd);
	return true;
}

/* ---- command line -------------------------------------------------------*/

static void
set(const char *name, const char *value)
{
	if (setenv(name, value, 1) < 0)
		fail("out of memory");
}

/* The index of the command. */
static int
parse(int argc, char **argv, bool *verbose)
{
	int c;

	while ((c = getopt_long(argc, argv, "+vd:j:shV", long_options, NULL)) !=
	       -1) {
		switch (c) {
		case 'v': *verbose = true; break;
		case 'd': set("MPSSHIM_DRIVER", optarg); break;
		case 'j': set("MPSSHIM_JOB", optarg); break;
		case 's': set("MPSSHIM_SOLO", "1"); break;
		case 'h':
			fputs(usage, stdout);
			exit(fflush(stdout) ? EXIT_OURS : 0);
		case 'V':
			printf(VERSION_LINE("mpsrun"));
			exit(fflush(stdout) ? EXIT_OURS : 0);
		default:
			/* getopt has said which. */
			fputs("mpsrun --help lists them\n", stderr);
			exit(EXIT_OURS);
		}
	}
	if (optind == argc) {
		fail("no command (mpsrun --help says more)");
	}
	return optind;
}

int
main(int argc, char **argv)
{
	struct places places;
	bool verbose = false, good;
	int command, error;
	char why[256];

	fill_standard_descriptors();
	command = parse(argc, argv, &verbose);
	log_init("mpsrun", LOG_ERROR);
	error = sock_settle();
	if (error < 0)
		fail("the working directory: %s", strerror(-error));
	if (!settings_good(SETTINGS_SHIM | SETTINGS_BROKER, why, sizeof(why)))
		fail("%s", why);
	mpsenv_memory_limit(&good);
	if (!good)
		fail("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: it takes "
		     "DEVICE=SIZE,..., as 0=10G");
	find_places(&places);
	if (reach_broker(verbose, &places))
		set_environment(&places);
	execvp(argv[command], argv + command);
	error = errno;
	fprintf(stderr, "mpsrun: %s: %s\n", argv[command], strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
