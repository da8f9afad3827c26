/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpsctl: ask the broker, end it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/sock.h"
#include "proto/version.h"
#include "server/ctl/ask.h"
#include "server/ctl/ctl.h"

static const char usage[] =
	"usage: mpsctl [OPTION]... COMMAND\n"
	"\n"
	"  status [--json]   clients, memory, modules, streams, workers\n"
	"  quit [--force]    let no new clients in, wait for those that are\n"
	"                    there, then end the broker; interrupted, it goes\n"
	"                    on. With --force now: clients get an error\n"
	"  ping              is a broker there, and which driver does it use\n"
	"\n"
	"  -s, --socket-dir=DIR  the broker's directory (default\n"
	"                        $CUDA_MPS_PIPE_DIRECTORY, else\n"
	"                        $XDG_RUNTIME_DIR/mpsshim, /tmp/mpsshim-UID)\n"
	"  -h, --help            this text\n"
	"  -V, --version         version and wire number\n"
	"\n"
	"Exit status: 0; 1 no broker or it refused; 2 usage.\n"
	"\n"
	"What status shows:\n"
	"  clients   programs now, and since the broker started; bad frames are\n"
	"            messages that broke the protocol and cost their sender its\n"
	"            connection\n"
	"  holds     pieces of device memory (chunks) and code images that the\n"
	"            broker keeps\n"
	"  worker    the process with the GPU context; each one that had to be\n"
	"            started for this device is one generation\n"
	"  contexts  GPU contexts; images of code that the worker has, and how\n"
	"            often the driver was given one (loads); lanes, the threads\n"
	"            that replay calls; handles, what clients have made\n"
	"  overlap   for how long kernels of two clients were running at once\n"
	"  lost      clients whose work in flight a fault has taken\n"
	"  CLIENT                    its number, by which others are said to wait\n"
	"                            for it\n"
	"  PID, DEV, JOB, PROGRAM    who it is; JOB is $MPSSHIM_JOB\n"
	"  WORKER                    which process replays its calls\n"
	"  DEVICE MEM, PINNED        taken in whole chunks, 2 MiB the smallest\n"
	"  MODULES, STREAMS          what it has\n"
	"  LAUNCHES                  kernels and graphs so far\n"
	"  KERNELS                   for how long one was running; -: not measured\n"
	"  (...)                     behind PROGRAM: what it waits for\n"
	"  [solo: ...]               why it has a worker of its own\n"
	"  [... late errors]         calls that failed after they were answered,\n"
	"                            which they should not; the log has them\n"
	"The broker's log is mpsd.log in its directory.\n";

static const struct option long_options[] = {
	{ "socket-dir", required_argument, NULL, 's' },
	{ "json", no_argument, NULL, 'J' },
	{ "force", no_argument, NULL, 'F' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

__attribute__((format(printf, 1, 2), noreturn)) static void
fail(const char *format, ...)
{
	char line[2 * PATH_MAX + 256];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "mpsctl: %s\n", line);
	exit(1);
}

static Mps__Control *
need_status(struct ctl_broker *broker)
{
	Mps__Control *answer = ctl_ask_status(broker);

	if (!answer)
		fail("%s", broker->why);
	return answer;
}

static void
do_status(struct ctl_broker *broker, bool json)
{
	Mps__Control *answer = need_status(broker);

	if (json)
		ctl_print_json(answer->status_reply);
	else
		ctl_print_table(answer->status_reply);
	mps__control__free_unpacked(answer, NULL);
}

static void
do_quit(struct ctl_broker *broker, bool force)
{
	Mps__Control *answer = need_status(broker);
	size_t clients = answer->status_reply->n_clients;
	int r;

	mps__control__free_unpacked(answer, NULL);
	r = ctl_quit(broker, force);
	if (r < 0)
		fail("%s", broker->why);
	if (r)
		fail("the broker refuses");
	if (clients && !force)
		fprintf(stderr, "mpsctl: waiting for %zu client%s to end "
			"(quit --force ends %s; interrupted, the broker "
			"goes on)\n", clients,
			clients == 1 ? "" : "s", clients == 1 ? "it" : "them");
	if (ctl_await_end(broker, -1) < 0)
		fail("the broker said something unexpected");
}

static void
do_ping(struct ctl_broker *broker, const Mps__HelloReply *hello)
{
	pid_t pid = 0;
	uid_t uid;
	gid_t gid;

	sock_peer(broker->fd, &pid, &uid, &gid);
	printf("broker %d at %s, driver %s\n", (int)pid, broker->path,
	       hello->driver);
}

__attribute__((format(printf, 1, 2))) static int
bad_usage(const char *format, ...)
{
	va_list args;

	fputs("mpsctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs(" (mpsctl --help says more)\n", stderr);
	return 2;
}

static int
run(const char *command, bool json, bool force)
{
	struct ctl_broker broker;
	Mps__Control *hello;

	if (strcmp(command, "status") && strcmp(command, "quit") &&
	    strcmp(command, "ping"))
		return bad_usage("no such command: %s", command);
	if (json && strcmp(command, "status"))
		return bad_usage("--json is for status");
	if (force && strcmp(command, "quit"))
		return bad_usage("--force is for quit");
	hello = ctl_connect(&broker, "mpsctl");
	if (!hello)
		fail("%s", broker.why);
	if (!strcmp(command, "status"))
		do_status(&broker, json);
	else if (!strcmp(command, "quit"))
		do_quit(&broker, force);
	else
		do_ping(&broker, hello->hello_reply);
	mps__control__free_unpacked(hello, NULL);
	close(broker.fd);
	if (fflush(stdout) || ferror(stdout))
		fail("cannot write: %s", strerror(errno));
	return 0;
}

int
main(int argc, char **argv)
{
	bool json = false, force = false;
	int c;

	log_init("mpsctl", LOG_ERROR);
	while ((c = getopt_long(argc, argv, "s:hV", long_options, NULL)) !=
	       -1) {
		switch (c) {
		case 's':
			if (setenv("CUDA_MPS_PIPE_DIRECTORY", optarg, 1) < 0)
				fail("out of memory");
			break;
		case 'J': json = true; break;
		case 'F': force = true; break;
		case 'h':
			fputs(usage, stdout);
			return fflush(stdout) ? 1 : 0;
		case 'V':
			printf(VERSION_LINE("mpsctl"));
			return fflush(stdout) ? 1 : 0;
		default:
			/* getopt has said which. */
			fputs("mpsctl --help lists them\n", stderr);
			return 2;
		}
	}
	if (optind == argc)
		return bad_usage("a command is missing: status, quit or ping");
	if (argc - optind > 1)
		return bad_usage("one command at a time, not also %s",
				 argv[optind + 1]);
	return run(argv[optind], json, force);
}
