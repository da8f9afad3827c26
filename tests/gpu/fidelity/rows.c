/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a group: finds functions, prints rows, skips those that an
 * earlier process of the same group has printed.
 *
 * A row is written in two parts, its name before the call and its answer after
 * it, so that who reads knows in which row the driver died.
 */
#include "tests/gpu/fidelity/rows.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/gpu/fidelity/group.h"

enum {
	SLOTS = 4,
	SLOT_BYTES = 512,
	UNTOUCHED = 0xa5,
};

const char row_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .u32 counter;\n"
	".visible .const .align 4 .u32 table[4];\n"
	".visible .entry none()\n{ ret; }\n"
	".visible .entry two(.param .u64 a, .param .u32 b)\n{ ret; }\n"
	".visible .entry bound(.param .u32 b) .maxntid 256,1,1\n{ ret; }\n"
	".visible .entry store(.param .u64 a, .param .u32 b)\n"
	"{ .reg .u64 q; .reg .u32 r; ld.param.u64 q,[a]; ld.param.u32 r,[b];"
	" st.global.u32 [q], r; ret; }\n"
	".visible .entry trap()\n{ trap; ret; }\n";

unsigned char row_zeros[65536];

static struct {
	void *library;
	unsigned int skip;	/* rows that are printed already */
	void (*after)(void);
	unsigned char slot[SLOTS][SLOT_BYTES] __attribute__((aligned(64)));
	int kind[SLOTS];	/* -1: not named by this row */
	bool poisoned;		/* the context is lost */
	bool stays;		/* the group goes on all the same */
	CUmodule module;
} row;

/* One write: lines of a process that dies are whole or not there. */
static void __attribute__((format(printf, 1, 2)))
put(const char *format, ...)
{
	char text[2048];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (write(STDOUT_FILENO, text, (size_t)n) != n)
		_exit(4);
}

void
row_start(void *library, unsigned int skip)
{
	row.library = library;
	row.skip = skip;
	row.after = row_after_version;
}

void *
row_look(const char *function)
{
	return dlsym(row.library, function);
}

void *
row_find(const char *function)
{
	void *found = row_look(function);

	if (found == NULL) {
		fprintf(stderr, "the driver has no %s\n", function);
		_exit(3);
	}
	return found;
}

void *
row_begin(const char *function, const char *what)
{
	void *found;

	if (row.skip > 0) {
		row.skip--;
		return NULL;
	}
	put("%s\t%s", function, what);
	found = row_look(function);
	if (found == NULL)
		put("\tabsent\t-\t-\n");
	memset(row.slot, UNTOUCHED, sizeof(row.slot));
	for (int i = 0; i < SLOTS; i++)
		row.kind[i] = -1;
	return found;
}

void *
row_out(int slot, enum out kind)
{
	row.kind[slot] = kind;
	return row.slot[slot];
}

static bool
untouched(const unsigned char *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (at[i] != UNTOUCHED)
			return false;
	return true;
}

static const size_t out_size[] = {
	[OUT_PTR] = sizeof(void *),
	[OUT_I32] = 4,
	[OUT_I64] = 8,
	[OUT_F32] = 4,
	[OUT_SOME] = SLOT_BYTES,
	[OUT_BYTES] = SLOT_BYTES,
};

static void
put_out(const unsigned char *slot, int kind)
{
	size_t written = SLOT_BYTES;
	union {
		void *ptr;
		int32_t i32;
		int64_t i64;
		float f32;
	} value;

	if (untouched(slot, out_size[kind])) {
		put("unchanged");
		return;
	}
	memcpy(&value, slot, sizeof(value));
	switch ((enum out)kind) {
	case OUT_PTR:
		put(value.ptr != NULL ? "nonnull" : "null");
		break;
	case OUT_I32:
		put("%d", value.i32);
		break;
	case OUT_I64:
		put("%lld", (long long)value.i64);
		break;
	case OUT_F32:
		put("%g", (double)value.f32);
		break;
	case OUT_SOME:
		put("changed");
		break;
	case OUT_BYTES:
		while (slot[written - 1] == UNTOUCHED)
			written--;
		put("%zu bytes", written);
		break;
	}
}

void
row_end(CUresult r)
{
	const char *before = "";

	put("\t%d\t", (int)r);
	for (int i = 0; i < SLOTS; i++) {
		if (row.kind[i] < 0)
			continue;
		put("%s", before);
		put_out(row.slot[i], row.kind[i]);
		before = " ";
	}
	put("%s\t", before[0] == '\0' ? "-" : "");
	row.after();
	put("\n");
	/* What comes after it would only say so, too. */
	if (row.poisoned && !row.stays)
		_exit(ROW_POISONED);
}

void
row_stay(void)
{
	row.stays = true;
}

void
row_need(const char *call, int line, CUresult r)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "line %d: %s gives %d\n", line, call, (int)r);
	_exit(3);
}

const char *
row_text(const char *format, ...)
{
	static char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return text;
}

void
row_set_after(void (*after)(void))
{
	row.after = after;
}

void
row_put_after(const char *format, ...)
{
	char text[128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put("%s", text);
}

void
row_after_version(void)
{
	int version;

	put("%d", ((__typeof__(&cuDriverGetVersion))
		   row_find("cuDriverGetVersion"))(&version));
}

void
row_after_current(void)
{
	CUdevice dev;

	put("%d", ((__typeof__(&cuCtxGetDevice))
		   row_find("cuCtxGetDevice"))(&dev));
}

void
row_after_sync(void)
{
	CUresult r = ((__typeof__(&cuCtxSynchronize))
		      row_find("cuCtxSynchronize"))();

	put("%d", r);
	row.poisoned = r != CUDA_SUCCESS;
}

CUcontext
row_context(void)
{
	__typeof__(&cuDevicePrimaryCtxRetain) retain =
		row_find("cuDevicePrimaryCtxRetain");
	CUcontext ctx;
	CUresult r;

	OK(cuInit, 0);
	/* Under mpsrun the group before may have lost the worker, and another
	 * is being started. */
	for (int i = 0; i < 100; i++) {
		r = retain(&ctx, 0);
		if (r != CUDA_ERROR_SYSTEM_NOT_READY)
			break;
		usleep(100000);
	}
	row_need("cuDevicePrimaryCtxRetain", __LINE__, r);
	OK(cuCtxSetCurrent, ctx);
	row.after = row_after_sync;
	return ctx;
}

CUmodule
row_module(void)
{
	if (row.module == NULL)
		OK(cuModuleLoadData, &row.module, row_ptx);
	return row.module;
}

CUfunction
row_kernel(const char *name)
{
	CUfunction f;

	OK(cuModuleGetFunction, &f, row_module(), name);
	return f;
}
