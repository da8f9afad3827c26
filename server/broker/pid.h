/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file with our process id, for scripts. It may lie where others write.
 * Used by main.c and broker.c.
 */
#ifndef BROKER_PID_H
#define BROKER_PID_H

/* Neither follows a link, writes to what is no file of ours, or waits. Without
 * a path they do nothing. */
/* Fails if nothing is there and nothing can be made; of what is there and is
 * no file of ours it warns. */
int brk_pid_write(const char *path);
/* If it is still ours: another broker may have been given the same name. */
void brk_pid_remove(const char *path);

#endif
