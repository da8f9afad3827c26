/* SPDX-License-Identifier: Apache-2.0 */
/* Special registers. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"

#include <string.h>
#include <time.h>

enum {
	R_TID, R_NTID, R_CTAID, R_NCTAID, R_LANEID, R_WARPID, R_NWARPID,
	R_SMID, R_NSMID, R_GRIDID, R_CLOCK, R_CLOCK_HI, R_CLOCK64,
	R_GLOBALTIMER, R_GLOBALTIMER_HI, R_LANEMASK, R_DYN_SMEM,
	R_TOTAL_SMEM, R_ENVREG, R_CLUSTERID, R_NCLUSTERID, R_CLUSTER_CTAID,
	R_CLUSTER_NCTAID, R_CLUSTER_RANK, R_CLUSTER_SIZE, R_ZERO, R_EXPLICIT,
};

enum { MASK_EQ, MASK_LE, MASK_LT, MASK_GE, MASK_GT };

static uint32_t
lane_mask(int which, unsigned l)
{
	switch (which) {
	case MASK_EQ:
		return 1u << l;
	case MASK_LE:
		return ~0u >> (31 - l);
	case MASK_LT:
		return (1u << l) - 1;
	case MASK_GE:
		return ~0u << l;
	default:
		return ~0u << l << 1;
	}
}

static uint64_t
nanoseconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t
clock_ticks(const struct ptx_warp *w)
{
	/* In tenths of a GHz, so that the product stays within 64 bits. */
	uint64_t rate = w->thread->env->clock_hz / 10000000;

	return nanoseconds(CLOCK_MONOTONIC) / 100 * (rate ? rate : 1);
}

static uint32_t
sm_of(const struct ptx_grid *g, unsigned i)
{
	return g->launch.sm_number ? g->launch.sm_number[i] : i;
}

static uint64_t
envreg(const struct ptx_grid *g, unsigned at)
{
	uint64_t ws = (uint64_t)(uintptr_t)g->workspace;

	/* Cooperative groups read the workspace's address from 1 and 2. */
	if (!g->launch.cooperative)
		return 0;
	return at == 1 ? ws >> 32 : at == 2 ? (uint32_t)ws : 0;
}

static uint64_t
cluster_dim(const struct ptx_grid *g, unsigned d)
{
	return g->launch.cluster[d] ? g->launch.cluster[d] : 1;
}

/* Registers that are the same for every lane. */
static uint64_t
uniform(const struct ptx_warp *w, const struct ptx_insn *i)
{
	const struct ptx_block *b = w->block;
	const struct ptx_grid *g = b->grid;
	unsigned d = i->op2;

	switch (i->op) {
	case R_NTID:
		return d < 3 ? g->launch.block[d] : 0;
	case R_CTAID:
		return d < 3 ? b->id[d] : 0;
	case R_NCTAID:
		return d < 3 ? g->launch.grid[d] : 0;
	case R_WARPID:
		return w->index;
	case R_NWARPID:
		return 64;
	case R_SMID:
		return sm_of(g, (unsigned)(b->linear % g->launch.sms));
	case R_NSMID:
		return g->launch.env->sms;
	case R_GRIDID:
		return g->launch.grid_id;
	case R_CLOCK:
		return (uint32_t)clock_ticks(w);
	case R_CLOCK_HI:
		return clock_ticks(w) >> 32;
	case R_CLOCK64:
		return clock_ticks(w);
	case R_GLOBALTIMER:
		return i->op2 ? (uint32_t)nanoseconds(CLOCK_REALTIME)
			      : nanoseconds(CLOCK_REALTIME);
	case R_GLOBALTIMER_HI:
		return nanoseconds(CLOCK_REALTIME) >> 32;
	case R_DYN_SMEM:
		return g->launch.dyn_shared;
	case R_TOTAL_SMEM:
		return g->shared_size;
	case R_ENVREG:
		return envreg(g, d);
	case R_CLUSTERID:
		return d < 3 ? b->id[d] / cluster_dim(g, d) : 0;
	case R_NCLUSTERID:
		return d < 3 ? g->launch.grid[d] / cluster_dim(g, d) : 0;
	case R_CLUSTER_CTAID:
		return d < 3 ? b->id[d] % cluster_dim(g, d) : 0;
	case R_CLUSTER_NCTAID:
		return d < 3 ? cluster_dim(g, d) : 0;
	case R_CLUSTER_RANK:
		return b->rank;
	case R_CLUSTER_SIZE:
		return cluster_dim(g, 0) * cluster_dim(g, 1) *
		       cluster_dim(g, 2);
	default:
		return 0;
	}
}

static void
exec_uniform(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]), v = uniform(w, i);

	PTX_EACH(w, l, d[l] = v; );
}

static void
exec_tid(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);
	const unsigned *n = w->block->grid->launch.block;
	unsigned first = w->index * PTX_LANES, which = i->op2;

	PTX_EACH(w, l,
		unsigned t = first + l;

		d[l] = which == 0 ? t % n[0]
		     : which == 1 ? t / n[0] % n[1]
		     : which == 2 ? t / n[0] / n[1] : 0;
	);
}

static void
exec_laneid(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = l; );
}

static void
exec_lanemask(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);
	int which = i->op2;

	PTX_EACH(w, l, d[l] = lane_mask(which, l); );
}

static void
exec_explicit_cluster(struct ptx_warp *w, const struct ptx_insn *i)
{
	const struct ptx_grid *g = w->block->grid;
	uint32_t *d = &w->preds[i->dst[0]];
	bool is = cluster_dim(g, 0) * cluster_dim(g, 1) *
		  cluster_dim(g, 2) > 1;

	*d = is ? *d | w->mask : *d & ~w->mask;
}

static const struct {
	const char *name;
	uint8_t op, op2;
	bool is_vector;          /* .x .y .z .w */
} names[] = {
	{ "%tid", R_TID, 0, true },
	{ "%ntid", R_NTID, 0, true },
	{ "%ctaid", R_CTAID, 0, true },
	{ "%nctaid", R_NCTAID, 0, true },
	{ "%laneid", R_LANEID, 0, false },
	{ "%warpid", R_WARPID, 0, false },
	{ "%nwarpid", R_NWARPID, 0, false },
	{ "%smid", R_SMID, 0, false },
	{ "%nsmid", R_NSMID, 0, false },
	{ "%gridid", R_GRIDID, 0, false },
	{ "%clock", R_CLOCK, 0, false },
	{ "%clock_hi", R_CLOCK_HI, 0, false },
	{ "%clock64", R_CLOCK64, 0, false },
	{ "%globaltimer", R_GLOBALTIMER, 0, false },
	{ "%globaltimer_lo", R_GLOBALTIMER, 1, false },
	{ "%globaltimer_hi", R_GLOBALTIMER_HI, 0, false },
	{ "%lanemask_eq", R_LANEMASK, MASK_EQ, false },
	{ "%lanemask_le", R_LANEMASK, MASK_LE, false },
	{ "%lanemask_lt", R_LANEMASK, MASK_LT, false },
	{ "%lanemask_ge", R_LANEMASK, MASK_GE, false },
	{ "%lanemask_gt", R_LANEMASK, MASK_GT, false },
	{ "%dynamic_smem_size", R_DYN_SMEM, 0, false },
	{ "%total_smem_size", R_TOTAL_SMEM, 0, false },
	{ "%aggr_smem_size", R_TOTAL_SMEM, 0, false },
	{ "%clusterid", R_CLUSTERID, 0, true },
	{ "%nclusterid", R_NCLUSTERID, 0, true },
	{ "%cluster_ctaid", R_CLUSTER_CTAID, 0, true },
	{ "%cluster_nctaid", R_CLUSTER_NCTAID, 0, true },
	{ "%cluster_ctarank", R_CLUSTER_RANK, 0, false },
	{ "%cluster_nctarank", R_CLUSTER_SIZE, 0, false },
	{ "%is_explicit_cluster", R_EXPLICIT, 0, false },
	{ "%reserved_smem_offset_begin", R_ZERO, 0, false },
	{ "%reserved_smem_offset_end", R_ZERO, 0, false },
	{ "%reserved_smem_offset_cap", R_ZERO, 0, false },
};

static bool
find_envreg(const char *name, size_t size, struct ptx_insn *i)
{
	unsigned n = 0;

	if (size < 8 || size > 9 || memcmp(name, "%envreg", 7))
		return false;
	for (size_t k = 7; k < size; k++) {
		if (name[k] < '0' || name[k] > '9')
			return false;
		n = n * 10 + (unsigned)(name[k] - '0');
	}
	if (n > 31)
		return false;
	i->op = R_ENVREG;
	i->op2 = (uint8_t)n;
	i->exec = exec_uniform;
	return true;
}

bool
ptx_sreg_find(const char *name, size_t size, struct ptx_insn *i)
{
	for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
		size_t n = strlen(names[k].name);
		const char *dim;

		if (size < n || memcmp(name, names[k].name, n))
			continue;
		i->op = names[k].op;
		i->op2 = names[k].op2;
		if (names[k].is_vector) {
			dim = size == n + 2 && name[n] == '.'
			      ? strchr("xyzw", name[n + 1]) : NULL;
			if (!dim)
				continue;
			i->op2 = (uint8_t)(name[n + 1] == 'w' ? 3
					   : name[n + 1] - 'x');
		} else if (size != n) {
			continue;
		}
		i->flags = i->op == R_EXPLICIT;
		i->exec = i->op == R_TID ? exec_tid
			: i->op == R_LANEID ? exec_laneid
			: i->op == R_LANEMASK ? exec_lanemask
			: i->op == R_EXPLICIT ? exec_explicit_cluster
			: exec_uniform;
		return true;
	}
	return find_envreg(name, size, i);
}
