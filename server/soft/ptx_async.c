/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous copies, done at once: a copy may be complete before anybody
 * asks, so groups and waits have nothing left to do.
 */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

/* imm: the destination's offset; target: the source's; bits: bytes. */
static void
exec_cp_async(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *d = ptx_in(w, i->src[0]), *s = ptx_in(w, i->src[1]);
	const uint64_t *n = ptx_in(w, i->src[2]);
	const int64_t *offsets = i->aux;
	uint32_t ignore = i->flags & 2 ? w->preds[i->src[3]] : 0;
	unsigned size = i->bits;

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		unsigned count = i->flags & 1 ? (unsigned)n[l] : size;
		char *to = ptx_at(w, i, l, PTX_SPACE_SHARED,
				  d[l] + (uint64_t)offsets[0], size, true);
		const char *from;

		if (!to)
			return;
		if (count > size || ignore >> l & 1)
			count = ignore >> l & 1 ? 0 : size;
		memset(to, 0, size);
		if (!count)
			continue;
		from = ptx_at(w, i, l, PTX_SPACE_GLOBAL,
			      s[l] + (uint64_t)offsets[1], size, false);
		if (!from)
			return;
		memcpy(to, from, count);
	}
}

static void
exec_nothing(struct ptx_warp *w, const struct ptx_insn *i)
{
	(void)w;
	(void)i;
}

static void
decode_cp_group(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_nothing);
	bool has_count = ptx_mod(p, "wait_group");

	if (!has_count && !ptx_mod(p, "commit_group") &&
	    !ptx_mod(p, "wait_all"))
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, has_count);
	ptx_emit(p, &i);
}

static void
decode_cp(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_cp_async);
	int64_t *offsets;
	const struct ptx_opnd *size = &p->opnds[2];
	bool has_policy, is_cg;

	if (!ptx_mod(p, "async"))
		ptx_unsupported(p);
	is_cg = ptx_mod(p, "cg");
	if (!is_cg && !ptx_mod(p, "ca")) {
		decode_cp_group(p);
		return;
	}
	if ((!ptx_mod(p, "shared") && !ptx_mod(p, "shared::cta")) ||
	    !ptx_mod(p, "global"))
		ptx_unsupported(p);
	has_policy = ptx_mod(p, "L2::cache_hint");
	(void)(ptx_mod(p, "L2::64B") || ptx_mod(p, "L2::128B") ||
	       ptx_mod(p, "L2::256B"));
	ptx_mods_done(p);
	if (p->nopnds != 3u + has_policy && p->nopnds != 4u + has_policy)
		ptx_want_opnds(p, 3);
	if (size->kind != PTX_O_IMM ||
	    (size->imm != 16 && (is_cg || (size->imm != 4 &&
					   size->imm != 8))))
		ptx_unsupported(p);
	i.bits = (uint8_t)size->imm;
	offsets = ptx_need(p, ptx_arena_alloc(&p->m->arena,
					      2 * sizeof(*offsets)));
	i.aux = offsets;
	i.src[0] = ptx_src_addr(p, &p->opnds[0], &offsets[0]);
	i.src[1] = ptx_src_addr(p, &p->opnds[1], &offsets[1]);
	if (p->nopnds == 4u + has_policy) {
		const struct ptx_opnd *o = &p->opnds[3];

		if (o->kind == PTX_O_REG && o->type == PTX_T_PRED) {
			i.flags = 2;
			i.src[3] = ptx_src_pred(p, o);
		} else {
			i.flags = 1;
			i.src[2] = ptx_src(p, o, PTX_T_U32);
		}
	}
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_async[] = {
	{ "cp", decode_cp },
	{ NULL, NULL },
};
