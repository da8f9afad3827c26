/* SPDX-License-Identifier: Apache-2.0 */
/* Function bodies of PTX: directives and statements. */
#include "server/soft/ptx_parse.h"

#include <string.h>

static void
add_mod(struct ptx_parser *p, size_t *used)
{
	const struct ptx_tok *t = &p->lex.tok;

	if (p->nmods >= PTX_MAX_MODS || *used + t->n > sizeof(p->mod_text))
		ptx_fail_token(p);
	p->mods[p->nmods] = p->mod_text + *used;
	memcpy(p->mods[p->nmods], t->s + 1, t->n - 1);
	p->mods[p->nmods][t->n - 1] = 0;
	p->mod_used[p->nmods++] = false;
	*used += t->n;
	ptx_lex_next(&p->lex);
}

static void
parse_mnemonic(struct ptx_parser *p)
{
	struct ptx_tok t = p->lex.tok;
	const char *end = t.s + t.n;
	size_t used = 0, n;

	if (t.kind != PTX_TOK_IDENT || t.n >= sizeof(p->op))
		ptx_fail_token(p);
	memcpy(p->op, t.s, t.n);
	p->op[t.n] = 0;
	p->line = t.line;
	p->nmods = 0;
	ptx_lex_next(&p->lex);
	while (p->lex.tok.kind == PTX_TOK_DOT) {
		end = p->lex.tok.s + p->lex.tok.n;
		add_mod(p, &used);
	}
	n = (size_t)(end - t.s);
	if (n >= sizeof(p->full))
		n = sizeof(p->full) - 1;
	memcpy(p->full, t.s, n);
	p->full[n] = 0;
}

static void
parse_guard(struct ptx_parser *p)
{
	struct ptx_name *name;

	p->guard = -1;
	p->guard_neg = false;
	if (!ptx_accept(p, "@"))
		return;
	p->guard_neg = ptx_accept(p, "!");
	name = ptx_name_find(p, p->lex.tok.s, p->lex.tok.n);
	if (p->lex.tok.kind != PTX_TOK_IDENT || !name ||
	    name->kind != PTX_NAME_REG || name->type != PTX_T_PRED)
		ptx_fail_token(p);
	p->guard = name->index;
	ptx_lex_next(&p->lex);
}

static void
declare_register(struct ptx_parser *p, int type, unsigned vec)
{
	int regs_each = vec ? (int)vec : 1 + (type == PTX_T_B128);
	struct ptx_tok t = p->lex.tok;
	bool is_pred = type == PTX_T_PRED, is_range;
	uint64_t count = 1;
	struct ptx_name *name;
	int32_t *next = is_pred ? &p->next_pred : &p->next_reg;

	if (t.kind != PTX_TOK_IDENT)
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	is_range = ptx_accept(p, "<");
	if (is_range) {
		count = p->lex.tok.value;
		if (p->lex.tok.kind != PTX_TOK_INT || count > (1u << 20))
			ptx_fail_token(p);
		ptx_lex_next(&p->lex);
		ptx_expect(p, ">");
	}
	name = ptx_name_add(p, t.s, t.n, is_range ? PTX_NAME_REG_RANGE
						  : PTX_NAME_REG);
	name->type = type;
	name->vec = (uint8_t)vec;
	name->count = (uint32_t)count;
	name->index = *next;
	*next += (int32_t)count * regs_each;
	if (*next > (1 << 20))
		ptx_fail(p, PTX_E_SYNTAX, t.line, "too many registers");
	if ((unsigned)p->next_reg > p->f->nregs)
		p->f->nregs = (unsigned)p->next_reg;
	if ((unsigned)p->next_pred > p->f->npreds)
		p->f->npreds = (unsigned)p->next_pred;
	if (!is_range || p->depth <= 1)
		return;
	/* An outer range of this name may have members in the table. */
	for (uint32_t i = 0; i < count; i++) {
		char text[300];
		int n = snprintf(text, sizeof(text), "%.*s%u",
				 t.n > 256 ? 256 : (int)t.n, t.s, i);
		struct ptx_name *one = ptx_name_add(p, text, (size_t)n,
						    PTX_NAME_REG);

		one->type = type;
		one->vec = (uint8_t)vec;
		one->index = name->index + (int32_t)i * regs_each;
	}
}

static void
parse_reg(struct ptx_parser *p)
{
	char word[16] = "";
	const struct ptx_tok *t = &p->lex.tok;
	unsigned vec = ptx_accept(p, ".v2") ? 2 : ptx_accept(p, ".v4") ? 4 : 0;
	int type = PTX_T_NONE;

	if (t->kind == PTX_TOK_DOT && t->n - 1 < sizeof(word)) {
		memcpy(word, t->s + 1, t->n - 1);
		type = ptx_type_named(word);
	}
	if (!type || (vec && (type == PTX_T_PRED ||
			      ptx_type_size(type) * vec > 16)))
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	do
		declare_register(p, type, vec);
	while (ptx_accept(p, ","));
	ptx_expect(p, ";");
}

static void
parse_loc(struct ptx_parser *p)
{
	/* ".loc 1 2 3[, function_name $x [+ n], inlined_at 1 2 3]" has no
	 * end mark: its words are all on one line. */
	uint32_t line = p->lex.tok.line;

	while (p->lex.tok.line == line && p->lex.tok.kind != PTX_TOK_EOF)
		ptx_lex_next(&p->lex);
}

static void
parse_body_directive(struct ptx_parser *p)
{
	unsigned linkage = 0;

	if (ptx_accept(p, ".extern"))
		linkage = PTX_LINK_EXTERN;
	if (ptx_accept(p, ".reg")) {
		parse_reg(p);
	} else if (ptx_accept(p, ".local")) {
		ptx_parse_variable(p, PTX_SPACE_LOCAL, linkage);
	} else if (ptx_accept(p, ".shared")) {
		ptx_parse_variable(p, PTX_SPACE_SHARED, linkage);
	} else if (ptx_accept(p, ".param")) {
		ptx_parse_variable(p, PTX_SPACE_PARAM, linkage);
	} else if (ptx_accept(p, ".global")) {
		ptx_parse_variable(p, PTX_SPACE_GLOBAL, linkage);
	} else if (ptx_accept(p, ".const")) {
		ptx_parse_variable(p, PTX_SPACE_CONST, linkage);
	} else if (ptx_accept(p, ".loc")) {
		parse_loc(p);
	} else if (ptx_accept(p, ".pragma")) {
		while (!ptx_accept(p, ";")) {
			if (p->lex.tok.kind == PTX_TOK_EOF)
				ptx_fail_token(p);
			ptx_lex_next(&p->lex);
		}
	} else {
		ptx_fail_token(p);
	}
}

/* name: .branchtargets a, b; and .calltargets, .callprototype */
static void
parse_label_directive(struct ptx_parser *p, const struct ptx_tok *label)
{
	struct ptx_branches *b;
	struct ptx_name *name;

	if (ptx_accept(p, ".callprototype") ||
	    ptx_accept(p, ".calltargets")) {
		/* Sizes are checked at the call against the real callee. */
		ptx_name_add(p, label->s, label->n, PTX_NAME_PROTO);
		while (!ptx_accept(p, ";")) {
			if (p->lex.tok.kind == PTX_TOK_EOF)
				ptx_fail_token(p);
			ptx_lex_next(&p->lex);
		}
		return;
	}
	ptx_expect(p, ".branchtargets");
	name = ptx_name_add(p, label->s, label->n, PTX_NAME_TARGETS);
	b = ptx_need(p, ptx_arena_alloc(&p->m->arena, sizeof(*b)));
	name->data = b;

	struct ptx_lex before = p->lex;
	unsigned n = 0;

	while (!ptx_accept(p, ";")) {
		if (p->lex.tok.kind == PTX_TOK_EOF)
			ptx_fail_token(p);
		n += p->lex.tok.kind == PTX_TOK_IDENT;
		ptx_lex_next(&p->lex);
	}
	p->lex = before;
	b->pc = ptx_need(p, ptx_arena_alloc(&p->m->arena,
					    (n + 1) * sizeof(*b->pc)));
	do {
		if (p->lex.tok.kind != PTX_TOK_IDENT || b->count >= n)
			ptx_fail_token(p);
		p->line = p->lex.tok.line;
		ptx_label_want(p, p->lex.tok.s, p->lex.tok.n, 0,
			       &b->pc[b->count++]);
		ptx_lex_next(&p->lex);
	} while (ptx_accept(p, ","));
	ptx_expect(p, ";");
}

/* True when the identifier here was a label. */
static bool
parse_label(struct ptx_parser *p)
{
	struct ptx_lex before = p->lex;
	struct ptx_tok t = p->lex.tok;

	if (t.kind != PTX_TOK_IDENT)
		return false;
	ptx_lex_next(&p->lex);
	if (!ptx_accept(p, ":")) {
		p->lex = before;
		return false;
	}
	if (ptx_tok_is(&p->lex.tok, ".callprototype") ||
	    ptx_tok_is(&p->lex.tok, ".calltargets") ||
	    ptx_tok_is(&p->lex.tok, ".branchtargets"))
		parse_label_directive(p, &t);
	else
		ptx_name_add(p, t.s, t.n, PTX_NAME_LABEL)->index =
			(int32_t)p->code.count;
	return true;
}

static void
parse_statement(struct ptx_parser *p)
{
	if (ptx_accept(p, ";"))
		return;
	if (ptx_accept(p, "{")) {
		ptx_scope_open(p);
		return;
	}
	if (p->lex.tok.kind == PTX_TOK_DOT) {
		parse_body_directive(p);
		return;
	}
	if (parse_label(p))
		return;
	parse_guard(p);
	parse_mnemonic(p);
	ptx_parse_operands(p);
	ptx_decode(p);
}

/* After the opening brace, in the function's own scope. */
void
ptx_parse_body(struct ptx_parser *p)
{
	unsigned base = p->depth;

	if ((unsigned)p->next_reg > p->f->nregs)
		p->f->nregs = (unsigned)p->next_reg;
	for (;;) {
		if (!ptx_tok_is(&p->lex.tok, "}")) {
			if (p->lex.tok.kind == PTX_TOK_EOF)
				ptx_fail_token(p);
			parse_statement(p);
			continue;
		}
		if (p->depth > base) {
			ptx_scope_close(p);
			ptx_lex_next(&p->lex);
			continue;
		}
		/* Falling off the end returns. */
		strcpy(p->op, "ret");
		strcpy(p->full, "ret");
		p->line = p->lex.tok.line;
		p->nmods = 0;
		p->nopnds = 0;
		p->guard = -1;
		ptx_decode(p);
		ptx_scope_close(p);
		ptx_finish_func(p);
		ptx_lex_next(&p->lex);
		return;
	}
}
