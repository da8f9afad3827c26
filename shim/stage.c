/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: a bitmap of 4 KiB units and, at each piece's first unit, until
 * when it is used.
 */
#include "shim/stage.h"

#include <stdbool.h>
#include <string.h>

void
shim_stage_init(struct shim_stage *stage)
{
	memset(stage, 0, sizeof(*stage));
	pthread_mutex_init(&stage->lock, NULL);
}

static bool
is_busy(const struct shim_stage *stage, uint32_t unit)
{
	return stage->busy[unit / 64] >> (unit % 64) & 1;
}

static void
set_busy(struct shim_stage *stage, uint32_t first, uint32_t units, bool busy)
{
	for (uint32_t i = first; i < first + units; i++) {
		if (busy)
			stage->busy[i / 64] |= UINT64_C(1) << i % 64;
		else
			stage->busy[i / 64] &= ~(UINT64_C(1) << i % 64);
	}
}

static void
release(struct shim_stage *stage, uint32_t unit)
{
	struct shim_stage_piece *piece = &stage->pieces[unit];

	set_busy(stage, unit, piece->units, false);
	piece->units = 0;
	stage->nbusy--;
}

/* Release what has finished: everything up to `retired`, and what `stream`
 * had posted up to `seq`. */
static void
sweep(struct shim_stage *stage, uint64_t retired, uint64_t stream,
      uint64_t seq)
{
	uint32_t unit = 0;

	while (stage->nbusy && unit < STAGE_UNITS) {
		struct shim_stage_piece *piece = &stage->pieces[unit];
		uint32_t units = piece->units;

		if (units && piece->seq && (piece->seq <= retired ||
		    (piece->stream == stream && piece->seq <= seq)))
			release(stage, unit);
		unit += units ? units : 1;
	}
}

/* The first free unit, or STAGE_UNITS. */
static uint32_t
find_unit(const struct shim_stage *stage)
{
	for (uint32_t i = 0; i < STAGE_UNITS / 64; i++)
		if (stage->busy[i] != UINT64_MAX)
			return i * 64 +
			       (uint32_t)__builtin_ctzll(~stage->busy[i]);
	return STAGE_UNITS;
}

/* First of `units` free units in a row, or STAGE_UNITS. */
static uint32_t
find_run(const struct shim_stage *stage, uint32_t units)
{
	uint32_t run = 0;

	/* Most copies are small. */
	if (units == 1)
		return find_unit(stage);
	for (uint32_t unit = 0; unit < STAGE_UNITS; unit++) {
		if (unit % 64 == 0 && stage->busy[unit / 64] == UINT64_MAX) {
			run = 0;
			unit += 63;
			continue;
		}
		run = is_busy(stage, unit) ? 0 : run + 1;
		if (run == units)
			return unit + 1 - units;
	}
	return STAGE_UNITS;
}

int
shim_stage_take(struct shim_stage *stage, uint32_t size, uint64_t stream,
		uint64_t retired, uint32_t *out_offset)
{
	uint32_t units = (size + STAGE_UNIT - 1) / STAGE_UNIT, unit;

	pthread_mutex_lock(&stage->lock);
	unit = find_run(stage, units);
	if (unit == STAGE_UNITS) {
		sweep(stage, retired, 0, 0);
		unit = find_run(stage, units);
	}
	if (unit != STAGE_UNITS) {
		set_busy(stage, unit, units, true);
		stage->pieces[unit] = (struct shim_stage_piece){
			.stream = stream, .units = (uint16_t)units,
		};
		stage->nbusy++;
	}
	pthread_mutex_unlock(&stage->lock);
	*out_offset = unit * STAGE_UNIT;
	return unit == STAGE_UNITS ? STAGE_E_FULL : 0;
}

void
shim_stage_mark(struct shim_stage *stage, uint32_t offset, uint64_t seq)
{
	pthread_mutex_lock(&stage->lock);
	stage->pieces[offset / STAGE_UNIT].seq = seq;
	pthread_mutex_unlock(&stage->lock);
}

void
shim_stage_drop(struct shim_stage *stage, uint32_t offset)
{
	pthread_mutex_lock(&stage->lock);
	release(stage, offset / STAGE_UNIT);
	pthread_mutex_unlock(&stage->lock);
}

void
shim_stage_finish(struct shim_stage *stage, uint64_t stream, uint64_t seq)
{
	pthread_mutex_lock(&stage->lock);
	sweep(stage, 0, stream, seq);
	pthread_mutex_unlock(&stage->lock);
}
