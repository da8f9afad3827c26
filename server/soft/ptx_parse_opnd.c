/* SPDX-License-Identifier: Apache-2.0 */
/* Constant expressions and operands of PTX statements. */
#include "server/soft/ptx_parse.h"

#include <string.h>

static uint64_t parse_expr(struct ptx_parser *p, int min_level,
			   unsigned depth);

static uint64_t
parse_expr_unary(struct ptx_parser *p, unsigned depth)
{
	uint64_t v;

	if (depth > 64)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "expression is nested too deeply");
	if (ptx_accept(p, "-"))
		return -parse_expr_unary(p, depth + 1);
	if (ptx_accept(p, "+"))
		return parse_expr_unary(p, depth + 1);
	if (ptx_accept(p, "~"))
		return ~parse_expr_unary(p, depth + 1);
	if (ptx_accept(p, "!"))
		return !parse_expr_unary(p, depth + 1);
	if (ptx_accept(p, "(")) {
		if (ptx_accept(p, ".s64") || ptx_accept(p, ".u64")) {
			ptx_expect(p, ")");
			return parse_expr_unary(p, depth + 1);
		}
		v = parse_expr(p, 0, depth + 1);
		ptx_expect(p, ")");
		return v;
	}
	if (ptx_accept(p, "WARP_SZ"))
		return PTX_LANES;
	if (p->lex.tok.kind != PTX_TOK_INT)
		ptx_fail_token(p);
	v = p->lex.tok.value;
	ptx_lex_next(&p->lex);
	return v;
}

static const struct {
	const char *text;
	int level;
} operators[] = {
	{ "||", 1 }, { "&&", 2 }, { "==", 6 }, { "!=", 6 }, { "<=", 7 },
	{ ">=", 7 }, { "<<", 8 }, { ">>", 8 }, { "|", 3 }, { "^", 4 },
	{ "&", 5 }, { "<", 7 }, { ">", 7 }, { "+", 9 }, { "-", 9 },
	{ "*", 10 }, { "/", 10 }, { "%", 10 },
};

/* The operator that stands here, two characters before one; or -1. */
static int
peek_operator(const struct ptx_parser *p)
{
	const struct ptx_tok *t = &p->lex.tok;
	bool has_two = p->lex.end - t->s >= 2;

	if (t->kind != PTX_TOK_PUNCT)
		return -1;
	for (int i = 0; i < (int)(sizeof(operators) / sizeof(*operators));
	     i++) {
		const char *o = operators[i].text;

		if (o[0] == t->s[0] &&
		    (!o[1] || (has_two && o[1] == t->s[1])))
			return i;
	}
	return -1;
}

static uint64_t
apply(struct ptx_parser *p, const char *o, uint64_t a, uint64_t b)
{
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (o[0]) {
	case '+':
		return a + b;
	case '-':
		return a - b;
	case '*':
		return a * b;
	case '/':
	case '%':
		if (!b || (sb == -1 && sa == INT64_MIN))
			ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
				 "division by zero");
		return (uint64_t)(o[0] == '/' ? sa / sb : sa % sb);
	case '<':
		if (o[1] == '<')
			return b < 64 ? a << b : 0;
		return o[1] ? sa <= sb : sa < sb;
	case '>':
		if (o[1] == '>')
			return b < 64 ? a >> b : 0;
		return o[1] ? sa >= sb : sa > sb;
	case '=':
		return a == b;
	case '!':
		return a != b;
	case '&':
		return o[1] ? a && b : (a & b);
	case '|':
		return o[1] ? a || b : (a | b);
	default:
		return a ^ b;
	}
}

static uint64_t
parse_expr(struct ptx_parser *p, int min_level, unsigned depth)
{
	uint64_t v = parse_expr_unary(p, depth);
	int o;

	while ((o = peek_operator(p)) >= 0 &&
	       operators[o].level > min_level) {
		ptx_lex_next(&p->lex);
		if (operators[o].text[1])
			ptx_lex_next(&p->lex);
		v = apply(p, operators[o].text, v,
			  parse_expr(p, operators[o].level, depth + 1));
	}
	if (min_level == 0 && ptx_accept(p, "?")) {
		uint64_t a = parse_expr(p, 0, depth + 1), b;

		ptx_expect(p, ":");
		b = parse_expr(p, 0, depth + 1);
		v = v ? a : b;
	}
	return v;
}

int64_t
ptx_const_expr(struct ptx_parser *p)
{
	return (int64_t)parse_expr(p, 0, 0);
}

static void
parse_offset(struct ptx_parser *p, struct ptx_opnd *o)
{
	if (ptx_tok_is(&p->lex.tok, "+") || ptx_tok_is(&p->lex.tok, "-"))
		o->imm = (uint64_t)ptx_const_expr(p);
}

/* Part of a register, an operand of the video instructions. */
static void
parse_selector(struct ptx_parser *p, struct ptx_opnd *o)
{
	static const char *const words[] = {
		".b0", ".b1", ".b2", ".b3", ".h0", ".h1",
	};

	if (p->lex.tok.kind != PTX_TOK_DOT || !p->lex.tok.is_glued)
		return;
	for (uint8_t k = 0; k < 6; k++) {
		if (ptx_accept(p, words[k])) {
			o->sel = k + 1;
			return;
		}
	}
	ptx_fail_token(p);
}

static unsigned
push_elem(struct ptx_parser *p, const struct ptx_opnd *o)
{
	if (p->nelems >= PTX_MAX_ELEMS)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "too many operands");
	p->elems[p->nelems] = *o;
	return p->nelems++;
}

/* A vector register: one element of it, or all as if in braces. */
static void
parse_vector(struct ptx_parser *p, struct ptx_opnd *o,
	     const struct ptx_name *name)
{
	static const char *const words[] = { ".x", ".y", ".z", ".w",
					     ".r", ".g", ".b", ".a" };
	struct ptx_opnd e = {
		.kind = PTX_O_REG, .type = name->type, .word = o->word,
		.word_size = o->word_size,
	};

	if (p->lex.tok.kind == PTX_TOK_DOT && p->lex.tok.is_glued) {
		for (unsigned k = 0; k < 8; k++) {
			if (k % 4 >= name->vec || !ptx_accept(p, words[k]))
				continue;
			*o = e;
			o->slot = name->index + (int32_t)(k % 4);
			return;
		}
		ptx_fail_token(p);
	}
	o->kind = PTX_O_VEC;
	o->first = p->nelems;
	o->count = name->vec;
	for (unsigned k = 0; k < name->vec; k++) {
		e.slot = name->index + (int32_t)k;
		push_elem(p, &e);
	}
}

static void
parse_ident(struct ptx_parser *p, struct ptx_opnd *o)
{
	struct ptx_tok t = p->lex.tok;
	struct ptx_name *name = ptx_name_find(p, t.s, t.n);

	ptx_lex_next(&p->lex);
	o->word = t.s;
	o->word_size = t.n;
	if (name && name->kind == PTX_NAME_REG && name->vec) {
		parse_vector(p, o, name);
	} else if (name && name->kind == PTX_NAME_REG) {
		o->kind = PTX_O_REG;
		o->slot = name->index;
		o->type = name->type;
		parse_selector(p, o);
	} else if (name) {
		o->kind = PTX_O_NAME;
		o->name = name;
		parse_offset(p, o);
	} else if (t.n == 1 && t.s[0] == '_') {
		o->kind = PTX_O_SINK;
	} else if (t.s[0] == '%') {
		o->kind = PTX_O_SREG;
		if (p->lex.tok.kind == PTX_TOK_DOT && p->lex.tok.is_glued) {
			o->word_size += p->lex.tok.n;
			ptx_lex_next(&p->lex);
		}
	} else {
		o->kind = PTX_O_WORD;
	}
}

static void
parse_float(struct ptx_parser *p, struct ptx_opnd *o, bool is_neg)
{
	o->kind = PTX_O_FIMM;
	o->fbits = p->lex.tok.fbits;
	o->imm = p->lex.tok.value;
	if (is_neg)
		o->imm ^= o->fbits == 32 ? 1ull << 31 : 1ull << 63;
	ptx_lex_next(&p->lex);
}

/* Register, constant, name or sink. */
static void
parse_simple(struct ptx_parser *p, struct ptx_opnd *o)
{
	const struct ptx_tok *t = &p->lex.tok;

	*o = (struct ptx_opnd){ 0 };
	if (ptx_accept(p, "!"))
		o->is_neg = true;
	if (t->kind == PTX_TOK_FLOAT) {
		parse_float(p, o, false);
		return;
	}
	if (t->kind == PTX_TOK_IDENT && !ptx_tok_is(t, "WARP_SZ")) {
		parse_ident(p, o);
		return;
	}
	if (ptx_tok_is(t, "-")) {
		struct ptx_lex before = p->lex;

		ptx_lex_next(&p->lex);
		if (t->kind == PTX_TOK_FLOAT) {
			parse_float(p, o, true);
			return;
		}
		p->lex = before;
	}
	o->kind = PTX_O_IMM;
	o->imm = (uint64_t)ptx_const_expr(p);
}

/* Simple operands up to the closing bracket, one after the other. */
static void
parse_elems(struct ptx_parser *p, struct ptx_opnd *o, const char *close)
{
	struct ptx_opnd e;

	o->first = p->nelems;
	while (!ptx_accept(p, close)) {
		if (o->count)
			ptx_expect(p, ",");
		parse_simple(p, &e);
		if (e.kind == PTX_O_VEC)
			ptx_fail_token(p);
		push_elem(p, &e);
		o->count++;
	}
}

/* [base + offset, {…}, x] */
static void
parse_address(struct ptx_parser *p, struct ptx_opnd *o)
{
	struct ptx_opnd extra[3];
	unsigned n = 0;

	parse_simple(p, o);
	if (o->kind == PTX_O_REG)
		parse_offset(p, o);
	if (o->kind == PTX_O_FIMM || o->kind == PTX_O_SINK || o->is_neg)
		ptx_fail_token(p);
	o->base = o->kind;
	o->kind = PTX_O_ADDR;
	while (ptx_accept(p, ",")) {
		if (n == 3)
			ptx_fail_token(p);
		if (ptx_accept(p, "{")) {
			extra[n] = (struct ptx_opnd){ .kind = PTX_O_VEC };
			parse_elems(p, &extra[n], "}");
		} else {
			parse_simple(p, &extra[n]);
		}
		n++;
	}
	o->first = p->nelems;
	o->count = n;
	for (unsigned i = 0; i < n; i++)
		push_elem(p, &extra[i]);
	ptx_expect(p, "]");
}

static void
parse_operand(struct ptx_parser *p, struct ptx_opnd *o)
{
	struct ptx_opnd second;

	*o = (struct ptx_opnd){ 0 };
	if (ptx_accept(p, "[")) {
		parse_address(p, o);
		return;
	}
	if (ptx_accept(p, "{")) {
		o->kind = PTX_O_VEC;
		parse_elems(p, o, "}");
		return;
	}
	if (!strcmp(p->op, "call") && ptx_accept(p, "(")) {
		o->kind = PTX_O_LIST;
		parse_elems(p, o, ")");
		return;
	}
	parse_simple(p, o);
	if (!ptx_accept(p, "|"))
		return;
	parse_simple(p, &second);
	unsigned first = push_elem(p, o);

	push_elem(p, &second);
	*o = (struct ptx_opnd){
		.kind = PTX_O_PAIR,
		.first = first,
		.count = 2,
	};
}

void
ptx_parse_operands(struct ptx_parser *p)
{
	p->nopnds = 0;
	p->nelems = 0;
	while (!ptx_accept(p, ";")) {
		if (p->nopnds)
			ptx_expect(p, ",");
		if (p->nopnds >= PTX_MAX_OPNDS)
			ptx_fail_token(p);
		parse_operand(p, &p->opnds[p->nopnds++]);
	}
}
