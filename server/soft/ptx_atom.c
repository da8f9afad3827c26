/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic read-modify-writes: atom and red. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_num.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

enum atom_op {
	A_NONE, A_ADD, A_AND, A_OR, A_XOR, A_EXCH, A_CAS, A_INC, A_DEC,
	A_MIN, A_MAX,
};

static uint64_t
add_float(const struct ptx_insn *i, uint64_t a, uint64_t b, bool is_shared)
{
	float x, y, r;

	/* The units beside global memory hand NaNs over as they are. */
	if (i->type == PTX_T_F64 && !is_shared) {
		if (ptx_f64_is_nan(a))
			return a;
		if (ptx_f64_is_nan(b))
			return b;
	}
	if (i->type == PTX_T_F64)
		return ptx_f64_result(ptx_f64(a) + ptx_f64(b), a, b, 0);
	x = ptx_f32(a);
	y = ptx_f32(b);
	if (is_shared)
		return ptx_f32_result(x + y);
	/* They flush subnormals, too. */
	r = ptx_ftz(x) + ptx_ftz(y);
	return ptx_f32_result(ptx_ftz(r));
}

static uint64_t
add_half(uint64_t a, uint64_t b, int type)
{
	float r = ptx_half_to_float(a, type) + ptx_half_to_float(b, type);

	return ptx_num_pack(ptx_num_unpack(ptx_f32_bits(r), PTX_T_F32), type,
			    PTX_RN);
}

static uint64_t
add(const struct ptx_insn *i, uint64_t a, uint64_t b, bool is_shared)
{
	switch (i->type) {
	case PTX_T_F32:
	case PTX_T_F64:
		return add_float(i, a, b, is_shared);
	case PTX_T_F16:
	case PTX_T_BF16:
		return add_half(a & 0xffff, b & 0xffff, i->type);
	case PTX_T_F16X2:
	case PTX_T_BF16X2:
		return add_half(a & 0xffff, b & 0xffff, i->type) |
		       add_half(a >> 16 & 0xffff, b >> 16 & 0xffff,
				i->type) << 16;
	default:
		return a + b;
	}
}

static bool
is_less(int type, uint64_t a, uint64_t b)
{
	switch (type) {
	case PTX_T_S32:
		return (int32_t)a < (int32_t)b;
	case PTX_T_S64:
		return (int64_t)a < (int64_t)b;
	default:
		return a < b;
	}
}

static uint64_t
apply(const struct ptx_insn *i, uint64_t old, uint64_t b, uint64_t c,
      bool is_shared)
{
	switch ((enum atom_op)i->op) {
	case A_ADD:
		return add(i, old, b, is_shared);
	case A_AND:
		return old & b;
	case A_OR:
		return old | b;
	case A_XOR:
		return old ^ b;
	case A_EXCH:
		return b;
	case A_CAS:
		return old == b ? c : old;
	case A_INC:
		return old >= b ? 0 : old + 1;
	case A_DEC:
		return old == 0 || old > b ? b : old - 1;
	case A_MIN:
		return is_less(i->type, b, old) ? b : old;
	case A_MAX:
		return is_less(i->type, old, b) ? b : old;
	case A_NONE:
		break;
	}
	return old;
}

#define CAS_LOOP(U) do { \
	U *at = p, seen = __atomic_load_n(at, __ATOMIC_RELAXED), want; \
	do { \
		want = (U)apply(i, seen, b, c, is_shared); \
	} while (!__atomic_compare_exchange_n(at, &seen, want, true, \
					      __ATOMIC_SEQ_CST, \
					      __ATOMIC_RELAXED)); \
	return seen; \
} while (0)

static uint64_t
modify(const struct ptx_insn *i, void *p, uint64_t b, uint64_t c,
       bool is_shared)
{
	switch (i->bits) {
	case 16:
		CAS_LOOP(uint16_t);
	case 32:
		if (i->op == A_ADD && i->type <= PTX_T_S64)
			return __atomic_fetch_add((uint32_t *)p, (uint32_t)b,
						  __ATOMIC_SEQ_CST);
		CAS_LOOP(uint32_t);
	default:
		CAS_LOOP(uint64_t);
	}
}

/* Where a generic address leads matters to f32 sums. */
static bool
is_shared_access(const struct ptx_insn *i, uint64_t addr)
{
	return i->space == PTX_SPACE_SHARED ||
	       (i->space == PTX_SPACE_GENERIC &&
		addr - PTX_WIN_SHARED < PTX_WIN_SIZE);
}

static void
exec_atom(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	w->spins += i->flags;
	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint64_t addr = a[l] + (uint64_t)i->imm;
		void *p = ptx_at(w, i, l, i->space, addr, i->bits / 8, true);

		if (!p)
			return;
		d[l] = modify(i, p, b[l], c[l], is_shared_access(i, addr));
	}
}

/* Elements one by one: a vector is not atomic as a whole. */
static void
exec_atom_vec(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	unsigned size = i->bits / 8;

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint64_t addr = a[l] + (uint64_t)i->imm, old[4];
		char *p = ptx_at(w, i, l, i->space, addr, size * i->vec,
				 true);

		if (!p)
			return;
		for (unsigned k = 0; k < i->vec; k++)
			old[k] = modify(i, p + k * size,
					ptx_in(w, i->src[1 + k])[l], 0,
					false);
		for (unsigned k = 0; k < i->vec; k++)
			ptx_out(w, i->dst[k])[l] = old[k];
	}
}

/* Compilers call a library for 16 bytes unless told the CPU; this does not. */
static unsigned __int128
swap_128(unsigned __int128 *p, unsigned __int128 old, unsigned __int128 want)
{
#if defined(__x86_64__)
	uint64_t lo = (uint64_t)old, hi = (uint64_t)(old >> 64);

	__asm__ volatile("lock cmpxchg16b %0"
			 : "+m"(*p), "+a"(lo), "+d"(hi)
			 : "b"((uint64_t)want), "c"((uint64_t)(want >> 64))
			 : "memory", "cc");
	return (unsigned __int128)hi << 64 | lo;
#else
	return __sync_val_compare_and_swap(p, old, want);
#endif
}

/* exch and cas of 128 bits; slots come in pairs. */
static void
exec_atom_b128(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);

	w->spins += i->flags;
	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		unsigned __int128 v[2], old = 0, seen, *p;

		p = ptx_at(w, i, l, i->space, a[l] + (uint64_t)i->imm, 16,
			   true);
		if (!p)
			return;
		for (unsigned k = 0; k < 2; k++)
			v[k] = (unsigned __int128)
				ptx_in(w, i->src[2 + 2 * k])[l] << 64 |
				ptx_in(w, i->src[1 + 2 * k])[l];
		if (i->op == A_CAS) {
			old = swap_128(p, v[0], v[1]);
		} else {
			do {
				seen = old;
				old = swap_128(p, seen, v[0]);
			} while (old != seen);
		}
		ptx_out(w, i->dst[0])[l] = (uint64_t)old;
		ptx_out(w, i->dst[1])[l] = (uint64_t)(old >> 64);
	}
}

static const struct {
	const char *name;
	enum atom_op op;
} ops[] = {
	{ "add", A_ADD }, { "and", A_AND }, { "or", A_OR },
	{ "xor", A_XOR }, { "exch", A_EXCH }, { "cas", A_CAS },
	{ "inc", A_INC }, { "dec", A_DEC }, { "min", A_MIN },
	{ "max", A_MAX },
};

static bool
fits(int op, int type)
{
	switch (op) {
	case A_ADD:
		return type == PTX_T_U32 || type == PTX_T_S32 ||
		       type == PTX_T_U64 || type == PTX_T_S64 ||
		       type == PTX_T_F32 || type == PTX_T_F64 ||
		       type == PTX_T_F16 || type == PTX_T_F16X2 ||
		       type == PTX_T_BF16 || type == PTX_T_BF16X2;
	case A_AND:
	case A_OR:
	case A_XOR:
		return type == PTX_T_B32 || type == PTX_T_B64;
	case A_EXCH:
		return type == PTX_T_B32 || type == PTX_T_B64 ||
		       type == PTX_T_B128;
	case A_CAS:
		return type == PTX_T_B16 || type == PTX_T_B32 ||
		       type == PTX_T_B64 || type == PTX_T_B128;
	case A_INC:
	case A_DEC:
		return type == PTX_T_U32;
	default:
		return type == PTX_T_U32 || type == PTX_T_S32 ||
		       type == PTX_T_U64 || type == PTX_T_S64;
	}
}

static int32_t
upper(int32_t slot)
{
	return slot == PTX_REG_SINK ? slot : slot + 1;
}

static void
take_atom_mods(struct ptx_parser *p, struct ptx_insn *i)
{
	(void)(ptx_mod(p, "relaxed") || ptx_mod(p, "acquire") ||
	       ptx_mod(p, "release") || ptx_mod(p, "acq_rel"));
	(void)(ptx_mod(p, "cta") || ptx_mod(p, "cluster") ||
	       ptx_mod(p, "gpu") || ptx_mod(p, "sys"));
	i->space = (uint8_t)ptx_mod_space(p, PTX_SPACE_GENERIC);
	for (size_t k = 0; k < sizeof(ops) / sizeof(*ops); k++) {
		if (ptx_mod(p, ops[k].name))
			i->op = (uint8_t)ops[k].op;
	}
	ptx_mod(p, "noftz");
	i->type = (uint8_t)ptx_mod_type(p);
	i->bits = (uint8_t)(8 * ptx_type_size(i->type));
	if (!i->op || !fits(i->op, i->type) ||
	    (i->space != PTX_SPACE_GENERIC && i->space != PTX_SPACE_GLOBAL &&
	     i->space != PTX_SPACE_SHARED))
		ptx_unsupported(p);
}

static const struct ptx_opnd *
vector(struct ptx_parser *p, const struct ptx_opnd *o, unsigned n)
{
	if (o->kind != PTX_O_VEC || o->count != n)
		ptx_unsupported(p);
	return &p->elems[o->first];
}

static void
decode_atom_vec(struct ptx_parser *p, struct ptx_insn *i, bool is_red)
{
	unsigned at = !is_red;
	bool has_policy = ptx_mod(p, "L2::cache_hint");
	const struct ptx_opnd *v;

	ptx_mods_done(p);
	if (i->op != A_ADD || i->space == PTX_SPACE_SHARED ||
	    !ptx_type_is_float(i->type) || i->type == PTX_T_F64)
		ptx_unsupported(p);
	ptx_want_opnds(p, at + 2 + has_policy);
	i->exec = exec_atom_vec;
	i->src[0] = ptx_src_addr(p, &p->opnds[at], &i->imm);
	v = vector(p, &p->opnds[at + 1], i->vec);
	for (unsigned k = 0; k < i->vec; k++)
		i->src[1 + k] = ptx_src(p, &v[k], i->type);
	v = is_red ? NULL : vector(p, &p->opnds[0], i->vec);
	for (unsigned k = 0; k < i->vec; k++)
		i->dst[k] = is_red ? PTX_REG_SINK
				   : ptx_dst(p, &v[k], i->type);
	ptx_emit(p, i);
}

static void
decode_atom(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_atom);
	bool is_red = p->op[0] == 'r', has_policy;
	unsigned nsrc, at = !is_red;

	take_atom_mods(p, &i);
	i.vec = ptx_mod(p, "v2") ? 2 : ptx_mod(p, "v4") ? 4 : 1;
	if (i.vec > 1) {
		decode_atom_vec(p, &i, is_red);
		return;
	}
	has_policy = ptx_mod(p, "L2::cache_hint");
	ptx_mods_done(p);
	nsrc = i.op == A_CAS ? 2 : 1;
	if (is_red && (i.op == A_CAS || i.op == A_EXCH))
		ptx_unsupported(p);
	ptx_want_opnds(p, at + 1 + nsrc + has_policy);
	i.flags = !is_red;
	i.src[0] = ptx_src_addr(p, &p->opnds[at], &i.imm);
	for (unsigned k = 0; k < nsrc; k++)
		i.src[1 + k] = ptx_src(p, &p->opnds[at + 1 + k], i.type);
	i.dst[0] = is_red ? PTX_REG_SINK
			  : ptx_dst(p, &p->opnds[0], i.type);
	if (i.type == PTX_T_B128) {
		i.exec = exec_atom_b128;
		i.src[3] = i.src[2];
		i.src[2] = upper(i.src[1]);
		i.src[4] = upper(i.src[3]);
		i.dst[1] = upper(i.dst[0]);
	}
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_atom[] = {
	{ "atom", decode_atom },
	{ "red", decode_atom },
	{ NULL, NULL },
};
