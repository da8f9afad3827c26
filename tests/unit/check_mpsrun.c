/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpsrun, mpsctl and starting a broker: from outside and from inside a
 * process that must not notice. This program is the worker, too.
 */
#include "tests/unit/broker_rig.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/start.h"
#include "proto/version.h"
#include "tests/unit/fake_worker.h"
#include "tests/unit/suite.h"

static int descriptors;

static void
setup(void)
{
	char mpsd[5000];

	descriptors = suite_descriptors();
	rig_init();
	/* shim/start.c looks beside this program, which lies elsewhere. */
	snprintf(mpsd, sizeof(mpsd), "%s/mpsd", rig.bin);
	setenv("MPSSHIM_MPSD", mpsd, 1);
#ifdef MPSSHIM_SANITIZED
	/* The preloaded library brings the sanitizer into programs that were
	 * not made for it, and theirs are not the leaks that we look for. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
#endif
}

static void
teardown(void)
{
	rig_fini();
	ck_assert_int_eq(suite_descriptors(), descriptors);
}

/* mpsrun with up to four arguments. */
static int
mpsrun(char *out, size_t size, const char *a, const char *b, const char *c,
       const char *d)
{
	const char *const argv[] = { "mpsrun", a, b, c, d, NULL };

	return rig_run(out, size, argv);
}

static int
mpsctl(char *out, size_t size, const char *a, const char *b)
{
	const char *const argv[] = { "mpsctl", a, b, NULL };

	return rig_run(out, size, argv);
}

static int
count_lines(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* ---- mpsrun -------------------------------------------------------------*/

START_TEST(mpsrun_gives_the_command_s_exit_status)
{
	char out[8192];

	ck_assert_int_eq(mpsrun(out, sizeof(out), "sh", "-c", "exit 7", NULL),
			 7);
	ck_assert_str_eq(out, "");
	ck_assert_int_eq(mpsrun(out, sizeof(out), "--", "true", NULL, NULL),
			 0);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "no-such-program", NULL,
				NULL, NULL), 127);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "/etc/passwd", NULL, NULL,
				NULL), 126);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), NULL, NULL, NULL, NULL),
			 125);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "--wrong", "true", NULL,
				NULL), 125);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "--help", NULL, NULL, NULL),
			 0);
	ck_assert_ptr_nonnull(strstr(out, "--driver"));
}
END_TEST

START_TEST(a_driver_that_is_no_library_is_our_failure)
{
	char out[8192];

	setenv("MPSSHIM_DRIVER", "/etc/passwd", 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "true", NULL, NULL, NULL),
			 125);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_ptr_nonnull(strstr(out, "/etc/passwd: no library"));
	ck_assert_ptr_nonnull(strstr(out, "MPSSHIM_DRIVER"));
	ck_assert_ptr_nonnull(strstr(out, "auto, cuda, soft or a path"));
}
END_TEST

/* From inside a program: the code is its, and the exit status, too. */
START_TEST(a_preloaded_program_gets_a_code_where_no_broker_starts)
{
	char why[256];

	setenv("MPSSHIM_DRIVER", "/etc/passwd", 1);
	ck_assert_int_eq(shim_broker_connect(why, sizeof(why)), -ECHILD);
	ck_assert_ptr_nonnull(strstr(why, "/etc/passwd: no library"));
	setenv("MPSSHIM_NO_BROKER", "error", 1);
	ck_assert_int_eq(shim_broker_connect(why, sizeof(why)), -ENOENT);
	unsetenv("MPSSHIM_NO_BROKER");
}
END_TEST

/* mpsd starts in the root directory, wherever the user is. */
START_TEST(relative_paths_are_meant_from_where_mpsrun_is_started)
{
	char out[8192], file[128], here[4096], *base = strrchr(rig.self, '/');

	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	snprintf(file, sizeof(file), "./%s", base + 1);
	setenv("MPSSHIM_DRIVER", file, 1);
	ck_assert_int_eq(chdir(rig.dir), 0);
	ck_assert_int_eq(symlink(rig.self, base + 1), 0);
	setenv("MPSSHIM_LOG", "info:relative.log", 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "-v", "true", NULL, NULL),
			 0);
	ck_assert_ptr_nonnull(strstr(out, rig.self));
	ck_assert_int_ne(access("/relative.log", F_OK), 0);
	ck_assert_int_eq(access("mpsd.log", F_OK), 0);
	unsetenv("MPSSHIM_LOG");
	ck_assert_int_eq(mpsctl(out, sizeof(out), "quit", "--force"), 0);
	ck_assert_int_eq(chdir(here), 0);
}
END_TEST

START_TEST(every_program_says_which_release_it_is)
{
	static const char *const programs[] = { "mpsrun", "mpsd", "mpsctl" };
	char out[256], want[256];

	for (int i = 0; i < 3; i++) {
		const char *const argv[] = { programs[i], "-V", NULL };

		ck_assert_int_eq(rig_run(out, sizeof(out), argv), 0);
		snprintf(want, sizeof(want), "%s (mpsshim) " MPSSHIM_VERSION
			 ", wire number %u\n", programs[i], WIRE_NUMBER);
		ck_assert_str_eq(out, want);
	}
}
END_TEST

START_TEST(mpsrun_says_what_it_uses)
{
	char out[8192];

	ck_assert_int_eq(mpsrun(out, sizeof(out), "-v", "true", NULL, NULL),
			 0);
	ck_assert_ptr_nonnull(strstr(out, rig.self));
	ck_assert_ptr_nonnull(strstr(out, rig.path));
	ck_assert_ptr_nonnull(strstr(out, "broker pid "));
}
END_TEST

START_TEST(mpsrun_sets_each_variable_once_however_nested)
{
	char out[8192], program[5000], *second;

	setenv("LD_LIBRARY_PATH", "/some/where", 1);
	snprintf(program, sizeof(program), "%s/mpsrun", rig.bin);
	ck_assert_int_eq(mpsrun(out, sizeof(out), program, "sh", "-c",
				"echo \"$LD_PRELOAD|$LD_LIBRARY_PATH|"
				"$TRITON_LIBCUDA_PATH\""), 0);
	second = strstr(out, "libmpsshim.so");
	ck_assert_ptr_nonnull(second);
	ck_assert_ptr_null(strstr(second + 1, "libmpsshim.so"));
	second = strstr(out, "/mpsshim:/some/where|");
	ck_assert_ptr_nonnull(second);
	ck_assert_ptr_null(strstr(second + 1, "/mpsshim:"));
}
END_TEST

/* What a shell without stdin, run by program if there is one, says of its
 * process: its number, its signals, its descriptors. */
static pid_t
describe_process(const char *program, char *out, size_t size)
{
	/* Read by the shell itself: it blocks signals while it forks. */
	static const char script[] =
		"echo $$; while read -r line; do case $line in "
		"SigBlk*|SigIgn*) echo $line;; esac; done </proc/$$/status; "
		"ls /proc/$$/fd";
	int fds[2], status;
	size_t got = 0;
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		signal(SIGUSR1, SIG_IGN);
		dup2(fds[1], 1);
		dup2(1, 93);
		close(0);
		if (program)
			execl(program, "mpsrun", "sh", "-c", script, NULL);
		execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(1);
	}
	close(fds[1]);
	while ((n = read(fds[0], out + got, size - 1 - got)) > 0)
		got += (size_t)n;
	out[got] = 0;
	close(fds[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	return pid;
}

START_TEST(mpsrun_keeps_process_signals_and_descriptors)
{
	char program[5000], with[4096], without[4096];
	pid_t pid;

	snprintf(program, sizeof(program), "%s/mpsrun", rig.bin);
	pid = describe_process(program, with, sizeof(with));
	ck_assert_int_eq(atoi(with), pid);
	describe_process(NULL, without, sizeof(without));
	ck_assert_ptr_nonnull(strstr(without, "93"));
	ck_assert_str_eq(strchr(with, '\n'), strchr(without, '\n'));
}
END_TEST

START_TEST(mpsrun_leaves_no_descriptor_with_the_broker)
{
	char program[5000];
	int fds[2], status;
	char byte;
	pid_t pid;

	/* Like `mpsrun true | cat`: end-of-file when true ends. */
	snprintf(program, sizeof(program), "%s/mpsrun", rig.bin);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		dup2(fds[1], 77);
		execl(program, "mpsrun", "true", NULL);
		_exit(1);
	}
	close(fds[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(read(fds[0], &byte, 1), 0);
	close(fds[0]);
	/* And the broker lives. */
	mps__control__free_unpacked(rig_status(), NULL);
}
END_TEST

START_TEST(thirty_two_simultaneous_starts_make_one_broker)
{
	char program[5000], path[128], text[16384], *line;
	pid_t pids[32];
	int status, fd, listening = 0;
	ssize_t n;

	snprintf(program, sizeof(program), "%s/mpsrun", rig.bin);
	for (int i = 0; i < 32; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			execl(program, "mpsrun", "true", NULL);
			_exit(1);
		}
	}
	for (int i = 0; i < 32; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	snprintf(path, sizeof(path), "%s/mpsd.log", rig.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	ck_assert_int_gt(n, 0);
	text[n] = 0;
	for (line = text; (line = strstr(line, "listening on")); line++)
		listening++;
	ck_assert_int_eq(listening, 1);
}
END_TEST

START_TEST(a_path_of_108_bytes_is_refused_in_one_line)
{
	static const char *const programs[] = { "mpsrun", "mpsctl", "mpsd" };
	char dir[200], out[8192];
	size_t size = 108 - strlen("/mpsshim");

	memset(dir, 'x', sizeof(dir));
	memcpy(dir, rig.dir, strlen(rig.dir));
	dir[strlen(rig.dir)] = '/';
	dir[size] = 0;
	setenv("CUDA_MPS_PIPE_DIRECTORY", dir, 1);
	for (int i = 0; i < 3; i++) {
		const char *const argv[] = {
			programs[i], i < 1 ? "true" : i < 2 ? "ping" : NULL,
			NULL,
		};

		ck_assert_int_eq(rig_run(out, sizeof(out), argv),
				 i ? 1 : 125);
		ck_assert_int_eq(count_lines(out), 1);
		ck_assert_ptr_nonnull(strstr(out, "107"));
	}
	/* One byte less is not too long. */
	dir[size - 1] = 0;
	setenv("CUDA_MPS_PIPE_DIRECTORY", dir, 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "true", NULL, NULL, NULL),
			 0);
	ck_assert_int_eq(mpsctl(out, sizeof(out), "quit", NULL), 0);
}
END_TEST

START_TEST(mpsrun_without_a_broker_does_as_it_is_told)
{
	char out[8192];

	setenv("MPSSHIM_NO_BROKER", "error", 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "true", NULL, NULL, NULL),
			 125);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_ptr_nonnull(strstr(out, rig.path));
	setenv("MPSSHIM_NO_BROKER", "native", 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "sh", "-c",
				"echo \"[$LD_PRELOAD]\"", NULL), 0);
	ck_assert_str_eq(out, "[]\n");
	ck_assert_int_ne(access(rig.path, F_OK), 0);
}
END_TEST

START_TEST(mpsrun_refuses_a_broker_of_another_driver)
{
	char out[8192];

	rig_start(NULL);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "--driver=soft", "true",
				NULL, NULL), 125);
	ck_assert_ptr_nonnull(strstr(out, "mpsctl quit"));
	ck_assert_int_eq(mpsrun(out, sizeof(out), "--driver=auto", "true",
				NULL, NULL), 0);
}
END_TEST

START_TEST(a_broker_that_cannot_start_says_why)
{
	char out[8192];

	ck_assert_int_eq(mpsrun(out, sizeof(out), "--driver=/no/such.so",
				"true", NULL, NULL), 125);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_ptr_nonnull(strstr(out, "/no/such.so"));
	/* A file of the right kind that is no driver. */
	ck_assert_int_eq(mpsrun(out, sizeof(out), "--driver=/bin/sh", "true",
				NULL, NULL), 125);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_ptr_nonnull(strstr(out, "no CUDA driver"));
	setenv("MPSSHIM_WORKER", "/no/such/worker", 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "true", NULL, NULL, NULL),
			 125);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_ptr_nonnull(strstr(out, "mpsd-worker"));
}
END_TEST

/* ---- inside a guest -----------------------------------------------------*/

static volatile sig_atomic_t child_signals;

static void
on_child(int signal_number)
{
	(void)signal_number;
	child_signals++;
}

START_TEST(starting_from_inside_a_process_leaves_no_trace)
{
	struct sigaction action = { .sa_handler = on_child };
	char why[512] = "";
	sigset_t before, after;
	int fd, open_before;

	sigaction(SIGCHLD, &action, NULL);
	sigprocmask(SIG_SETMASK, NULL, &before);
	open_before = suite_descriptors();
	fd = shim_broker_connect(why, sizeof(why));
	ck_assert_msg(fd >= 0, "%s", why);
	ck_assert_str_eq(why, "");
	close(fd);
	ck_assert_int_eq(suite_descriptors(), open_before);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	usleep(50000);
	ck_assert_int_eq(child_signals, 0);
	sigprocmask(SIG_SETMASK, NULL, &after);
	for (int i = 1; i < 64; i++)
		ck_assert_int_eq(sigismember(&before, i),
				 sigismember(&after, i));
	signal(SIGCHLD, SIG_DFL);
}
END_TEST

START_TEST(a_started_broker_has_no_preload_and_its_own_session)
{
	char why[512] = "", path[64], env[65536];
	Mps__Control *answer;
	ssize_t n;
	pid_t pid;
	int fd;

	setenv("LD_AUDIT_IS_NOT_LD_PRELOAD", "1", 1);
	setenv("LD_DEBUG_OUTPUT", "/dev/null", 1);
	fd = shim_broker_connect(why, sizeof(why));
	ck_assert_msg(fd >= 0, "%s", why);
	close(fd);
	answer = rig_status();
	pid = answer->status_reply->broker_pid;
	/* Descriptors 0, 1, 2 and what a broker needs: none of ours. */
	ck_assert_uint_le(answer->status_reply->broker_descriptors, 10);
	mps__control__free_unpacked(answer, NULL);
	ck_assert_int_eq(getsid(pid), pid);
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Only root may read it: mpsd is not dumpable. */
	if (fd < 0)
		return;
	n = read(fd, env, sizeof(env));
	close(fd);
	ck_assert_int_gt(n, 0);
	ck_assert_ptr_null(memmem(env, (size_t)n, "LD_DEBUG", 8));
	ck_assert_ptr_nonnull(memmem(env, (size_t)n, "FOREIGN", 7));
}
END_TEST

/* ---- mpsd and mpsctl ----------------------------------------------------*/

START_TEST(mpsctl_without_a_broker_names_the_socket)
{
	static const char *const words[] = { "status", "quit", "ping" };
	char out[8192];

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(mpsctl(out, sizeof(out), words[i], NULL), 1);
		ck_assert_int_eq(count_lines(out), 1);
		ck_assert_ptr_nonnull(strstr(out, rig.path));
	}
	ck_assert_int_eq(mpsctl(out, sizeof(out), "--help", NULL), 0);
}
END_TEST

START_TEST(mpsctl_says_what_it_did_not_understand)
{
	static const char *const wrong[][3] = {
		{ "dance", NULL, "dance" }, { "ping", "--json", "--json" },
		{ "status", "--force", "--force" }, { NULL, NULL, "command" },
		{ "ping", "quit", "quit" }, { "ping", "--frob", "--frob" },
	};
	char out[8192];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		ck_assert_int_eq(mpsctl(out, sizeof(out), wrong[i][0],
					wrong[i][1]), 2);
		ck_assert_ptr_nonnull(strstr(out, wrong[i][2]));
		ck_assert_int_le(count_lines(out), 2);
	}
}
END_TEST

/* A heading is a word in capitals, or the first of an indented line. */
START_TEST(mpsctl_help_explains_what_status_shows)
{
	char out[8192], help[8192], *rest, *line, *words;
	struct rig_client client;
	bool heads = false;
	int explained = 0;

	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	ck_assert_uint_eq(rig_attach(&client), 0);
	ck_assert_int_eq(mpsctl(help, sizeof(help), "--help", NULL), 0);
	ck_assert_int_eq(mpsctl(out, sizeof(out), "status", NULL), 0);
	for (rest = out; !heads && (line = strsep(&rest, "\n"));) {
		bool indented = !strncmp(line, "  ", 2) && line[2] != ' ';
		char *word;

		heads = strstr(line, " LAUNCHES ") != NULL;
		word = strtok_r(line, " ", &words);
		for (; word && (heads || indented); indented = false) {
			ck_assert_msg(strstr(help, word) != NULL, "%s", word);
			explained++;
			word = strtok_r(NULL, " ", &words);
		}
	}
	ck_assert_int_ge(explained, 14);
	rig_leave(&client);
}
END_TEST

START_TEST(mpsctl_shows_clients)
{
	struct rig_client client;
	char out[8192];

	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, "a \"job\""), 0);
	ck_assert_uint_eq(rig_attach(&client), 0);
	ck_assert_int_eq(mpsctl(out, sizeof(out), "status", NULL), 0);
	ck_assert_ptr_nonnull(strstr(out, "fake device"));
	ck_assert_ptr_nonnull(strstr(out, "a \"job\""));
	ck_assert_ptr_nonnull(strstr(out, " check"));
	ck_assert_ptr_nonnull(strstr(out, "overlap  not measured"));
	ck_assert_int_eq(mpsctl(out, sizeof(out), "status", "--json"), 0);
	ck_assert_ptr_nonnull(strstr(out, "\"job\": \"a \\\"job\\\"\""));
	ck_assert_ptr_nonnull(strstr(out, "\"modules\": 7"));
	ck_assert_ptr_nonnull(strstr(out, "\"overlap_known\": false"));
	ck_assert_int_eq(out[0], '{');
	ck_assert_int_eq(mpsctl(out, sizeof(out), "ping", NULL), 0);
	ck_assert_ptr_nonnull(strstr(out, rig.self));
	rig_leave(&client);
}
END_TEST

/* mpsctl quit that waits; that it does it says when the broker has heard. */
static pid_t
begin_quit(void)
{
	char program[5000], byte;
	pid_t pid;
	int fds[2];

	snprintf(program, sizeof(program), "%s/mpsctl", rig.bin);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 2);
		execl(program, "mpsctl", "quit", NULL);
		_exit(9);
	}
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
	return pid;
}

static bool
drains(const Mps__StatusReply *status)
{
	return status->draining;
}

static bool
drains_no_more(const Mps__StatusReply *status)
{
	return !status->draining;
}

START_TEST(quit_that_is_interrupted_is_taken_back)
{
	struct rig_client client, late;
	pid_t first, second;
	char out[8192];
	int status;

	rig_start(NULL);
	rig_join(&client);
	first = begin_quit();
	second = begin_quit();
	/* One that still waits is enough. */
	kill(first, SIGINT);
	ck_assert_int_eq(waitpid(first, &status, 0), first);
	ck_assert(WIFSIGNALED(status));
	rig_wait(drains);
	ck_assert_uint_eq(rig_hello(&late, ""), 807);
	rig_leave(&late);
	kill(second, SIGKILL);
	ck_assert_int_eq(waitpid(second, &status, 0), second);
	rig_wait(drains_no_more);
	ck_assert_uint_eq(rig_hello(&late, ""), 0);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "true", NULL, NULL, NULL),
			 0);
	/* Nobody's going ends it now. */
	rig_leave(&late);
	rig_leave(&client);
	ck_assert_int_eq(mpsctl(out, sizeof(out), "ping", NULL), 0);
}
END_TEST

START_TEST(quit_waits_for_clients_and_lets_no_new_ones_in)
{
	char out[8192], program[5000];
	struct rig_client client, late;
	uint32_t refused;
	int status;
	pid_t pid;

	rig_start(NULL);
	rig_join(&client);
	snprintf(program, sizeof(program), "%s/mpsctl", rig.bin);
	pid = fork();
	if (!pid) {
		/* Its socket must not become its stderr. */
		close(2);
		execl(program, "mpsctl", "quit", NULL);
		_exit(9);
	}
	/* Until the question has come to the broker. */
	while ((refused = rig_hello(&late, "")) == 0)
		rig_leave(&late);
	rig_leave(&late);
	ck_assert_uint_eq(refused, 807);
	ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
	/* mpsrun waits for its end for a while, then says so. */
	ck_assert_int_eq(mpsrun(out, sizeof(out), "true", NULL, NULL, NULL),
			 125);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_ptr_nonnull(strstr(out, "shutting down"));
	ck_assert_ptr_nonnull(strstr(out, "quit --force"));
	ck_assert_int_eq(mpsctl(out, sizeof(out), "status", NULL), 0);
	ck_assert_ptr_nonnull(strstr(out, "takes no new programs"));
	/* The one who is there is served. */
	ck_assert_uint_eq(rig_offer(&client, false, 1, &client.id,
				    &client.generation), 0);
	rig_leave(&client);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(waitpid(rig.mpsd, &status, 0), rig.mpsd);
	ck_assert_int_eq(status, 0);
	rig.mpsd = 0;
	ck_assert_int_eq(mpsctl(out, sizeof(out), "ping", NULL), 1);
}
END_TEST

START_TEST(quit_by_force_ends_clients)
{
	struct rig_client client;
	char out[8192];
	int status;

	rig_start(NULL);
	rig_join(&client);
	ck_assert_int_eq(mpsctl(out, sizeof(out), "quit", "--force"), 0);
	rig_expect_end(client.fd);
	rig_leave(&client);
	ck_assert_int_eq(waitpid(rig.mpsd, &status, 0), rig.mpsd);
	ck_assert_int_eq(status, 0);
	rig.mpsd = 0;
}
END_TEST

START_TEST(an_idle_broker_ends)
{
	int status, fd;

	rig_start("--idle=1");
	/* Whoever is connected keeps it. */
	fd = rig_connect();
	usleep(1300000);
	mps__control__free_unpacked(rig_status(), NULL);
	close(fd);
	ck_assert_int_eq(waitpid(rig.mpsd, &status, 0), rig.mpsd);
	ck_assert_int_eq(status, 0);
	rig.mpsd = 0;
}
END_TEST

/* Bytes of a file, -1: there is none. */
static long
size_of(const char *name)
{
	char path[sizeof(rig.dir) + 32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", rig.dir, name);
	return stat(path, &st) ? -1 : (long)st.st_size;
}

START_TEST(a_long_log_begins_anew)
{
	char path[sizeof(rig.dir) + 32];
	int fd;

	snprintf(path, sizeof(path), "%s/mpsd.log", rig.dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, 7 << 20), 0);
	rig_start(NULL);
	ck_assert_int_ge(size_of("mpsd.log"), 7 << 20);
	rig_stop();
	ck_assert_int_eq(ftruncate(fd, 8 << 20), 0);
	close(fd);
	rig_start(NULL);
	ck_assert_int_ge(size_of("mpsd.log.1"), 8 << 20);
	ck_assert_int_lt(size_of("mpsd.log"), 1 << 20);
	rig_stop();
	/* Or at what the user says. */
	setenv("MPSSHIM_LOG_MB", "1", 1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
	close(fd);
	rig_start(NULL);
	unsetenv("MPSSHIM_LOG_MB");
	ck_assert_int_ge(size_of("mpsd.log.1"), 1 << 20);
	ck_assert_int_lt(size_of("mpsd.log.1"), 2 << 20);
	ck_assert_int_lt(size_of("mpsd.log"), 1 << 20);
}
END_TEST

START_TEST(a_second_broker_in_the_directory_is_refused)
{
	pid_t first;

	rig_start(NULL);
	first = rig.mpsd;
	ck_assert_int_eq(rig_try_start(NULL), 1);
	rig.mpsd = first;
	mps__control__free_unpacked(rig_status(), NULL);
}
END_TEST

START_TEST(a_dead_broker_s_socket_is_replaced)
{
	int status;

	rig_start(NULL);
	kill(rig.mpsd, SIGKILL);
	ck_assert_int_eq(waitpid(rig.mpsd, &status, 0), rig.mpsd);
	ck_assert_int_eq(access(rig.path, F_OK), 0);
	rig_start(NULL);
	mps__control__free_unpacked(rig_status(), NULL);
}
END_TEST

START_TEST(mpsd_goes_to_the_background_when_it_listens)
{
	const char *const argv[] = { "mpsd", NULL };
	char out[1024];

	ck_assert_int_eq(rig_run(out, sizeof(out), argv), 0);
	ck_assert_str_eq(out, "");
	mps__control__free_unpacked(rig_status(), NULL);
	ck_assert_int_eq(rig_run(out, sizeof(out), argv), 1);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_ptr_nonnull(strstr(out, "another broker"));
}
END_TEST

#ifndef MPSSHIM_SANITIZED
START_TEST(a_file_size_limit_costs_memory_not_the_broker)
{
	struct rig_client client;

	/* The log cannot be written either. */
	rig.limit = "ulimit -f 0";
	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	ck_assert_uint_eq(rig_attach(&client), 2);
	rig_leave(&client);
}
END_TEST
#endif

START_TEST(out_of_descriptors_the_broker_waits_for_some)
{
	struct rig_client client;
	int fds[64];

	rig.limit = "ulimit -n 32";
	rig_start(NULL);
	for (int i = 0; i < 64; i++)
		fds[i] = rig_connect();
	usleep(100000);
	for (int i = 0; i < 64; i++)
		close(fds[i]);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	rig_leave(&client);
}
END_TEST

START_TEST(a_directory_of_somebody_else_is_refused)
{
	char dir[128], out[8192];

	if (geteuid())
		return;
	snprintf(dir, sizeof(dir), "%s/foreign", rig.dir);
	ck_assert_int_eq(mkdir(dir, 0755), 0);
	ck_assert_int_eq(chown(dir, 1, 1), 0);
	setenv("CUDA_MPS_PIPE_DIRECTORY", dir, 1);
	ck_assert_int_eq(mpsrun(out, sizeof(out), "true", NULL, NULL, NULL),
			 125);
	ck_assert_int_eq(count_lines(out), 1);
	ck_assert_ptr_nonnull(strstr(out, dir));
}
END_TEST

START_TEST(another_user_is_refused)
{
	struct rig_client client;
	int status;
	pid_t pid;

	if (geteuid())
		return;
	rig_start(NULL);
	ck_assert_int_eq(chmod(rig.dir, 0755), 0);
	ck_assert_int_eq(chmod(rig.path, 0666), 0);
	pid = fork();
	if (!pid) {
		ck_assert_int_eq(setuid(1), 0);
		_exit(rig_hello(&client, "") == 800 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		mpsrun_gives_the_command_s_exit_status,
		a_driver_that_is_no_library_is_our_failure,
		a_preloaded_program_gets_a_code_where_no_broker_starts,
		relative_paths_are_meant_from_where_mpsrun_is_started,
		every_program_says_which_release_it_is,
		mpsrun_says_what_it_uses,
		mpsrun_sets_each_variable_once_however_nested,
		mpsrun_keeps_process_signals_and_descriptors,
		mpsrun_leaves_no_descriptor_with_the_broker,
		thirty_two_simultaneous_starts_make_one_broker,
		a_path_of_108_bytes_is_refused_in_one_line,
		mpsrun_without_a_broker_does_as_it_is_told,
		mpsrun_refuses_a_broker_of_another_driver,
		a_broker_that_cannot_start_says_why,
		starting_from_inside_a_process_leaves_no_trace,
		a_started_broker_has_no_preload_and_its_own_session,
		mpsctl_without_a_broker_names_the_socket,
		mpsctl_says_what_it_did_not_understand,
		mpsctl_help_explains_what_status_shows,
		mpsctl_shows_clients,
		quit_that_is_interrupted_is_taken_back,
		quit_waits_for_clients_and_lets_no_new_ones_in,
		quit_by_force_ends_clients,
		an_idle_broker_ends,
		a_long_log_begins_anew,
		a_second_broker_in_the_directory_is_refused,
		a_dead_broker_s_socket_is_replaced,
		mpsd_goes_to_the_background_when_it_listens,
#ifndef MPSSHIM_SANITIZED
		/* ThreadSanitizer's own shadow is a file. */
		a_file_size_limit_costs_memory_not_the_broker,
#endif
		out_of_descriptors_the_broker_waits_for_some,
		a_directory_of_somebody_else_is_refused,
		another_user_is_refused,
	};

	if (argc > 1 && !strcmp(argv[1], "--driver"))
		return fake_worker_main();
	return suite_run("mpsrun", tests, sizeof(tests) / sizeof(*tests),
			 setup, teardown);
}
