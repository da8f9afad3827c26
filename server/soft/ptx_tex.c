/* SPDX-License-Identifier: Apache-2.0 */
/* Textures and surfaces: the driver side holds them, this asks it. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

static uint64_t
object(struct ptx_warp *w, const struct ptx_insn *i, unsigned l)
{
	return ptx_in(w, i->src[0])[l] + (uint64_t)i->imm;
}

/* op: dimensions; type: of the texels; type2: of the coordinates. */
static void
exec_tex(struct ptx_warp *w, const struct ptx_insn *i)
{
	const struct ptx_env *env = w->thread->env;
	bool is_float = i->type2 == PTX_T_F32;

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint32_t coord[4] = { 0 }, out[4] = { 0 };
		float lod = 0;

		for (unsigned k = 0; k < i->op; k++)
			coord[k] = (uint32_t)ptx_in(w, i->src[1 + k])[l];
		if (i->flags) {
			uint32_t bits = (uint32_t)ptx_in(w, i->src[5])[l];

			if (is_float)
				memcpy(&lod, &bits, sizeof(lod));
			else
				lod = (float)(int32_t)bits;
		}
		if (!env->texture ||
		    !env->texture(env->ctx, object(w, i, l), i->op, is_float,
				  coord, lod, out)) {
			ptx_raise(w, PTX_FAULT_ADDRESS, l, i,
				  "no texture object %#llx",
				  (unsigned long long)object(w, i, l));
			return;
		}
		for (unsigned k = 0; k < 4; k++)
			ptx_out(w, i->dst[k])[l] = out[k];
	}
}

/* op: dimensions; op2: clamp mode; bits: of one element; vec: elements. */
static void
exec_surface(struct ptx_warp *w, const struct ptx_insn *i)
{
	const struct ptx_env *env = w->thread->env;
	unsigned size = i->bits / 8, bytes = size * i->vec;

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		int32_t coord[4] = { 0 };
		uint8_t data[16] = { 0 };

		for (unsigned k = 0; k < i->op; k++)
			coord[k] = (int32_t)ptx_in(w, i->src[1 + k])[l];
		for (unsigned k = 0; i->flags && k < i->vec; k++)
			memcpy(data + k * size,
			       &ptx_in(w, i->src[4 + k])[l], size);
		if (!env->surface ||
		    !env->surface(env->ctx, object(w, i, l), i->op, i->flags,
				  coord, i->op2, bytes, data)) {
			ptx_raise(w, PTX_FAULT_ADDRESS, l, i,
				  "surface %#llx at %d, %d, %d",
				  (unsigned long long)object(w, i, l),
				  coord[0], coord[1], coord[2]);
			return;
		}
		for (unsigned k = 0; !i->flags && k < i->vec; k++) {
			uint64_t v = 0;

			memcpy(&v, data + k * size, size);
			ptx_out(w, i->dst[k])[l] = v;
		}
	}
}

static unsigned
take_geometry(struct ptx_parser *p)
{
	if (ptx_mod(p, "1d"))
		return 1;
	if (ptx_mod(p, "2d"))
		return 2;
	if (ptx_mod(p, "3d"))
		return 3;
	ptx_unsupported(p);
}

/* [object, {x, y, z, w}]: coordinates may be padded to a vector of 4. */
static void
take_address(struct ptx_parser *p, struct ptx_insn *i,
	     const struct ptx_opnd *o, int coord_type)
{
	const struct ptx_opnd *v = &p->elems[o->first];

	if (o->kind != PTX_O_ADDR || o->count != 1)
		ptx_unsupported(p);
	/* A .texref is a variable: its name would need the object in it. */
	if (o->base != PTX_O_REG || o->type == PTX_T_PRED ||
	    ptx_type_size(o->type) != 8)
		ptx_unsupported(p);
	i->src[0] = ptx_src_addr(p, o, &i->imm);
	if (v->kind != PTX_O_VEC) {
		if (i->op != 1)
			ptx_unsupported(p);
		i->src[1] = ptx_src(p, v, coord_type);
		return;
	}
	if (v->count < i->op || v->count > 4)
		ptx_unsupported(p);
	for (unsigned k = 0; k < i->op; k++)
		i->src[1 + k] = ptx_src(p, &p->elems[v->first + k],
					coord_type);
}

static void
decode_tex(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_tex);
	const struct ptx_opnd *d = &p->opnds[0];
	unsigned nopnds = 2;

	if (ptx_mod(p, "level"))
		i.flags = 1;
	else
		ptx_mod(p, "base");
	i.op = (uint8_t)take_geometry(p);
	if (!ptx_mod(p, "v4"))
		ptx_unsupported(p);
	i.type = (uint8_t)ptx_mod_type(p);
	i.type2 = (uint8_t)ptx_mod_type(p);
	ptx_mods_done(p);
	if ((i.type != PTX_T_F32 && i.type != PTX_T_S32 &&
	     i.type != PTX_T_U32) ||
	    (i.type2 != PTX_T_F32 && i.type2 != PTX_T_S32))
		ptx_unsupported(p);
	nopnds += i.flags;
	ptx_want_opnds(p, nopnds);
	if (d->kind != PTX_O_VEC || d->count != 4)
		ptx_unsupported(p);
	for (unsigned k = 0; k < 4; k++)
		i.dst[k] = ptx_dst(p, &p->elems[d->first + k], i.type);
	take_address(p, &i, &p->opnds[1], i.type2);
	if (i.flags)
		i.src[5] = ptx_src(p, &p->opnds[2], i.type2);
	ptx_emit(p, &i);
}

static void
decode_surface(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_surface);
	bool is_store = p->op[2] == 's';
	const struct ptx_opnd *v = &p->opnds[is_store], *e = v;
	int type;

	if (!ptx_mod(p, "b"))
		ptx_unsupported(p);
	i.flags = is_store;
	i.op = (uint8_t)take_geometry(p);
	(void)(ptx_mod(p, "ca") || ptx_mod(p, "cg") || ptx_mod(p, "cs") ||
	       ptx_mod(p, "cv") || ptx_mod(p, "wb") || ptx_mod(p, "wt"));
	i.vec = ptx_mod(p, "v2") ? 2 : ptx_mod(p, "v4") ? 4 : 1;
	type = ptx_mod_type(p);
	if (ptx_mod(p, "clamp"))
		i.op2 = 1;
	else if (ptx_mod(p, "zero"))
		i.op2 = 2;
	else if (!ptx_mod(p, "trap"))
		ptx_unsupported(p);
	ptx_mods_done(p);
	if (type < PTX_T_B8 || type > PTX_T_B64 ||
	    ptx_type_size(type) * i.vec > 16)
		ptx_unsupported(p);
	i.bits = (uint8_t)(8 * ptx_type_size(type));
	ptx_want_opnds(p, 2);
	if (v->kind == PTX_O_VEC) {
		if (v->count != i.vec)
			ptx_unsupported(p);
		e = &p->elems[v->first];
	} else if (i.vec != 1) {
		ptx_unsupported(p);
	}
	for (unsigned k = 0; k < i.vec; k++) {
		if (is_store)
			i.src[4 + k] = ptx_src_wide(p, &e[k], type);
		else
			i.dst[k] = ptx_dst(p, &e[k], type);
	}
	take_address(p, &i, &p->opnds[!is_store], PTX_T_S32);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_tex[] = {
	{ "tex", decode_tex },
	{ "suld", decode_surface },
	{ "sust", decode_surface },
	{ NULL, NULL },
};
