/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores, address conversions, fences. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

/*
 * Blocks run on several threads and may race as on a device, so every
 * access is an atomic of its size; relaxed ones are plain moves.
 */
static inline uint64_t
load(const void *p, unsigned size)
{
	switch (size) {
	case 1:
		return __atomic_load_n((const uint8_t *)p, __ATOMIC_RELAXED);
	case 2:
		return __atomic_load_n((const uint16_t *)p, __ATOMIC_RELAXED);
	case 4:
		return __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED);
	default:
		return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
	}
}

static inline void
store(void *p, unsigned size, uint64_t v)
{
	switch (size) {
	case 1:
		__atomic_store_n((uint8_t *)p, (uint8_t)v, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((uint16_t *)p, (uint16_t)v,
				 __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((uint32_t *)p, (uint32_t)v,
				 __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((uint64_t *)p, v, __ATOMIC_RELAXED);
	}
}

/* A value of `size` bytes as a register of `bits` bits holds it. */
static inline uint64_t
widen(uint64_t v, unsigned size, bool is_signed, unsigned bits)
{
	if (!is_signed || size == 8)
		return v;
	v = (uint64_t)((int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size));
	return bits < 64 ? v & ((1ull << bits) - 1) : v;
}

/*
 * A fence that thread sanitizers understand too: read-modify-writes of one
 * word are ordered among themselves.
 */
void
ptx_fence(int sem)
{
#if defined(__SANITIZE_THREAD__) || defined(PTX_TSAN)
	static _Atomic uint32_t word;

	(void)sem;
	atomic_fetch_add(&word, 1);
#else
	if (sem == PTX_SEM_ACQUIRE)
		atomic_thread_fence(memory_order_acquire);
	else if (sem == PTX_SEM_RELEASE)
		atomic_thread_fence(memory_order_release);
	else
		atomic_thread_fence(memory_order_seq_cst);
#endif
}

static void
exec_ld(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *base = ptx_in(w, i->src[0]);
	unsigned size = i->op, n = i->vec;
	uint64_t addr[PTX_LANES];

	if (i->sem)
		w->spins++;
	/* The destination may be the address. */
	memcpy(addr, base, sizeof(addr));
	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		const char *p = ptx_at(w, i, l, i->space,
				       addr[l] + (uint64_t)i->imm, size * n,
				       false);

		if (!p)
			return;
		for (unsigned k = 0; k < n; k++)
			ptx_out(w, i->dst[k])[l] = widen(
				load(p + k * size, size), size, i->flags,
				i->bits);
	}
	if (i->sem == PTX_SEM_ACQUIRE)
		ptx_fence(PTX_SEM_ACQUIRE);
}

static void
exec_st(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *base = ptx_in(w, i->src[0]);
	unsigned size = i->op, n = i->vec;

	if (i->sem == PTX_SEM_RELEASE)
		ptx_fence(PTX_SEM_RELEASE);
	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		char *p = ptx_at(w, i, l, i->space,
				 base[l] + (uint64_t)i->imm, size * n, true);

		if (!p)
			return;
		for (unsigned k = 0; k < n; k++)
			store(p + k * size, size,
			      ptx_in(w, i->src[1 + k])[l]);
	}
}

/* From the kernel's parameters: the same for every lane. */
static void
exec_ld_kernel_param(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint8_t *p = w->block->grid->params + i->imm;

	for (unsigned k = 0; k < i->vec; k++) {
		uint64_t *d = ptx_out(w, i->dst[k]), v = 0;

		memcpy(&v, p + k * i->op, i->op);
		v = widen(v, i->op, i->flags, i->bits);
		PTX_EACH(w, l, d[l] = v; );
	}
}

static void
exec_ld_frame_param(struct ptx_warp *w, const struct ptx_insn *i)
{
	for (unsigned k = 0; k < i->vec; k++) {
		uint64_t *d = ptx_out(w, i->dst[k]);

		PTX_EACH(w, l,
			uint64_t v = 0;

			memcpy(&v, ptx_param_at(w->frame, l,
						(uint32_t)i->imm +
						k * i->op), i->op);
			d[l] = widen(v, i->op, i->flags, i->bits);
		);
	}
}

static void
exec_st_frame_param(struct ptx_warp *w, const struct ptx_insn *i)
{
	for (unsigned k = 0; k < i->vec; k++) {
		const uint64_t *a = ptx_in(w, i->src[1 + k]);

		PTX_EACH(w, l,
			memcpy(ptx_param_at(w->frame, l, (uint32_t)i->imm +
					    k * i->op), &a[l], i->op);
		);
	}
}

static void
exec_cvta(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	uint64_t add = (uint64_t)i->imm;

	PTX_EACH(w, l, d[l] = a[l] + add; );
}

static bool
is_const_address(const struct ptx_module *m, uint64_t addr)
{
	for (size_t k = 0; k < m->vars.count; k++) {
		const struct ptx_symbol *s = &ptx_var_at(m, k)->sym;

		if (s->space == PTX_SPACE_CONST && addr - s->addr < s->size)
			return true;
	}
	return false;
}

static bool
is_in_space(const struct ptx_warp *w, int space, uint64_t addr)
{
	switch (space) {
	case PTX_SPACE_SHARED:
		return addr - PTX_WIN_SHARED < PTX_WIN_SIZE;
	case PTX_SPACE_LOCAL:
		return addr - PTX_WIN_LOCAL < PTX_WIN_SIZE;
	case PTX_SPACE_PARAM:
		return addr - PTX_WIN_PARAM < PTX_WIN_SIZE;
	case PTX_SPACE_CONST:
		return is_const_address(w->frame->func->module, addr);
	default:
		return addr - PTX_WIN_SHARED >=
		       PTX_WIN_FUNC - PTX_WIN_SHARED &&
		       !is_const_address(w->frame->func->module, addr);
	}
}

static void
exec_isspacep(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint32_t *d = &w->preds[i->dst[0]], bits = 0;

	PTX_EACH(w, l,
		if (is_in_space(w, i->space, a[l]))
			bits |= 1u << l;
	);
	*d = (*d & ~w->mask) | (bits & w->mask);
}

static void
exec_mapa(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	uint64_t low = (1u << PTX_RANK_SHIFT) - 1;
	uint64_t rank_bits = (PTX_WIN_SIZE - 1) & ~low;

	PTX_EACH(w, l,
		uint64_t rank = (uint32_t)b[l];

		d[l] = (a[l] & ~rank_bits) |
		       ((rank + 1) << PTX_RANK_SHIFT & rank_bits);
	);
}

static void
exec_getctarank(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		uint64_t r = (a[l] & (PTX_WIN_SIZE - 1)) >> PTX_RANK_SHIFT;

		d[l] = r ? r - 1 : w->block->rank;
	);
}

static void
exec_fence(struct ptx_warp *w, const struct ptx_insn *i)
{
	(void)w;
	ptx_fence(i->sem);
}

/* Semantics, scopes, cache hints; returns the semantics. */
static int
take_access(struct ptx_parser *p)
{
	int sem = PTX_SEM_WEAK;

	ptx_mod(p, "mmio");
	if (ptx_mod(p, "volatile") || ptx_mod(p, "relaxed"))
		sem = PTX_SEM_RELAXED;
	else if (ptx_mod(p, "acquire"))
		sem = PTX_SEM_ACQUIRE;
	else if (ptx_mod(p, "release"))
		sem = PTX_SEM_RELEASE;
	else
		ptx_mod(p, "weak");
	if (sem != PTX_SEM_WEAK) {
		(void)(ptx_mod(p, "cta") || ptx_mod(p, "cluster") ||
		       ptx_mod(p, "gpu") || ptx_mod(p, "sys"));
	}
	return sem;
}

/* As ptxas says it: what nobody else can see has no order. */
static void
refuse_order(struct ptx_parser *p, const struct ptx_insn *i)
{
	if (i->sem != PTX_SEM_WEAK &&
	    (i->space == PTX_SPACE_LOCAL || i->space == PTX_SPACE_CONST ||
	     i->space == PTX_SPACE_PARAM))
		ptx_fail(p, PTX_E_SYNTAX, p->line, "'%s': '.volatile' and "
			 "orders cannot be applied to this space", p->full);
}

static void
take_cache_hints(struct ptx_parser *p, bool *out_has_policy)
{
	static const char *const words[] = {
		"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt",
		"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
		"L1::evict_last", "L1::no_allocate", "L2::evict_normal",
		"L2::evict_first", "L2::evict_last", "L2::64B", "L2::128B",
		"L2::256B", "unified", NULL,
	};

	*out_has_policy = ptx_mod(p, "L2::cache_hint");
	for (const char *const *word = words; *word; word++)
		ptx_mod(p, *word);
}

static unsigned
take_vec(struct ptx_parser *p)
{
	if (ptx_mod(p, "v2"))
		return 2;
	if (ptx_mod(p, "v4"))
		return 4;
	return 1;
}

/* The n values of a load or store: one operand or a vector. */
static const struct ptx_opnd *
values(struct ptx_parser *p, const struct ptx_opnd *o, unsigned n)
{
	if (n == 1 && o->kind != PTX_O_VEC)
		return o;
	if (o->kind != PTX_O_VEC || o->count != n)
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "'%s' needs a vector of %u", p->full, n);
	return &p->elems[o->first];
}

static int
take_memory_type(struct ptx_parser *p, struct ptx_insn *i)
{
	int type = ptx_mod_type(p);

	switch (type) {
	case PTX_T_NONE:
	case PTX_T_PRED:
	case PTX_T_F16X2:
	case PTX_T_BF16X2:
	case PTX_T_TF32:
	case PTX_T_E4M3X2:
	case PTX_T_E5M2X2:
	case PTX_T_U16X2:
	case PTX_T_S16X2:
		ptx_unsupported(p);
	}
	i->type = (uint8_t)type;
	i->op = (uint8_t)ptx_type_size(type);
	i->flags = ptx_type_is_signed(type);
	return type;
}

/* Names of the parameter space are addressed directly. */
static bool
param_name(struct ptx_parser *p, struct ptx_insn *i,
	   const struct ptx_opnd *o)
{
	const struct ptx_name *n = o->name;
	uint64_t size = (uint64_t)i->op * i->vec, top;

	if (o->kind != PTX_O_ADDR || o->base != PTX_O_NAME ||
	    (n->kind != PTX_NAME_PARAM && n->kind != PTX_NAME_KPARAM))
		return false;
	i->imm = (int64_t)o->imm + n->offset;
	top = n->kind == PTX_NAME_KPARAM ? p->kernel_param_size
					 : n->offset + (uint64_t)n->size;
	if (i->imm < n->offset || (uint64_t)i->imm + size > top)
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "'%s' reaches out of parameter '%.80s'", p->full,
			 n->text);
	return true;
}

/* A 128-bit register is two slots, loaded like a pair of 64 bits. */
static void
split_b128(struct ptx_parser *p, struct ptx_insn *i, int32_t *slots)
{
	if (i->type != PTX_T_B128)
		return;
	if (i->vec != 1)
		ptx_unsupported(p);
	slots[1] = slots[0] == PTX_REG_SINK ? slots[0] : slots[0] + 1;
	i->vec = 2;
	i->op = 8;
	i->bits = 64;
}

static void
decode_ld(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_ld);
	const struct ptx_opnd *v;
	bool has_policy;
	int type;

	i.sem = (uint8_t)take_access(p);
	i.space = (uint8_t)ptx_mod_space(p, PTX_SPACE_GENERIC);
	refuse_order(p, &i);
	take_cache_hints(p, &has_policy);
	i.vec = (uint8_t)take_vec(p);
	type = take_memory_type(p, &i);
	ptx_mods_done(p);
	ptx_want_opnds(p, 2 + has_policy);
	v = values(p, &p->opnds[0], i.vec);
	for (unsigned k = 0; k < i.vec; k++) {
		uint8_t bits;

		i.dst[k] = ptx_dst_wide(p, &v[k], type, &bits);
		if (bits > i.bits)
			i.bits = bits;
	}
	if (i.space == PTX_SPACE_PARAM && param_name(p, &i, &p->opnds[1]))
		i.exec = p->opnds[1].name->kind == PTX_NAME_KPARAM
			 ? exec_ld_kernel_param : exec_ld_frame_param;
	else
		i.src[0] = ptx_src_addr(p, &p->opnds[1], &i.imm);
	split_b128(p, &i, i.dst);
	ptx_emit(p, &i);
}

static void
decode_st(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_st);
	const struct ptx_opnd *v;
	bool has_policy;
	int type;

	i.sem = (uint8_t)take_access(p);
	i.space = (uint8_t)ptx_mod_space(p, PTX_SPACE_GENERIC);
	refuse_order(p, &i);
	take_cache_hints(p, &has_policy);
	i.vec = (uint8_t)take_vec(p);
	type = take_memory_type(p, &i);
	ptx_mods_done(p);
	ptx_want_opnds(p, 2 + has_policy);
	if (i.space == PTX_SPACE_CONST || i.sem == PTX_SEM_ACQUIRE)
		ptx_unsupported(p);
	v = values(p, &p->opnds[1], i.vec);
	for (unsigned k = 0; k < i.vec; k++)
		i.src[1 + k] = ptx_src_wide(p, &v[k], type);
	if (i.space == PTX_SPACE_PARAM) {
		if (!param_name(p, &i, &p->opnds[0]) ||
		    p->opnds[0].name->kind != PTX_NAME_PARAM)
			ptx_unsupported(p);
		i.exec = exec_st_frame_param;
	} else {
		i.src[0] = ptx_src_addr(p, &p->opnds[0], &i.imm);
	}
	split_b128(p, &i, &i.src[1]);
	ptx_emit(p, &i);
}

static uint64_t
window_of(int space)
{
	switch (space) {
	case PTX_SPACE_SHARED:
		return PTX_WIN_SHARED;
	case PTX_SPACE_LOCAL:
		return PTX_WIN_LOCAL;
	case PTX_SPACE_PARAM:
		return PTX_WIN_PARAM;
	default:
		return 0;
	}
}

static void
decode_cvta(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_cvta);
	bool is_to = ptx_mod(p, "to");
	int space = ptx_mod_space(p, PTX_SPACE_GENERIC);
	int type = ptx_mod_type(p);

	ptx_mods_done(p);
	ptx_want_opnds(p, 2);
	if (type != PTX_T_U64 || space == PTX_SPACE_GENERIC)
		ptx_unsupported(p);
	i.imm = (int64_t)window_of(space);
	if (is_to)
		i.imm = -i.imm;
	i.src[0] = ptx_src(p, &p->opnds[1], type);
	i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, &i);
}

static void
decode_isspacep(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_isspacep);
	int space = ptx_mod_space(p, PTX_SPACE_GENERIC);

	ptx_mods_done(p);
	ptx_want_opnds(p, 2);
	if (space == PTX_SPACE_GENERIC)
		ptx_unsupported(p);
	i.space = (uint8_t)space;
	i.src[0] = ptx_src(p, &p->opnds[1], PTX_T_U64);
	i.dst[0] = ptx_dst_pred(p, &p->opnds[0]);
	ptx_emit(p, &i);
}

static void
decode_mapa(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_mapa);
	bool is_rank = !strcmp(p->op, "getctarank");
	int space = ptx_mod_space(p, PTX_SPACE_GENERIC);
	int type = ptx_mod_type(p);

	ptx_mods_done(p);
	ptx_want_opnds(p, is_rank ? 2 : 3);
	if ((type != PTX_T_U64 && type != PTX_T_U32) ||
	    (space != PTX_SPACE_GENERIC && space != PTX_SPACE_SHARED))
		ptx_unsupported(p);
	i.src[0] = ptx_src(p, &p->opnds[1], type);
	if (is_rank) {
		i.exec = exec_getctarank;
		i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_U32);
	} else {
		i.src[1] = ptx_src(p, &p->opnds[2], PTX_T_U32);
		i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	}
	ptx_emit(p, &i);
}

static void
take_scope(struct ptx_parser *p)
{
	if (!ptx_mod(p, "cta") && !ptx_mod(p, "cluster") &&
	    !ptx_mod(p, "gpu") && !ptx_mod(p, "sys") && !ptx_mod(p, "gl"))
		ptx_unsupported(p);
}

/* One memory, one path to it: every proxy fence is a plain fence. */
static void
decode_fence(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_fence);

	i.sem = PTX_SEM_SC;
	if (ptx_mod(p, "proxy")) {
		if (!ptx_mod(p, "async") && !ptx_mod(p, "alias") &&
		    !ptx_mod(p, "async::generic") &&
		    !ptx_mod(p, "tensormap::generic"))
			ptx_mod(p, "async.global");
		(void)(ptx_mod(p, "acquire") || ptx_mod(p, "release"));
		(void)(ptx_mod(p, "sync_restrict::shared::cta"));
		(void)(ptx_mod(p, "global") || ptx_mod(p, "shared::cta") ||
		       ptx_mod(p, "shared::cluster"));
		(void)(ptx_mod(p, "cluster") || ptx_mod(p, "gpu") ||
		       ptx_mod(p, "cta") || ptx_mod(p, "sys"));
	} else if (ptx_mod(p, "mbarrier_init")) {
		ptx_mod(p, "release");
		take_scope(p);
	} else {
		(void)(ptx_mod(p, "sc") || ptx_mod(p, "acq_rel") ||
		       ptx_mod(p, "acquire") || ptx_mod(p, "release"));
		take_scope(p);
	}
	ptx_mods_done(p);
	ptx_want_opnds(p, 0);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_mem[] = {
	{ "ld", decode_ld },
	{ "ldu", decode_ld },
	{ "st", decode_st },
	{ "cvta", decode_cvta },
	{ "isspacep", decode_isspacep },
	{ "mapa", decode_mapa },
	{ "getctarank", decode_mapa },
	{ "membar", decode_fence },
	{ "fence", decode_fence },
	{ NULL, NULL },
};
