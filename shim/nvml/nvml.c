/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvidia-ml.so.1 for where there is no device file: NVIDIA's own then fails
 * at its first call, and some programs (JAX) take that to mean that there is no
 * GPU. This one knows what the broker knows of the devices: how many, which,
 * their names, and which processes have what of their memory. (PyTorch asks for
 * those when memory runs out, and takes no other answer than a list.) All that
 * NVIDIA's driver alone could tell (clocks, links, free memory) answers
 * NVML_ERROR_NOT_SUPPORTED, as it does on devices that have no such thing.
 *
 * mpsrun puts it into a program's path only where NVIDIA's cannot work. It does
 * not touch CUDA, so a process that has asked it may fork and use CUDA then;
 * and as NVML it shows all devices, whatever CUDA_VISIBLE_DEVICES says.
 */
#include "shim/nvml/nvml.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/sock.h"

/* A worker that starts for us takes a second or so. */
#define ANSWER_MS 60000
#define UUID_TEXT 41 /* "GPU-" and 36 characters */

/* No lock: a child of a moment in which another thread has it would never get
 * it. What is known stays: handles point into it. */
static _Atomic(Mps__HelloReply *) known;
static _Atomic unsigned int users;

/* Devices are the addresses of their places in known->devices. */
static Mps__Device *
of_handle(const struct nvml_device *device)
{
	Mps__Device **place = (Mps__Device **)device;
	const Mps__HelloReply *all = known;

	if (!all || place < all->devices ||
	    place >= all->devices + all->n_devices)
		return NULL;
	return *place;
}

/* ---- the broker ---- */

/* The answer to a question; NULL: none, or another. */
static Mps__Control *
ask(int fd, const Mps__Control *question, Mps__Control__BodyCase wanted)
{
	Mps__Control *answer = NULL;

	if (sock_send_control(fd, question, NULL, 0, ANSWER_MS) < 0 ||
	    sock_recv_control(fd, &answer, NULL, NULL, ANSWER_MS) < 0)
		return NULL;
	if (answer->body_case == wanted)
		return answer;
	mps__control__free_unpacked(answer, NULL);
	return NULL;
}

/* A connection to the broker and what it says to a greeting; for a client, it
 * starts a worker if it has not seen the devices yet. */
static int
greet(bool ask_only, Mps__Control **out_answer)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Hello hello = MPS__HELLO__INIT;
	char dir[4096], path[108];
	_cleanup_close_ int fd = -1;

	if (sock_paths(dir, sizeof(dir), path, sizeof(path)) < 0)
		return -1;
	fd = sock_connect(path);
	hello.wire = WIRE_NUMBER;
	hello.exe = (char *)"libnvidia-ml.so.1";
	hello.ask_only = ask_only;
	hello.pid = getpid();
	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &hello;
	if (fd >= 0)
		*out_answer = ask(fd, &question,
				  MPS__CONTROL__BODY_HELLO_REPLY);
	return fd >= 0 && *out_answer ? steal_fd(&fd) : -1;
}

/* The first answer is everybody's. */
static void
publish(Mps__HelloReply *reply)
{
	Mps__HelloReply *none = NULL;

	if (!atomic_compare_exchange_strong(&known, &none, reply))
		mps__hello_reply__free_unpacked(reply, NULL);
}

static void
learn(void)
{
	for (int i = 0; i < 2 && !known; i++) {
		Mps__Control *answer = NULL;
		int fd = greet(i == 0, &answer);

		if (fd < 0)
			return;
		close(fd);
		if (!answer->hello_reply->status &&
		    answer->hello_reply->n_devices) {
			publish(answer->hello_reply);
			answer->body_case = MPS__CONTROL__BODY__NOT_SET;
			answer->hello_reply = NULL;
		}
		mps__control__free_unpacked(answer, NULL);
	}
}

/* Who has what: a StatusReply, or NULL. */
static Mps__Control *
ask_status(void)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer = NULL;
	Mps__Status status = MPS__STATUS__INIT;
	int fd, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	fd = greet(true, &answer);
	if (fd >= 0) {
		mps__control__free_unpacked(answer, NULL);
		question.body_case = MPS__CONTROL__BODY_STATUS;
		question.status = &status;
		answer = ask(fd, &question, MPS__CONTROL__BODY_STATUS_REPLY);
		close(fd);
	}
	pthread_setcancelstate(state, NULL);
	return answer;
}

enum nvml_code
nvmlInit_v2(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	learn();
	pthread_setcancelstate(state, NULL);
	if (!known)
		return NVML_DRIVER_NOT_LOADED;
	users++;
	return NVML_SUCCESS;
}

enum nvml_code
nvmlInit(void)
{
	return nvmlInit_v2();
}

enum nvml_code
nvmlInitWithFlags(unsigned int flags)
{
	/* They allow what we have anyway: no device, or one out of reach. */
	(void)flags;
	return nvmlInit_v2();
}

static bool
is_up(void)
{
	return users > 0;
}

enum nvml_code
nvmlShutdown(void)
{
	unsigned int now = users;

	while (now)
		if (atomic_compare_exchange_weak(&users, &now, now - 1))
			return NVML_SUCCESS;
	return NVML_UNINITIALIZED;
}

enum nvml_code
nvml_refused(void)
{
	return is_up() ? NVML_NOT_SUPPORTED : NVML_UNINITIALIZED;
}

const char *
nvmlErrorString(enum nvml_code code)
{
	switch (code) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_UNINITIALIZED:
		return "Uninitialized";
	case NVML_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_NOT_FOUND:
		return "Not Found";
	case NVML_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	}
	return "Unknown Error";
}

/* ---- the system ---- */

static enum nvml_code
give_text(const char *text, char *out, unsigned int length)
{
	if (!out)
		return NVML_INVALID_ARGUMENT;
	if (strlen(text) >= length)
		return NVML_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

/* "580.159.04": the word of digits and dots in the kernel module's line. */
static bool
read_version(char out[80])
{
	_cleanup_free_ char *line = NULL;
	FILE *file = fopen("/proc/driver/nvidia/version", "re");
	char *word = NULL, *rest = NULL;
	size_t size = 0;

	if (file && getline(&line, &size, file) > 0)
		word = strtok_r(line, " \t\n", &rest);
	if (file)
		fclose(file);
	while (word && (!strchr(word, '.') ||
			strspn(word, "0123456789.") != strlen(word)))
		word = strtok_r(NULL, " \t\n", &rest);
	if (word)
		snprintf(out, 80, "%s", word);
	return word;
}

enum nvml_code
nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	char text[80];

	if (!is_up())
		return NVML_UNINITIALIZED;
	return read_version(text) ? give_text(text, version, length)
				  : NVML_NOT_SUPPORTED;
}

enum nvml_code
nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	if (!is_up())
		return NVML_UNINITIALIZED;
	if (!version)
		return NVML_INVALID_ARGUMENT;
	*version = (int)known->driver_version;
	return NVML_SUCCESS;
}

enum nvml_code
nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

/* ---- devices ---- */

enum nvml_code
nvmlDeviceGetCount_v2(unsigned int *count)
{
	if (!is_up())
		return NVML_UNINITIALIZED;
	if (!count)
		return NVML_INVALID_ARGUMENT;
	*count = (unsigned int)known->n_devices;
	return NVML_SUCCESS;
}

enum nvml_code
nvmlDeviceGetCount(unsigned int *count)
{
	return nvmlDeviceGetCount_v2(count);
}

/* The first that is the one. */
static enum nvml_code
find(bool (*is)(size_t index, const void *what), const void *what,
     struct nvml_device **out)
{
	if (!is_up())
		return NVML_UNINITIALIZED;
	if (!what || !out)
		return NVML_INVALID_ARGUMENT;
	for (size_t i = 0; i < known->n_devices; i++) {
		if (is(i, what)) {
			*out = (struct nvml_device *)&known->devices[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_NOT_FOUND;
}

static bool
has_index(size_t index, const void *what)
{
	return index == *(const unsigned int *)what;
}

enum nvml_code
nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct nvml_device **device)
{
	enum nvml_code code = find(has_index, &index, device);

	return code == NVML_NOT_FOUND ? NVML_INVALID_ARGUMENT : code;
}

enum nvml_code
nvmlDeviceGetHandleByIndex(unsigned int index, struct nvml_device **device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* The domain has four digits or eight, in small letters or large ones. */
static bool
has_bus_id(size_t index, const void *what)
{
	unsigned int a[3], b[3];

	return sscanf(what, "%x:%x:%x", &a[0], &a[1], &a[2]) == 3 &&
	       sscanf(known->devices[index]->pci_bus_id, "%x:%x:%x", &b[0],
		      &b[1], &b[2]) == 3 && !memcmp(a, b, sizeof(a));
}

enum nvml_code
nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct nvml_device **device)
{
	return find(has_bus_id, id, device);
}

enum nvml_code
nvmlDeviceGetHandleByPciBusId(const char *id, struct nvml_device **device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

static void
name_uuid(const Mps__Device *d, char out[UUID_TEXT])
{
	char *at = out + sprintf(out, "GPU-");

	for (size_t i = 0; i < 16 && i < d->uuid.len; i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 ||
			      i == 10 ? "-" : "", d->uuid.data[i]);
}

static bool
has_uuid(size_t index, const void *what)
{
	char text[UUID_TEXT];

	name_uuid(known->devices[index], text);
	return !strcmp(text, what);
}

enum nvml_code
nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **device)
{
	return find(has_uuid, uuid, device);
}

/* The device, if all that a question needs is there. */
static enum nvml_code
open_device(const struct nvml_device *device, const void *out,
	    Mps__Device **out_device)
{
	if (!is_up())
		return NVML_UNINITIALIZED;
	*out_device = of_handle(device);
	return *out_device && out ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

enum nvml_code
nvmlDeviceGetIndex(struct nvml_device *device, unsigned int *index)
{
	Mps__Device *d;
	enum nvml_code code = open_device(device, index, &d);

	if (code == NVML_SUCCESS)
		*index = (unsigned int)((Mps__Device **)device -
					known->devices);
	return code;
}

enum nvml_code
nvmlDeviceGetName(struct nvml_device *device, char *name, unsigned int length)
{
	Mps__Device *d;
	enum nvml_code code = open_device(device, name, &d);

	return code == NVML_SUCCESS ? give_text(d->name, name, length) : code;
}

enum nvml_code
nvmlDeviceGetUUID(struct nvml_device *device, char *uuid, unsigned int length)
{
	char text[UUID_TEXT];
	Mps__Device *d;
	enum nvml_code code = open_device(device, uuid, &d);

	if (code != NVML_SUCCESS)
		return code;
	name_uuid(d, text);
	return give_text(text, uuid, length);
}

static int
attribute(const Mps__Device *d, CUdevice_attribute id)
{
	for (size_t i = 0; i < d->n_attributes; i++)
		if (d->attributes[i]->id == (int)id)
			return (int)d->attributes[i]->value;
	return 0;
}

enum nvml_code
nvmlDeviceGetCudaComputeCapability(struct nvml_device *device, int *major,
				   int *minor)
{
	Mps__Device *d;
	enum nvml_code code = open_device(device, major, &d);

	if (code != NVML_SUCCESS || !minor)
		return code != NVML_SUCCESS ? code : NVML_INVALID_ARGUMENT;
	*major = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	*minor = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	return NVML_SUCCESS;
}

/* ---- processes ---- */

/* What each version of the function is given room for. */
struct process {
	unsigned int pid;
	unsigned long long bytes;
};
struct process_v2 {
	unsigned int pid;
	unsigned long long bytes;
	unsigned int gpu_instance, compute_instance;
};
#define NO_INSTANCE 0xffffffffu

static void
put_process(void *out, unsigned int at, bool v2, const Mps__ClientStat *c)
{
	if (v2)
		((struct process_v2 *)out)[at] = (struct process_v2){
			(unsigned int)c->pid, c->device_bytes, NO_INSTANCE,
			NO_INSTANCE,
		};
	else
		((struct process *)out)[at] = (struct process){
			(unsigned int)c->pid, c->device_bytes,
		};
}

/* Clients of the broker that are on the device; count: room, then how many. */
static enum nvml_code
list_processes(struct nvml_device *device, unsigned int *count, void *out,
	       bool v2)
{
	unsigned int room, n = 0;
	Mps__Control *answer;
	Mps__Device *d;
	enum nvml_code code = open_device(device, count, &d);

	if (code != NVML_SUCCESS)
		return code;
	if (*count && !out)
		return NVML_INVALID_ARGUMENT;
	answer = ask_status();
	if (!answer)
		return NVML_DRIVER_NOT_LOADED;
	room = *count;
	for (size_t i = 0; i < answer->status_reply->n_clients; i++) {
		const Mps__ClientStat *c = answer->status_reply->clients[i];

		if (c->device != d->ordinal)
			continue;
		if (n < room)
			put_process(out, n, v2, c);
		n++;
	}
	mps__control__free_unpacked(answer, NULL);
	*count = n;
	return n > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

enum nvml_code
nvmlDeviceGetComputeRunningProcesses(struct nvml_device *device,
				     unsigned int *count, void *processes)
{
	return list_processes(device, count, processes, false);
}

enum nvml_code
nvmlDeviceGetComputeRunningProcesses_v2(struct nvml_device *device,
					unsigned int *count, void *processes)
{
	return list_processes(device, count, processes, true);
}

enum nvml_code
nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device,
					unsigned int *count, void *processes)
{
	return list_processes(device, count, processes, true);
}
