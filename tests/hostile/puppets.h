/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients on strings (puppet.c) and their broker, for tests in rows.
 * Used by faults.c and solo.c.
 */
#ifndef TESTS_HOSTILE_PUPPETS_H
#define TESTS_HOSTILE_PUPPETS_H

#include <stdbool.h>
#include <sys/types.h>

#define PUPPETS 8

struct puppet {
	pid_t pid;
	int to, from;
	char asked[64];         /* the last command */
	char said[2048];        /* answer to it */
	char errors[128];       /* file */
};

extern struct puppet puppets[PUPPETS];
/* The row has failed (set by complain()), or cannot be tried here. */
extern bool row_failed, row_skipped;

double now_ms(void);
void nap(double ms);
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

void start(struct puppet *p);
void tell(struct puppet *p, const char *command);
/* One line, without its end. Without an answer in time the row ends. */
const char *hear(struct puppet *p);
const char *ask(struct puppet *p, const char *command);
bool says(const char *answer, const char *begin);
void expect(struct puppet *p, const char *command, const char *begin);
/* Kill it. */
void end(struct puppet *p);
/* Start and have them make what puppet.c says. */
void make(int from, int to);
/* What it wrote to stderr: nothing; one line with that in it. */
void expect_quiet(struct puppet *p);
void expect_error(struct puppet *p, const char *part);
const char *read_file(const char *path);

/* A broker of its own for what is started from now on. */
void fresh(void);
void expect_log(const char *part);
/* mpsctl status --json. */
const char *status(void);
/* The number behind the first such key at or behind `from`; -1: none. */
long number(const char *text, const char *from, const char *key);
/* The first worker, waited for. */
pid_t worker(void);
void kill_worker(void);
/* Is it the software device that they run on? */
bool is_software(void);
/* That no other run of such a program has. */
const char *unique_name(void);
/* All puppets and the broker end. */
void quit(void);

/*
 * A folder of ours, the arguments BIN PUPPET: whether that could be. ROWS=3,5
 * in the environment: these rows only. A row that gets no answer in ROW_S
 * seconds (30) fails and shows what broker and worker are doing.
 */
bool begin_rows(const char *bin_folder, const char *puppet);
void row(const char *name, void (*body)(unsigned rounds), unsigned rounds);
/* The last line; what main returns. */
int end_rows(void);

#endif
