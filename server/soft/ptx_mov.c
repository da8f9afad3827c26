/* SPDX-License-Identifier: Apache-2.0 */
/* Moves: registers, predicates, vectors of a scalar's parts. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

static void
exec_mov(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = a[l]; );
}

static void
exec_mov_pred(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint32_t *d = &w->preds[i->dst[0]];

	*d = (*d & ~w->mask) | (w->preds[i->src[0]] & w->mask);
}

/* mov between a scalar and the vector of its parts. */
static void
exec_pack(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);
	unsigned bits = i->bits, n = i->vec;
	uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;

	PTX_EACH(w, l,
		uint64_t v = 0;

		for (unsigned k = 0; k < n; k++)
			v |= (ptx_in(w, i->src[k])[l] & mask) << bits * k;
		d[l] = v;
	);
}

static void
exec_unpack(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	unsigned bits = i->bits, n = i->vec;
	uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;

	PTX_EACH(w, l,
		uint64_t v = a[l];

		for (unsigned k = 0; k < n; k++)
			ptx_out(w, i->dst[k])[l] = v >> bits * k & mask;
	);
}

/* Two 64-bit slots at once; read before written, they may overlap. */
static void
exec_mov_pair(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	uint64_t *d = ptx_out(w, i->dst[0]), *e = ptx_out(w, i->dst[1]);

	PTX_EACH(w, l,
		uint64_t lo = a[l];
		uint64_t hi = b[l];

		d[l] = lo;
		e[l] = hi;
	);
}

static int32_t
upper(int32_t slot)
{
	return slot == PTX_REG_SINK ? slot : slot + 1;
}

/* mov.b128: registers, or a pair of 64 bits on either side. */
static void
decode_mov_b128(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_mov_pair);
	const struct ptx_opnd *d = &p->opnds[0], *s = &p->opnds[1];
	const struct ptx_opnd *e = &p->elems[s->first];

	if (s->kind == PTX_O_VEC) {
		if (s->count != 2)
			ptx_unsupported(p);
		i.src[0] = ptx_src(p, &e[0], PTX_T_B64);
		i.src[1] = ptx_src(p, &e[1], PTX_T_B64);
	} else {
		i.src[0] = ptx_src(p, s, PTX_T_B128);
		i.src[1] = upper(i.src[0]);
	}
	e = &p->elems[d->first];
	if (d->kind == PTX_O_VEC) {
		if (d->count != 2)
			ptx_unsupported(p);
		i.dst[0] = ptx_dst(p, &e[0], PTX_T_B64);
		i.dst[1] = ptx_dst(p, &e[1], PTX_T_B64);
	} else {
		i.dst[0] = ptx_dst(p, d, PTX_T_B128);
		i.dst[1] = upper(i.dst[0]);
	}
	ptx_emit(p, &i);
}

static int
part_type(struct ptx_parser *p, int type, unsigned n)
{
	switch (ptx_type_size(type) * 8 / n) {
	case 8:
		return PTX_T_B8;
	case 16:
		return PTX_T_B16;
	case 32:
		return PTX_T_B32;
	default:
		ptx_unsupported(p);
	}
}

static void
decode_mov_vec(struct ptx_parser *p, int type)
{
	const struct ptx_opnd *d = &p->opnds[0], *s = &p->opnds[1];
	bool is_pack = s->kind == PTX_O_VEC;
	const struct ptx_opnd *v = is_pack ? s : d;
	const struct ptx_opnd *e = &p->elems[v->first];
	struct ptx_insn i = ptx_insn_start(p, is_pack ? exec_pack
						      : exec_unpack);
	int part;

	if ((is_pack && d->kind == PTX_O_VEC) ||
	    (v->count != 2 && v->count != 4))
		ptx_unsupported(p);
	part = part_type(p, type, v->count);
	i.vec = (uint8_t)v->count;
	i.bits = (uint8_t)(8 * ptx_type_size(part));
	for (unsigned k = 0; k < v->count; k++) {
		if (is_pack)
			i.src[k] = ptx_src(p, &e[k], part);
		else
			i.dst[k] = ptx_dst(p, &e[k], part);
	}
	if (is_pack)
		i.dst[0] = ptx_dst(p, d, type);
	else
		i.src[0] = ptx_src(p, s, type);
	ptx_emit(p, &i);
}

/* All is read before anything is written, they may be the same. */
static void
exec_mov_vec(struct ptx_warp *w, const struct ptx_insn *i)
{
	unsigned n = i->vec;

	PTX_EACH(w, l,
		uint64_t v[4];

		for (unsigned k = 0; k < n; k++)
			v[k] = ptx_in(w, i->src[k])[l];
		for (unsigned k = 0; k < n; k++)
			ptx_out(w, i->dst[k])[l] = v[k];
	);
}

/* One element of a vector operand; of a special register by its name. */
static struct ptx_opnd
vec_elem(struct ptx_parser *p, const struct ptx_opnd *o, unsigned k)
{
	struct ptx_opnd e = *o;
	char *word;

	if (o->kind == PTX_O_VEC)
		return p->elems[o->first + k];
	word = ptx_need(p, ptx_arena_alloc(&p->scratch, o->word_size + 3));
	snprintf(word, o->word_size + 3, "%.*s.%c", (int)o->word_size,
		 o->word, "xyzw"[k]);
	e.word = word;
	e.word_size = o->word_size + 2;
	return e;
}

static void
decode_mov_vectors(struct ptx_parser *p, int type, unsigned n)
{
	const struct ptx_opnd *d = &p->opnds[0], *s = &p->opnds[1];
	struct ptx_insn i = ptx_insn_start(p, exec_mov_vec);

	if (d->kind != PTX_O_VEC || d->count != n ||
	    (s->kind != PTX_O_SREG && (s->kind != PTX_O_VEC || s->count != n)))
		ptx_unsupported(p);
	i.vec = (uint8_t)n;
	for (unsigned k = 0; k < n; k++) {
		struct ptx_opnd e = vec_elem(p, s, k);

		i.src[k] = ptx_src(p, &e, type);
		i.dst[k] = ptx_dst(p, &p->elems[d->first + k], type);
	}
	ptx_emit(p, &i);
}

static void
decode_mov_pred(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_mov_pred);

	i.src[0] = ptx_src_pred(p, &p->opnds[1]);
	i.dst[0] = ptx_dst_pred(p, &p->opnds[0]);
	ptx_emit(p, &i);
}

static void
decode_mov(struct ptx_parser *p)
{
	unsigned vec = ptx_mod(p, "v2") ? 2 : ptx_mod(p, "v4") ? 4 : 0;
	int type = ptx_mod_type(p);

	ptx_mods_done(p);
	ptx_want_opnds(p, 2);
	if (vec && type != PTX_T_PRED && ptx_type_size(type) >= 2)
		decode_mov_vectors(p, type, vec);
	else if (vec)
		ptx_unsupported(p);
	else if (type == PTX_T_PRED)
		decode_mov_pred(p);
	else if (type == PTX_T_B128)
		decode_mov_b128(p);
	else if (p->opnds[0].kind == PTX_O_VEC ||
		 p->opnds[1].kind == PTX_O_VEC)
		decode_mov_vec(p, type);
	else if (ptx_type_size(type) < 2)
		ptx_unsupported(p);
	else
		ptx_emit_plain(p, exec_mov, type, 1);
}

const struct ptx_decoder ptx_decode_mov[] = {
	{ "mov", decode_mov },
	{ NULL, NULL },
};
