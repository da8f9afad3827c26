/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real broker on a socket directory of its own, and clients by hand.
 * Used by the broker's tests. Helpers assert inside, so that a test reads as
 * a story.
 */
#ifndef TESTS_UNIT_BROKER_RIG_H
#define TESTS_UNIT_BROKER_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/channel.h"
#include "proto/sock.h"

struct rig {
	char dir[64], path[108];
	char bin[4096];         /* where the programs are */
	char self[4096];        /* this program: the worker */
	pid_t mpsd;             /* 0: not started by us */
	const char *limit;      /* shell command before mpsd ("ulimit -f 0") */
};
extern struct rig rig;

/* A client of the broker; everything is -1 or 0 until it is there. */
struct rig_client {
	int fd;
	uint64_t id, generation;
	int data, channel, staging;
};

/* Fixture. rig_init() starts no broker. */
void rig_init(void);
void rig_fini(void);
/* Start mpsd with one more argument, or NULL. */
void rig_start(const char *argument);
/* The same without asserting: its exit status, or -1 when it is ready. */
int rig_try_start(const char *argument);
/* Ask it to end and check that it ends well. */
void rig_stop(void);

/* Run a program of the build with arguments ("mpsctl", "status"). Its exit
 * status; what it wrote to stdout and stderr, in one, goes to out. */
int rig_run(char *out, size_t size, const char *const *argv);

int rig_connect(void);
/* Send, and receive the answer, which is of that kind; free it. */
Mps__Control *rig_ask(int fd, Mps__Control *question,
		      Mps__Control__BodyCase wanted, int *fds, int *nfds);
/* Ask for something whose answer is Done: its status. */
uint32_t rig_done(int fd, Mps__Control *question);
/* The broker must close fd, whatever it sends before. */
void rig_expect_end(int fd);

/* 0 and a live client, or the status of the refusal. */
uint32_t rig_hello(struct rig_client *client, const char *job);
uint32_t rig_attach(struct rig_client *client);
/* Both, asserted. */
void rig_join(struct rig_client *client);
void rig_leave(struct rig_client *client);

uint32_t rig_ready(const struct rig_client *client,
		   Mps__Ready__What what, uint64_t object, uint32_t status);
/* A piece, accepted. */
uint64_t rig_piece(const struct rig_client *client, bool host, uint64_t size,
		   uint64_t *out_address);
uint32_t rig_offer(const struct rig_client *client, bool host, uint64_t size,
		   uint64_t *out_id, uint64_t *out_address);
uint32_t rig_chunk(const struct rig_client *client, uint64_t piece,
		   uint64_t address, uint64_t size, uint64_t *out_chunk);
uint32_t rig_chunk_free(const struct rig_client *client, uint64_t chunk);
/* Pinned memory, without Ready. */
uint32_t rig_host(const struct rig_client *client, uint64_t piece,
		  uint64_t address, uint64_t size, uint64_t *out_id,
		  int *out_fd);
/* Status of the answer; *out_fd -1: the broker has the image. */
uint32_t rig_image(const struct rig_client *client, const uint8_t hash[32],
		   uint64_t size, int *out_fd);

void rig_hash(const char *text, uint8_t out[32]);
/* Check its size, write the text, close it. */
void rig_fill_image(int fd, const char *text, size_t size);

/* Free with mps__control__free_unpacked(). */
Mps__Control *rig_status(void);
/* Wait until a question answers as it should; fails after 5 s. */
void rig_wait(bool (*holds)(const Mps__StatusReply *status));

#endif
