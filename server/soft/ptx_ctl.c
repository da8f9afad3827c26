/* SPDX-License-Identifier: Apache-2.0 */
/* Branches, calls, returns, traps. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

/* Part of the group goes to pc, the rest goes on here. */
static void
diverge(struct ptx_warp *w, uint32_t lanes, uint32_t pc)
{
	uint32_t rest = w->live & ~lanes;

	if (pc > w->pc) {
		ptx_lanes_park(w, lanes, pc);
		w->live = rest;
		if (pc < w->stop_pc)
			w->stop_pc = pc;
	} else {
		ptx_lanes_park(w, rest, w->pc);
		w->live = lanes;
		if (w->pc < w->stop_pc)
			w->stop_pc = w->pc;
		w->pc = pc;
	}
	if (w->stop_pc <= w->pc)
		w->stop = true;
}

static void
exec_bra(struct ptx_warp *w, const struct ptx_insn *i)
{
	if (w->mask == w->live)
		w->pc = i->target;
	else
		diverge(w, w->mask, i->target);
}

static void
exec_brx(struct ptx_warp *w, const struct ptx_insn *i)
{
	const struct ptx_branches *b = i->aux;
	const uint64_t *index = ptx_in(w, i->src[0]);

	ptx_lanes_park(w, w->live & ~w->mask, w->pc);
	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint32_t at = (uint32_t)index[l];

		if (at >= b->count) {
			ptx_raise(w, PTX_FAULT_PC, l, i,
				  "brx.idx index %u of %u", at, b->count);
			return;
		}
		ptx_lanes_park(w, 1u << l, b->pc[at]);
	}
	w->live = 0;
	w->stop = true;
}

static void
exec_exit(struct ptx_warp *w, const struct ptx_insn *i)
{
	(void)i;
	ptx_lanes_exit(w, w->mask);
}

static void
copy_args(struct ptx_frame *to, const struct ptx_arg *to_args,
	  const struct ptx_frame *from, const struct ptx_arg *from_args,
	  unsigned n, uint32_t mask)
{
	for (unsigned a = 0; a < n; a++) {
		const struct ptx_arg *t = &to_args[a], *f = &from_args[a];
		uint32_t size = t->size < f->size ? t->size : f->size;

		for (uint32_t m = mask; m; m &= m - 1) {
			unsigned l = (unsigned)__builtin_ctz(m);
			uint64_t *reg;
			const void *src;
			uint64_t v;

			if (f->is_reg) {
				v = f->slot >= 0
				    ? from->regs[f->slot * PTX_LANES + (int)l]
				    : from->func->consts[~f->slot *
							 PTX_LANES + (int)l];
				src = &v;
				if (size > 8)
					size = 8;
			} else {
				src = ptx_param_at(from, l, f->offset);
			}
			if (!t->is_reg) {
				memcpy(ptx_param_at(to, l, t->offset), src,
				       size);
				continue;
			}
			reg = &to->regs[t->slot * PTX_LANES + (int)l];
			*reg = 0;
			memcpy(reg, src, size < 8 ? size : 8);
		}
	}
}

static void
exec_ret(struct ptx_warp *w, const struct ptx_insn *i)
{
	struct ptx_frame *frame = w->frame, *parent = frame->parent;
	uint32_t mask = w->mask;

	(void)i;
	if (!parent) {
		ptx_lanes_exit(w, mask);
		return;
	}
	if (frame->call->nrets)
		copy_args(parent, frame->call->rets, frame, frame->func->rets,
			  frame->call->nrets, mask);
	for (uint32_t m = mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);

		w->local_sp[l] = frame->local_saved[l];
	}
	ptx_lanes_park(w, w->live & ~mask, w->pc);
	w->frame = parent;
	ptx_lanes_park(w, mask, frame->ret_pc);
	frame->mask &= ~mask;
	if (!frame->mask) {
		frame->parent = w->spare;
		w->spare = frame;
	}
	w->live = 0;
	w->stop = true;
}

static void
call_function(struct ptx_warp *w, const struct ptx_insn *i, uint32_t index,
	      uint32_t mask)
{
	const struct ptx_call *call = i->aux;
	const struct ptx_func *f = ptx_func_at(w->frame->func->module, index);
	struct ptx_frame *caller = w->frame;

	if (call->nargs != f->nargs || call->nrets != f->nrets ||
	    f->is_kernel) {
		ptx_raise(w, PTX_FAULT_ILLEGAL_INSTR,
			  (unsigned)__builtin_ctz(mask), i,
			  "call of %s with other parameters", f->name);
		return;
	}
	if (f->builtin) {
		enum ptx_fault fault;

		w->mask = mask;
		fault = f->builtin(w, call);
		if (fault)
			ptx_raise(w, fault, (unsigned)__builtin_ctz(mask), i,
				  "%s", f->name);
		return;
	}
	if (ptx_frame_push(w, f, call, mask)) {
		ptx_raise(w, PTX_FAULT_STACK, (unsigned)__builtin_ctz(mask),
			  i, "call of %s: stack overflow", f->name);
		return;
	}
	copy_args(w->frame, f->args, caller, call->args, f->nargs, mask);
}

static void
exec_call(struct ptx_warp *w, const struct ptx_insn *i)
{
	const struct ptx_call *call = i->aux;

	if (ptx_func_at(w->frame->func->module, call->func)->builtin) {
		call_function(w, i, call->func, w->mask);
		return;
	}
	ptx_lanes_park(w, w->live & ~w->mask, w->pc);
	call_function(w, i, call->func, w->mask);
}

/* Lanes with one target call together; the others try again after them. */
static void
exec_call_indirect(struct ptx_warp *w, const struct ptx_insn *i)
{
	const struct ptx_call *call = i->aux;
	const struct ptx_module *m = w->frame->func->module;
	const uint64_t *target = ptx_in(w, call->target_slot);
	unsigned lead = (unsigned)__builtin_ctz(w->mask);
	uint64_t at = target[lead] - PTX_WIN_FUNC;
	uint32_t same = 0;

	if (at % 16 || !at || at / 16 > m->funcs.count) {
		ptx_raise(w, PTX_FAULT_PC, lead, i,
			  "call of %#llx, no function",
			  (unsigned long long)target[lead]);
		return;
	}
	for (uint32_t l = w->mask; l; l &= l - 1) {
		unsigned k = (unsigned)__builtin_ctz(l);

		if (target[k] == target[lead])
			same |= 1u << k;
	}
	ptx_lanes_park(w, w->live & ~w->mask, w->pc);
	ptx_lanes_park(w, w->mask & ~same, w->pc - 1);
	if (ptx_func_at(m, at / 16 - 1)->builtin) {
		ptx_lanes_park(w, same, w->pc);
		w->live = same;
		call_function(w, i, (uint32_t)(at / 16 - 1), same);
		w->live = 0;
		w->stop = true;
		return;
	}
	call_function(w, i, (uint32_t)(at / 16 - 1), same);
}

static void
exec_trap(struct ptx_warp *w, const struct ptx_insn *i)
{
	ptx_raise(w, PTX_FAULT_TRAP, (unsigned)__builtin_ctz(w->mask), i,
		  "trap");
}

/* No debugger is ever attached: like a trap. */
static void
exec_brkpt(struct ptx_warp *w, const struct ptx_insn *i)
{
	ptx_raise(w, PTX_FAULT_TRAP, (unsigned)__builtin_ctz(w->mask), i,
		  "brkpt");
}

void
ptx_exec_local_address(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		d[l] = w->frame->local_base[l] + (uint64_t)i->imm;
	);
}

void
ptx_exec_shared_address(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);
	uint64_t v = w->block->grid->func->shared_off[i->target] +
		     (uint64_t)i->imm;

	PTX_EACH(w, l, d[l] = v; );
}

void
ptx_exec_not_pred(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint32_t *d = &w->preds[i->dst[0]];

	*d = (*d & ~w->mask) | (~w->preds[i->src[0]] & w->mask);
}

static void
exec_alloca(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *size = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint64_t align = (uint64_t)i->imm;
		uint64_t base = (w->local_sp[l] + align - 1) & ~(align - 1);

		if (size[l] > PTX_LOCAL_MAX ||
		    !ptx_local_reserve(w, l, (uint32_t)(base + size[l]))) {
			ptx_raise(w, PTX_FAULT_STACK, l, i, "alloca of %llu",
				  (unsigned long long)size[l]);
			return;
		}
		d[l] = base;
	}
}

static void
exec_stacksave(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = w->local_sp[l]; );
}

static void
exec_stackrestore(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);

	PTX_EACH(w, l,
		if (a[l] <= w->local_sp[l])
			w->local_sp[l] = (uint32_t)a[l];
	);
}

static void
exec_nothing(struct ptx_warp *w, const struct ptx_insn *i)
{
	(void)w;
	(void)i;
}

/* The rest of the warp, and other warps, go first. */
static void
exec_yield(struct ptx_warp *w, const struct ptx_insn *i)
{
	(void)i;
	w->spins += 64;
	w->is_turn_over = true;
	w->stop = true;
}

static void
decode_bra(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_bra);
	const struct ptx_opnd *o = &p->opnds[0];

	ptx_mod(p, "uni");
	ptx_mods_done(p);
	ptx_want_opnds(p, 1);
	if (!o->word || o->kind == PTX_O_REG || o->kind == PTX_O_SREG)
		ptx_fail(p, PTX_E_SYNTAX, p->line, "bra needs a label");
	ptx_emit(p, &i);
	ptx_label_want(p, o->word, o->word_size,
		       (uint32_t)p->code.count - 1, NULL);
}

static void
decode_brx(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_brx);

	if (!ptx_mod(p, "idx"))
		ptx_unsupported(p);
	ptx_mod(p, "uni");
	ptx_mods_done(p);
	ptx_want_opnds(p, 2);
	i.src[0] = ptx_src(p, &p->opnds[0], PTX_T_U32);
	if (p->opnds[1].kind != PTX_O_NAME ||
	    p->opnds[1].name->kind != PTX_NAME_TARGETS)
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "brx.idx needs .branchtargets");
	i.aux = p->opnds[1].name->data;
	ptx_emit(p, &i);
}

static void
decode_end(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_exit);

	if (!strcmp(p->op, "ret")) {
		ptx_mod(p, "uni");
		i.exec = exec_ret;
	} else if (!strcmp(p->op, "trap")) {
		i.exec = exec_trap;
	} else if (!strcmp(p->op, "brkpt")) {
		i.exec = exec_brkpt;
	}
	ptx_mods_done(p);
	ptx_want_opnds(p, 0);
	ptx_emit(p, &i);
}

static void
call_actual(struct ptx_parser *p, const struct ptx_opnd *o,
	    struct ptx_arg *a, bool is_ret)
{
	if (o->kind == PTX_O_NAME && o->name->kind == PTX_NAME_PARAM) {
		a->offset = o->name->offset;
		a->size = o->name->size;
		return;
	}
	a->is_reg = true;
	a->size = 8;
	if (o->kind == PTX_O_SINK && is_ret) {
		a->slot = PTX_REG_SINK;
		return;
	}
	if (o->kind == PTX_O_REG && o->type != PTX_T_PRED &&
	    o->type != PTX_T_B128) {
		a->slot = o->slot;
		a->size = ptx_type_size(o->type);
		return;
	}
	if (is_ret)
		ptx_fail(p, PTX_E_SYNTAX, p->line, "bad result of a call");
	a->slot = ptx_src(p, o, PTX_T_B64);
}

static unsigned
call_actuals(struct ptx_parser *p, const struct ptx_opnd *list,
	     struct ptx_arg **out, bool is_ret)
{
	struct ptx_arg *args;

	*out = NULL;
	if (!list->count)
		return 0;
	args = ptx_need(p, ptx_arena_alloc(&p->m->arena,
					   list->count * sizeof(*args)));
	for (unsigned k = 0; k < list->count; k++)
		call_actual(p, &p->elems[list->first + k], &args[k], is_ret);
	*out = args;
	return list->count;
}

static void
note_callee(struct ptx_parser *p, uint32_t index)
{
	uint32_t *c = p->f->callees.data;

	for (size_t k = 0; k < p->f->callees.count; k++) {
		if (c[k] == index)
			return;
	}
	c = ptx_need(p, ptx_vec_push(&p->f->callees, sizeof(*c)));
	*c = index;
}

static void
decode_call(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_call);
	struct ptx_call *call;
	unsigned at = 0;

	ptx_mod(p, "uni");
	ptx_mods_done(p);
	call = ptx_need(p, ptx_arena_alloc(&p->m->arena, sizeof(*call)));
	i.aux = call;
	if (p->nopnds && p->opnds[0].kind == PTX_O_LIST)
		call->nrets = call_actuals(p, &p->opnds[at++], &call->rets,
					   true);
	if (at >= p->nopnds)
		ptx_fail(p, PTX_E_SYNTAX, p->line, "call of nothing");
	const struct ptx_opnd *callee = &p->opnds[at++];

	if (at < p->nopnds && p->opnds[at].kind == PTX_O_LIST)
		call->nargs = call_actuals(p, &p->opnds[at++], &call->args,
					   false);
	if (callee->kind == PTX_O_NAME &&
	    callee->name->kind == PTX_NAME_FUNC) {
		struct ptx_func *f = ptx_func_at(p->m,
						 (size_t)callee->name->index);

		call->func = f->index;
		if (call->nargs != f->nargs || call->nrets != f->nrets)
			ptx_fail(p, PTX_E_SYNTAX, p->line,
				 "call of '%s' with other parameters",
				 f->name);
		note_callee(p, f->index);
	} else {
		call->func = UINT32_MAX;
		call->target_slot = ptx_src(p, callee, PTX_T_B64);
		i.exec = exec_call_indirect;
		p->f->calls_indirect = true;
		at++; /* the prototype */
	}
	if (at != p->nopnds)
		ptx_fail(p, PTX_E_SYNTAX, p->line, "bad operands of call");
	ptx_emit(p, &i);
}

static void
decode_stack(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_stacksave);
	int type = ptx_mod_type(p);

	ptx_mods_done(p);
	if (type != PTX_T_U64 && type != PTX_T_U32)
		ptx_unsupported(p);
	if (!strcmp(p->op, "alloca")) {
		i.exec = exec_alloca;
		i.imm = 16;
		if (p->nopnds == 3 && p->opnds[2].kind == PTX_O_IMM &&
		    p->opnds[2].imm <= 128 && p->opnds[2].imm &&
		    !(p->opnds[2].imm & (p->opnds[2].imm - 1)))
			i.imm = (int64_t)p->opnds[2].imm;
		else if (p->nopnds != 2)
			ptx_want_opnds(p, 2);
		i.src[0] = ptx_src(p, &p->opnds[1], type);
		i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	} else if (!strcmp(p->op, "stacksave")) {
		ptx_want_opnds(p, 1);
		i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	} else {
		ptx_want_opnds(p, 1);
		i.exec = exec_stackrestore;
		i.src[0] = ptx_src(p, &p->opnds[0], type);
	}
	ptx_emit(p, &i);
}

static void
decode_nanosleep(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_yield);

	if (ptx_mod_type(p) != PTX_T_U32)
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 1);
	ptx_src(p, &p->opnds[0], PTX_T_U32);
	ptx_emit(p, &i);
}

/* Hints without an effect that a program could see. */
static void
decode_hint(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_nothing);

	while (ptx_mod_any(p))
		;
	for (unsigned k = 0; k < p->nopnds; k++) {
		if (p->opnds[k].kind == PTX_O_WORD)
			ptx_fail(p, PTX_E_SYNTAX, p->line,
				 "bad operand of '%s'", p->full);
	}
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_ctl[] = {
	{ "bra", decode_bra },
	{ "brx", decode_brx },
	{ "call", decode_call },
	{ "ret", decode_end },
	{ "exit", decode_end },
	{ "trap", decode_end },
	{ "brkpt", decode_end },
	{ "alloca", decode_stack },
	{ "stacksave", decode_stack },
	{ "stackrestore", decode_stack },
	{ "nanosleep", decode_nanosleep },
	{ "prefetch", decode_hint },
	{ "prefetchu", decode_hint },
	{ "applypriority", decode_hint },
	{ "pmevent", decode_hint },
	{ "discard", decode_hint },
	{ "griddepcontrol", decode_hint },
	{ NULL, NULL },
};
