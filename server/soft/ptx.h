/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX front end and executor of the software device.
 * Called by the driver side (server/soft/soft_*.c) and by tests/ptx only.
 *
 * The front end turns PTX text into a module of kernels, device functions
 * and symbols. The driver side gives every symbol an address, links, and
 * runs grids through ptx_grid_work() on as many threads as it likes.
 * Device addresses are host addresses of this process: the driver side maps
 * memory where the client's address plan says, so a global access is a
 * bounds check and a dereference. Generic addresses from 4 GiB to 20 GiB are
 * windows onto shared, local and parameter memory and functions; the driver
 * side maps no device memory below 20 GiB.
 */
#ifndef SERVER_SOFT_PTX_H
#define SERVER_SOFT_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Highest .version and .target that are accepted (PTX ISA 9.0, sm_90). */
#define PTX_ISA_MAX_MAJOR 9
#define PTX_ISA_MAX_MINOR 0
#define PTX_TARGET_MAX 90

enum {
	PTX_E_SYNTAX = 1,   /* CUDA_ERROR_INVALID_PTX */
	PTX_E_VERSION,      /* CUDA_ERROR_UNSUPPORTED_PTX_VERSION */
	PTX_E_TARGET,       /* .target above sm_90: CUDA_ERROR_INVALID_PTX */
	PTX_E_UNSUPPORTED,  /* an instruction or directive we do not execute;
			     * the log names it with its line */
};

enum ptx_space {
	PTX_SPACE_GLOBAL,
	PTX_SPACE_CONST,
	PTX_SPACE_SHARED,
	PTX_SPACE_LOCAL,
	PTX_SPACE_PARAM,
	PTX_SPACE_GENERIC,
};

/* A .global or .const variable of the module. */
struct ptx_symbol {
	const char *name;
	enum ptx_space space;     /* GLOBAL or CONST */
	size_t size;              /* bytes */
	size_t align;
	bool managed;             /* .attribute(.managed) */
	bool is_texref;           /* .texref/.surfref/.samplerref */
	uint64_t addr;            /* set by ptx_module_place() */
};

struct ptx_param {
	size_t offset;            /* bytes from the start of the block */
	size_t size;
	size_t align;
};

struct ptx_kernel {
	const char *name;
	const struct ptx_param *params;
	unsigned nparams;
	size_t param_size;        /* bytes of the whole parameter block */
	size_t shared_static;     /* bytes */
	size_t local_bytes;       /* bytes a thread */
	size_t const_bytes;
	unsigned regs;            /* an estimate: live registers */
	unsigned max_threads;     /* .maxntid product, 1024 without */
	unsigned req_ntid[3];     /* .reqntid, zeros without */
	unsigned req_cluster[3];  /* .reqnctapercluster, zeros without */
	bool uses_printf, uses_assert, uses_heap, uses_grid_sync;
	unsigned ptx_version;     /* 90 for .version 9.0 */
	unsigned target;          /* 75 for sm_75 */
	struct ptx_module *module;
	const struct ptx_func *func;  /* the executor's own */
};

/*
 * Parse PTX text of size bytes (a terminating NUL may be included).
 * Messages go to log (NUL-terminated, cut at log_size; log may be NULL).
 * Returns 0, PTX_E_*, or -ENOMEM. The text is not kept.
 */
int ptx_module_parse(struct ptx_module **out_module, const char *text,
		     size_t size, char *log, size_t log_size);
struct ptx_module *ptx_module_free(struct ptx_module *module);

size_t ptx_module_kernel_count(const struct ptx_module *module);
const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module,
					   size_t index);
size_t ptx_module_symbol_count(const struct ptx_module *module);
const struct ptx_symbol *ptx_module_symbol(const struct ptx_module *module,
					   size_t index);

/*
 * Give symbol `index` the writable host memory of symbol->size bytes at
 * addr (device address == host address). All symbols are placed before
 * ptx_module_link(), which writes initial values and resolves addresses of
 * variables and functions that initialisers and code mention.
 */
void ptx_module_place(struct ptx_module *module, size_t index, uint64_t addr);
/* Returns 0, or PTX_E_SYNTAX with the unresolved name in log. */
int ptx_module_link(struct ptx_module *module, char *log, size_t log_size);

/* Why a grid ended early. Each maps to one CUresult. */
enum ptx_fault {
	PTX_FAULT_NONE,
	PTX_FAULT_ADDRESS,        /* CUDA_ERROR_ILLEGAL_ADDRESS 700 */
	PTX_FAULT_MISALIGNED,     /* CUDA_ERROR_MISALIGNED_ADDRESS 716 */
	PTX_FAULT_SPACE,          /* CUDA_ERROR_INVALID_ADDRESS_SPACE 717 */
	PTX_FAULT_TRAP,           /* CUDA_ERROR_LAUNCH_FAILED 719 */
	PTX_FAULT_ASSERT,         /* CUDA_ERROR_ASSERT 710 */
	PTX_FAULT_ILLEGAL_INSTR,  /* CUDA_ERROR_ILLEGAL_INSTRUCTION 715 */
	PTX_FAULT_PC,             /* CUDA_ERROR_INVALID_PC 718 */
	PTX_FAULT_STACK,          /* CUDA_ERROR_HARDWARE_STACK_ERROR 714 */
};

/* What the executor asks of the driver side. All may be called from any
 * thread that is inside ptx_grid_work(). */
struct ptx_env {
	void *ctx;
	/*
	 * The mapped range that holds addr: writes [*out_base, *out_end) and
	 * returns true, or false when nothing is mapped there. The executor
	 * caches the last few ranges per thread and drops them whenever
	 * *generation changed.
	 */
	bool (*range)(void *ctx, uint64_t addr, uint64_t *out_base,
		      uint64_t *out_end, bool *out_writable);
	const _Atomic uint64_t *generation;
	/* Device printf: the formatted text, already expanded. */
	void (*print)(void *ctx, const char *text, size_t size);
	/* The line of a failed assertion. */
	void (*complain)(void *ctx, const char *text, size_t size);
	/* Device heap. NULL when exhausted. */
	uint64_t (*heap_alloc)(void *ctx, size_t size);
	void (*heap_free)(void *ctx, uint64_t addr);
	/* cudaGraphSetConditional. False: no such condition
	 * (PTX_FAULT_ADDRESS). */
	bool (*condition)(void *ctx, uint64_t handle, uint32_t value);
	/*
	 * Texture fetch for texture object `tex`. geom 1, 2, 3 dimensions
	 * (tex.1d/2d/3d); coordinates as f32 bits or s32 by is_float;
	 * out is four 32-bit words. Returns false: no such object
	 * (PTX_FAULT_ADDRESS).
	 */
	bool (*texture)(void *ctx, uint64_t tex, int geom, bool is_float,
			const uint32_t coord[4], float lod,
			uint32_t out[4]);
	/* Surface load and store; bytes 1, 2, 4, 8, 16; x in bytes; clamp
	 * mode 0 trap, 1 clamp, 2 zero. False: PTX_FAULT_ADDRESS. */
	bool (*surface)(void *ctx, uint64_t surf, int geom, bool is_store,
			const int32_t coord[4], int clamp, unsigned bytes,
			void *data);
	unsigned sms;             /* %nsmid */
	uint64_t clock_hz;        /* rate of %clock64, 1.98e9 on an H200 */
};

/* Blocks of a cluster, where the function allows more than eight. */
#define PTX_CLUSTER_MAX 16u

struct ptx_launch {
	const struct ptx_kernel *kernel;
	const struct ptx_env *env;  /* outlives the grid */
	unsigned grid[3], block[3], cluster[3];  /* cluster 1,1,1: none */
	size_t dyn_shared;        /* bytes */
	const void *params;       /* param_size bytes, copied */
	uint64_t grid_id;         /* %gridid */
	bool cooperative;         /* all blocks are live at once */
	unsigned sms;             /* it may use, 0: all of env's */
	const uint16_t *sm_number;  /* theirs, NULL: from 0; outlives the
				     * grid */
};

/* A grid under execution. */
struct ptx_grid;

int ptx_grid_create(struct ptx_grid **out_grid, const struct ptx_launch *l);

enum ptx_work {
	PTX_WORK_MORE,    /* there may be more for this thread: call again */
	PTX_WORK_BUSY,    /* nothing left to take, others still run blocks */
	PTX_WORK_DONE,    /* the whole grid has ended; exactly one caller
			   * gets this answer */
};
/*
 * Execute blocks of the grid on the calling thread until about budget_ns
 * have passed or nothing is left to take. Any number of threads may be
 * inside at once. A block that does not end within the budget is kept and
 * taken up again by a later call of any thread, so a spinning block never
 * holds a pool thread, and blocks of a grid progress independently of each
 * other (a block that waits for another one's store gets there).
 */
enum ptx_work ptx_grid_work(struct ptx_grid *grid, uint64_t budget_ns);
/* After PTX_WORK_DONE. The detail (what and where, one line) lives as long
 * as the grid. */
enum ptx_fault ptx_grid_fault(const struct ptx_grid *grid,
			      const char **out_detail);
/* Ask running threads to stop soon (process teardown). */
void ptx_grid_cancel(struct ptx_grid *grid);
struct ptx_grid *ptx_grid_free(struct ptx_grid *grid);

#endif
