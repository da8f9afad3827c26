/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a grid, its blocks and warps while it is executed.
 * Private to the executor (server/soft/ptx_*.c).
 *
 * Everything a block needs to go on is in its structures, nothing is on a
 * thread's stack, so that any thread may take a block up where another one
 * left it. Lanes of a warp run together while they share frame and pc;
 * every call makes a frame for the lanes that made it.
 */
#ifndef SERVER_SOFT_PTX_EXEC_H
#define SERVER_SOFT_PTX_EXEC_H

#include "server/soft/ptx_ir.h"

#include <pthread.h>
#include <stdatomic.h>

#define PTX_NBARRIERS 16
#define PTX_RANGES 4
#define PTX_MAX_DEPTH 2048

struct ptx_range {
	uint64_t base, end;
	bool is_writable;
};

/* What belongs to the thread that executes, not to the block. */
struct ptx_thread {
	const struct ptx_env *env;
	uint64_t generation;
	struct ptx_range ranges[PTX_RANGES];
	unsigned next_range;
	struct ptx_range own;     /* the grid's own memory */
};

struct ptx_frame {
	struct ptx_frame *parent;
	struct ptx_frame *next_made;
	const struct ptx_func *func;
	const struct ptx_call *call;
	uint32_t mask;            /* lanes that live in it */
	uint32_t ret_pc;
	unsigned depth;
	uint64_t *regs;
	uint32_t *preds;
	uint8_t *params;          /* func->param_size bytes a lane */
	uint32_t local_base[PTX_LANES], local_saved[PTX_LANES];
};

struct ptx_warp {
	/* the running group */
	uint64_t *regs;
	uint32_t *preds;
	const uint64_t *consts;
	const struct ptx_insn *code;
	uint32_t mask;            /* lanes the instruction acts on */
	uint32_t live;            /* lanes of the group */
	uint32_t pc;              /* next instruction */
	uint32_t stop_pc;         /* others wait there */
	bool stop;                /* leave the instruction loop */
	uint32_t spins;           /* accesses that may be a spin's */
	struct ptx_frame *frame;
	struct ptx_block *block;
	struct ptx_thread *thread;
	/* the lanes that do not run */
	uint32_t exists, exited;
	uint32_t in_sync;         /* parked at a .sync instruction */
	uint32_t in_bar;          /* parked at a barrier */
	uint32_t in_phase;        /* arrived at the cluster barrier */
	uint32_t lane_pc[PTX_LANES];
	struct ptx_frame *lane_frame[PTX_LANES];
	uint32_t sync_members[PTX_LANES];
	const struct ptx_insn *sync_insn[PTX_LANES];
	const struct ptx_insn *bar_insn[PTX_LANES];
	uint8_t bar_id[PTX_LANES];
	uint32_t stamp[PTX_LANES], now;
	bool is_turn_over;        /* let a starving group run */
	uint32_t cc;              /* carry flags */
	unsigned waited;          /* instructions others waited for */
	unsigned index;
	/* local memory: local_cap bytes a lane */
	uint8_t *local;
	uint32_t local_cap;
	uint32_t local_sp[PTX_LANES];
	struct ptx_frame *spare;  /* frames to use again, by parent link */
	struct ptx_frame *made;   /* all frames, to free them */
};

struct ptx_barrier {
	uint32_t expected;        /* 0: every thread of the block */
	uint32_t arrived;
	uint32_t votes, yes;      /* of bar.red */
};

struct ptx_block {
	struct ptx_grid *grid;
	uint32_t id[3];
	uint64_t linear;
	struct ptx_cluster *cluster;
	unsigned rank;            /* in the cluster */
	unsigned nwarps, nthreads, nexited;
	struct ptx_warp *warps;
	uint8_t *shared;
	size_t shared_size;
	struct ptx_barrier bars[PTX_NBARRIERS];
};

/*
 * The unit of scheduling: the blocks of a cluster, one without clusters.
 * One thread at a time executes all of it, so nothing in it is locked.
 */
struct ptx_cluster {
	struct ptx_grid *grid;
	struct ptx_cluster *next;
	unsigned nblocks;
	unsigned arrived;         /* at the cluster barrier */
	struct ptx_block **blocks;
};

enum { PTX_BAR_SYNC, PTX_BAR_ARRIVE, PTX_BAR_POPC, PTX_BAR_AND, PTX_BAR_OR };
/* bar_id of a lane at the cluster barrier */
#define PTX_BAR_CLUSTER PTX_NBARRIERS

struct ptx_grid {
	struct ptx_launch launch;
	struct ptx_kernel kernel;
	const struct ptx_func *func;
	uint8_t *params;
	size_t shared_size;
	unsigned nthreads;        /* a block */
	unsigned cluster_size;    /* blocks */
	uint64_t nunits;          /* clusters */
	/* cooperative groups' workspace; its address is in %envreg1,2 */
	_Alignas(64) uint8_t workspace[64];
	_Atomic bool is_stopping; /* fault or cancel: blocks end early */
	pthread_mutex_t lock;     /* guards everything below */
	uint64_t next_unit, ndone, nlive, max_live;
	struct ptx_cluster *ready_head, *ready_tail, *spare;
	uint64_t nready, turns;   /* turns since a unit was started */
	unsigned nrunning;
	bool is_done_told;
	enum ptx_fault fault;
	char detail[320];
};

static inline const uint64_t *
ptx_in(const struct ptx_warp *w, int32_t slot)
{
	return slot >= 0 ? w->regs + (size_t)slot * PTX_LANES
			 : w->consts + (size_t)~slot * PTX_LANES;
}

static inline uint64_t *
ptx_out(const struct ptx_warp *w, int32_t slot)
{
	return w->regs + (size_t)slot * PTX_LANES;
}

/*
 * Run the body with l = every lane the instruction acts on. The whole warp
 * is a loop of its own so that the compiler can vectorise it.
 */
#define PTX_EACH(w, l, ...) do { \
	if ((w)->mask == ~0u) { \
		for (unsigned l = 0; l < PTX_LANES; l++) { __VA_ARGS__ } \
	} else { \
		for (uint32_t m_ = (w)->mask; m_; m_ &= m_ - 1) { \
			unsigned l = (unsigned)__builtin_ctz(m_); \
			__VA_ARGS__ \
		} \
	} \
} while (0)

/* Ends the grid; the first fault is kept. */
void ptx_raise(struct ptx_warp *w, enum ptx_fault fault, unsigned lane,
	       const struct ptx_insn *i, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* ptx_exec.c */
void ptx_warp_run(struct ptx_warp *w, unsigned budget);
bool ptx_warp_can_run(const struct ptx_warp *w);
int ptx_frame_push(struct ptx_warp *w, const struct ptx_func *f,
		   const struct ptx_call *call, uint32_t mask);
void ptx_frame_enter(struct ptx_warp *w, struct ptx_frame *frame);
void ptx_lanes_park(struct ptx_warp *w, uint32_t lanes, uint32_t pc);
void ptx_lanes_exit(struct ptx_warp *w, uint32_t lanes);
bool ptx_local_reserve(struct ptx_warp *w, unsigned lane, uint32_t size);

/* ptx_warp.c: parked lanes whose partners are all there go on. */
void ptx_sync_recheck(struct ptx_warp *w);
/* ptx_bar.c: threads have exited, a barrier may be complete now. */
void ptx_bar_recheck(struct ptx_block *b);

/* ptx_addr.c */
/*
 * Host memory behind an address, or NULL after raising a fault. size is a
 * power of two that the address must be a multiple of.
 */
void *ptx_at(struct ptx_warp *w, const struct ptx_insn *i, unsigned lane,
	     int space, uint64_t addr, unsigned size, bool is_store);
/* The same without alignment and fault: how many bytes may be read there. */
const void *ptx_peek(struct ptx_warp *w, unsigned lane, uint64_t addr,
		     size_t *out_size);
uint8_t *ptx_param_at(const struct ptx_frame *frame, unsigned lane,
		      uint32_t offset);
/* ptx_mem.c */
void ptx_fence(int sem);

/* ptx_block.c: a block of the same cluster, or NULL. */
const struct ptx_block *ptx_cluster_block(const struct ptx_block *b,
					  unsigned rank);

/* ptx_block.c */
struct ptx_cluster *ptx_cluster_new(struct ptx_grid *g);
int ptx_cluster_start(struct ptx_cluster *c, uint64_t index);
void ptx_cluster_free(struct ptx_cluster *c);
/*
 * Runs until all of it has ended (true), or deadline_ns, or nothing but
 * waiting for other blocks is left.
 */
bool ptx_cluster_run(struct ptx_cluster *c, struct ptx_thread *t,
		     uint64_t deadline_ns);
uint64_t ptx_now_ns(void);

/* ptx_printf.c: formats device printf; returns what vprintf returns. */
/* The text of a failed assertion, as the device runtime words it. */
void ptx_print_assert(struct ptx_warp *w, unsigned lane, uint64_t message,
		      uint64_t file, uint32_t line, uint64_t function);
int ptx_format(struct ptx_warp *w, unsigned lane, uint64_t fmt,
	       uint64_t args);

#endif
