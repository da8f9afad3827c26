/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module level of PTX: headers, directives, declarations.
 *
 * Errors leave through longjmp to ptx_module_parse(), which owns every
 * allocation; a parser function therefore never holds memory of its own.
 */
#include "server/soft/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

void
ptx_fail(struct ptx_parser *p, int code, uint32_t line, const char *fmt, ...)
{
	va_list ap;

	if (p->log && p->log_size) {
		int n = snprintf(p->log, p->log_size, "line %u: ", line);

		va_start(ap, fmt);
		if (n > 0 && (size_t)n < p->log_size)
			vsnprintf(p->log + n, p->log_size - (size_t)n, fmt,
				  ap);
		va_end(ap);
	}
	longjmp(p->fail, code);
}

void
ptx_fail_token(struct ptx_parser *p)
{
	const struct ptx_tok *t = &p->lex.tok;
	int n = t->n > 80 ? 80 : (int)t->n;

	if (t->kind == PTX_TOK_EOF)
		ptx_fail(p, PTX_E_SYNTAX, t->line,
			 "syntax error: unexpected end of text");
	ptx_fail(p, PTX_E_SYNTAX, t->line, "syntax error near '%.*s'", n,
		 t->s);
}

void *
ptx_need(struct ptx_parser *p, void *ptr)
{
	if (!ptr)
		longjmp(p->fail, -12); /* -ENOMEM */
	return ptr;
}

bool
ptx_accept(struct ptx_parser *p, const char *s)
{
	if (!ptx_tok_is(&p->lex.tok, s))
		return false;
	ptx_lex_next(&p->lex);
	return true;
}

void
ptx_expect(struct ptx_parser *p, const char *s)
{
	if (!ptx_accept(p, s))
		ptx_fail_token(p);
}

uint64_t
ptx_expect_int(struct ptx_parser *p)
{
	uint64_t v = p->lex.tok.value;

	if (p->lex.tok.kind != PTX_TOK_INT)
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	return v;
}

/* ".version 9.0": lexed as a decimal, read from its text. */
static void
parse_version(struct ptx_parser *p)
{
	unsigned major = 0, minor = 0;
	const struct ptx_tok *t = &p->lex.tok;
	char buf[16] = "";

	if (t->kind != PTX_TOK_FLOAT || t->n >= sizeof(buf))
		ptx_fail_token(p);
	memcpy(buf, t->s, t->n);
	if (sscanf(buf, "%u.%u", &major, &minor) != 2 || minor > 9)
		ptx_fail_token(p);
	if (major > PTX_ISA_MAX_MAJOR ||
	    (major == PTX_ISA_MAX_MAJOR && minor > PTX_ISA_MAX_MINOR))
		ptx_fail(p, PTX_E_VERSION, t->line,
			 "unsupported .version %u.%u, at most %u.%u", major,
			 minor, PTX_ISA_MAX_MAJOR, PTX_ISA_MAX_MINOR);
	p->m->version = major * 10 + minor;
	ptx_lex_next(&p->lex);
}

static void
parse_one_target(struct ptx_parser *p)
{
	const struct ptx_tok *t = &p->lex.tok;
	unsigned sm = 0, n = 3;

	if (t->kind != PTX_TOK_IDENT)
		ptx_fail_token(p);
	if (t->n < 5 || memcmp(t->s, "sm_", 3)) {
		/* texmode_unified, debug, map_f64_to_f32 … */
		if (ptx_tok_is(t, "texmode_independent"))
			ptx_fail(p, PTX_E_UNSUPPORTED, t->line,
				 "unsupported .target texmode_independent");
		ptx_lex_next(&p->lex);
		return;
	}
	while (n < t->n && t->s[n] >= '0' && t->s[n] <= '9' && sm < 10000)
		sm = sm * 10 + (unsigned)(t->s[n++] - '0');
	if (sm > PTX_TARGET_MAX)
		ptx_fail(p, PTX_E_TARGET, t->line,
			 "unsupported .target %.*s, at most sm_%u",
			 t->n > 40 ? 40 : (int)t->n, t->s, PTX_TARGET_MAX);
	p->m->target = sm;
	ptx_lex_next(&p->lex);
}

static void
parse_target(struct ptx_parser *p)
{
	do
		parse_one_target(p);
	while (ptx_accept(p, ","));
}

/* From an opening bracket to the one that closes it. */
void
ptx_skip_balanced(struct ptx_parser *p, const char *open, const char *close)
{
	unsigned depth = 0;

	if (!ptx_tok_is(&p->lex.tok, open))
		ptx_fail_token(p);
	do {
		if (p->lex.tok.kind == PTX_TOK_EOF)
			ptx_fail_token(p);
		if (ptx_tok_is(&p->lex.tok, open))
			depth++;
		if (ptx_tok_is(&p->lex.tok, close))
			depth--;
		ptx_lex_next(&p->lex);
	} while (depth);
}

static void
parse_section(struct ptx_parser *p)
{
	ptx_lex_next(&p->lex); /* its name */
	ptx_skip_balanced(p, "{", "}");
}

/* .file 1 "name" [, stamp, size] */
static void
parse_file(struct ptx_parser *p)
{
	ptx_expect_int(p);
	if (p->lex.tok.kind != PTX_TOK_STRING)
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	while (ptx_accept(p, ","))
		ptx_expect_int(p);
}

static unsigned
parse_linkage(struct ptx_parser *p)
{
	unsigned linkage = 0;

	for (;;) {
		if (ptx_accept(p, ".extern"))
			linkage |= PTX_LINK_EXTERN;
		else if (ptx_accept(p, ".visible"))
			linkage |= PTX_LINK_VISIBLE;
		else if (ptx_accept(p, ".weak") || ptx_accept(p, ".common"))
			linkage |= PTX_LINK_WEAK;
		else
			return linkage;
	}
}

/* .alias a, b; : a is another name of the function b. */
static void
parse_alias(struct ptx_parser *p)
{
	struct ptx_name *a, *b;

	a = ptx_name_find(p, p->lex.tok.s, p->lex.tok.n);
	ptx_lex_next(&p->lex);
	ptx_expect(p, ",");
	b = ptx_name_find(p, p->lex.tok.s, p->lex.tok.n);
	if (!a || !b || a->kind != PTX_NAME_FUNC || b->kind != PTX_NAME_FUNC)
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	ptx_expect(p, ";");
	ptx_fail(p, PTX_E_UNSUPPORTED, p->lex.tok.line,
		 "unsupported directive '.alias'");
}

static void
parse_declaration(struct ptx_parser *p)
{
	unsigned linkage = parse_linkage(p);

	if (ptx_accept(p, ".entry"))
		ptx_parse_entry(p);
	else if (ptx_accept(p, ".func"))
		ptx_parse_func(p);
	else if (ptx_accept(p, ".global"))
		ptx_parse_variable(p, PTX_SPACE_GLOBAL, linkage);
	else if (ptx_accept(p, ".const"))
		ptx_parse_variable(p, PTX_SPACE_CONST, linkage);
	else if (ptx_accept(p, ".shared"))
		ptx_parse_variable(p, PTX_SPACE_SHARED, linkage);
	else if (ptx_tok_is(&p->lex.tok, ".local") ||
		 ptx_tok_is(&p->lex.tok, ".tex"))
		ptx_fail(p, PTX_E_UNSUPPORTED, p->lex.tok.line,
			 "unsupported module-level '%.*s'",
			 (int)p->lex.tok.n, p->lex.tok.s);
	else
		ptx_fail_token(p);
}

static void
parse_directive(struct ptx_parser *p)
{
	if (ptx_accept(p, ".file"))
		parse_file(p);
	else if (ptx_accept(p, ".section"))
		parse_section(p);
	else if (ptx_accept(p, ".alias"))
		parse_alias(p);
	else if (ptx_accept(p, ".pragma")) {
		ptx_lex_next(&p->lex);
		ptx_expect(p, ";");
	} else if (ptx_accept(p, ".target"))
		parse_target(p);
	else if (!ptx_accept(p, ";"))
		parse_declaration(p);
}

void
ptx_parse_module(struct ptx_parser *p)
{
	ptx_expect(p, ".version");
	parse_version(p);
	ptx_expect(p, ".target");
	parse_target(p);
	if (ptx_accept(p, ".address_size") && ptx_expect_int(p) != 64)
		ptx_fail(p, PTX_E_UNSUPPORTED, p->lex.tok.line,
			 "unsupported .address_size, only 64 is");
	while (p->lex.tok.kind != PTX_TOK_EOF)
		parse_directive(p);
}
