/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpsd-worker: owns the shared context of one device and replays clients'
 * calls in it. Started by the broker with its control socket as descriptor
 * 3; ends when the broker closes that, or when the device faults.
 */
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/worker/batch.h"
#include "server/worker/call.h"
#include "server/worker/compile.h"
#include "server/worker/crash.h"
#include "server/worker/lane.h"
#include "server/worker/overlap.h"
#include "server/worker/risk.h"

static void
usage(FILE *out)
{
	fprintf(out, "usage: mpsd-worker --driver PATH --device N "
		     "[--solo] [--risk-fd N]\n"
		     "       mpsd-worker --compile --driver PATH --device N\n"
		     "Started by mpsd, with its socket as descriptor 3; with\n"
		     "--compile by such a worker, with a file in its place.\n");
}

/* Not a worker, but a process that compiles for one. */
static bool compiles;

static int
read_arguments(int argc, char **argv)
{
	static const struct option options[] = {
		{"driver", required_argument, NULL, 'd'},
		{"device", required_argument, NULL, 'n'},
		{"risk-fd", required_argument, NULL, 'r'},
		{"compile", no_argument, NULL, 'c'},
		{"solo", no_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			wkr.driver_path = optarg;
			break;
		case 'n':
			wkr.ordinal = atoi(optarg);
			break;
		case 'c':
			compiles = true;
			break;
		case 'r':
			if (wkr_risk_open(atoi(optarg)) < 0)
				return -1;
			break;
		case 's':
			wkr.solo = true;
			break;
		case 'h':
			usage(stdout);
			exit(EXIT_SUCCESS);
		default:
			return -1;
		}
	}
	return wkr.driver_path && optind == argc ? 0 : -1;
}

static unsigned
count_cores(void)
{
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = CPU_COUNT(&set);
	return n > 0 ? (unsigned)n : 1;
}

/* MPSSHIM_LANES asks for another number: for measurements and tests. */
static unsigned
lane_count(void)
{
	const char *asked = getenv("MPSSHIM_LANES");
	unsigned n = wkr.cores / 2;

	if (asked && *asked)
		n = (unsigned)strtoul(asked, NULL, 10);
	if (n < 1)
		return 1;
	return n < WKR_LANES_MAX ? n : WKR_LANES_MAX;
}

static int
start_threads(void)
{
	int r = wkr_queue_start(&wkr.helper, "wkr_helper");

	if (r == 0)
		r = wkr_queue_start(&wkr.gate, "wkr_gate");
	if (r == 0)
		r = wkr_queue_start(&wkr.reaper, "wkr_reaper");
	if (r == 0)
		r = wkr_lanes_start(lane_count());
	return r;
}

int
main(int argc, char **argv)
{
	char message[512] = "";
	CUresult status;
	int r;

	log_init("mpsd-worker", LOG_WARN);
	wkr_lap("");
	if (read_arguments(argc, argv) < 0) {
		usage(stderr);
		return EXIT_FAILURE;
	}
	signal(SIGPIPE, SIG_IGN);
	if (compiles)
		wkr_leave(wkr_compile_main());
	wkr.cores = count_cores();
#ifndef MPSSHIM_SANITIZED
	wkr_crash_init();
#endif
	r = wkr_print_init();
	if (r < 0)
		return EXIT_FAILURE;
	status = wkr_start(message, sizeof(message));
	if (status == CUDA_SUCCESS) {
		status = wkr_overlap_start();
		if (status != CUDA_SUCCESS)
			snprintf(message, sizeof(message),
				 "MPSSHIM_OVERLAP: no timing events");
	}
	wkr_batch_start();
	if (status == CUDA_SUCCESS && start_threads() < 0) {
		status = CUDA_ERROR_OUT_OF_MEMORY;
		snprintf(message, sizeof(message),
			 "the worker's threads do "
			 "not start");
	}
	wkr_lap("threads");
	if (wkr_snapshot_send(status, message) < 0 || status != CUDA_SUCCESS)
		wkr_leave(EXIT_FAILURE);
	wkr_lap("snapshot");
	wkr_laps_say();
	r = wkr_control_run();
	wkr_crash_first();
	wkr_leave(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
