/* SPDX-License-Identifier: Apache-2.0 */
#include "server/soft/ptx_lex.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool
is_word(int c)
{
	return isalnum(c) || c == '_' || c == '$';
}

static int
peek(const struct ptx_lex *lex, size_t at)
{
	if ((size_t)(lex->end - lex->p) <= at)
		return 0;
	return (unsigned char)lex->p[at];
}

static void
skip_block_comment(struct ptx_lex *lex)
{
	lex->p += 2;
	while (lex->p < lex->end) {
		if (peek(lex, 0) == '*' && peek(lex, 1) == '/') {
			lex->p += 2;
			return;
		}
		lex->line += *lex->p++ == '\n';
	}
}

static void
skip_line(struct ptx_lex *lex)
{
	while (lex->p < lex->end && *lex->p != '\n')
		lex->p++;
}

static void
skip_space(struct ptx_lex *lex)
{
	for (;;) {
		int c = peek(lex, 0);

		if (lex->p >= lex->end)
			return;
		if (c == '\n')
			lex->line++;
		if (isspace(c)) {
			lex->p++;
		} else if (c == '/' && peek(lex, 1) == '/') {
			skip_line(lex);
		} else if (c == '/' && peek(lex, 1) == '*') {
			skip_block_comment(lex);
		} else if (c == '@' && peek(lex, 1) == '@') {
			skip_line(lex); /* @@DWARF */
		} else {
			return;
		}
	}
}

/* 0f and eight digits, 0d and sixteen: the bits themselves. */
static bool
lex_hex_float(struct ptx_lex *lex, unsigned digits)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < digits; i++) {
		int c = peek(lex, 2 + i);

		if (!isxdigit(c))
			return false;
		v = v << 4 | (unsigned)(isdigit(c) ? c - '0'
					: (c | 32) - 'a' + 10);
	}
	if (is_word(peek(lex, 2 + digits)))
		return false;
	lex->tok.kind = PTX_TOK_FLOAT;
	lex->tok.value = v;
	lex->tok.fbits = 4 * digits;
	lex->p += 2 + digits;
	return true;
}

static void
lex_decimal_float(struct ptx_lex *lex, size_t n)
{
	char buf[64];
	double d;

	if (n >= sizeof(buf)) {
		lex->p += n;
		return;
	}
	memcpy(buf, lex->p, n);
	buf[n] = 0;
	d = strtod(buf, NULL);
	memcpy(&lex->tok.value, &d, sizeof(d));
	lex->tok.fbits = 64;
	lex->tok.kind = PTX_TOK_FLOAT;
	lex->p += n;
}

/* Length of 1.5e-3 and its kin at p; 0 when it is an integer. */
static size_t
decimal_float_size(const struct ptx_lex *lex)
{
	size_t n = 0;
	bool is_float = false;

	while (isdigit(peek(lex, n)))
		n++;
	if (peek(lex, n) == '.' && !isalpha(peek(lex, n + 1)) &&
	    peek(lex, n + 1) != '_') {
		is_float = true;
		n++;
		while (isdigit(peek(lex, n)))
			n++;
	}
	if ((peek(lex, n) | 32) == 'e') {
		size_t e = n + 1;

		if (peek(lex, e) == '+' || peek(lex, e) == '-')
			e++;
		if (isdigit(peek(lex, e))) {
			is_float = true;
			while (isdigit(peek(lex, e)))
				e++;
			n = e;
		}
	}
	return is_float ? n : 0;
}

static void
lex_integer(struct ptx_lex *lex)
{
	char buf[80];
	char *stop;
	size_t n = 0;
	int base = 0;
	const char *digits = buf;

	while (n < sizeof(buf) - 1 && is_word(peek(lex, n))) {
		buf[n] = (char)peek(lex, n);
		n++;
	}
	buf[n] = 0;
	lex->p += n;
	if (n && (buf[n - 1] | 32) == 'u')
		buf[n - 1] = 0;
	if (buf[0] == '0' && (buf[1] | 32) == 'b') {
		base = 2;
		digits = buf + 2;
	}
	errno = 0;
	lex->tok.value = strtoull(digits, &stop, base);
	if (*stop == 0 && stop != digits && !errno)
		lex->tok.kind = PTX_TOK_INT;
}

static void
lex_number(struct ptx_lex *lex)
{
	int c = peek(lex, 1) | 32;
	size_t n;

	if (peek(lex, 0) == '0' && c == 'f' && lex_hex_float(lex, 8))
		return;
	if (peek(lex, 0) == '0' && c == 'd' && lex_hex_float(lex, 16))
		return;
	n = peek(lex, 0) == '0' && c == 'x' ? 0 : decimal_float_size(lex);
	if (n)
		lex_decimal_float(lex, n);
	else
		lex_integer(lex);
}

static void
lex_string(struct ptx_lex *lex)
{
	lex->p++;
	while (lex->p < lex->end && *lex->p != '"' && *lex->p != '\n') {
		if (*lex->p == '\\' && lex->end - lex->p > 1 &&
		    lex->p[1] != '\n')
			lex->p++;
		lex->p++;
	}
	if (lex->p < lex->end && *lex->p == '"') {
		lex->p++;
		lex->tok.kind = PTX_TOK_STRING;
	}
}

static void
lex_dot(struct ptx_lex *lex)
{
	lex->p++;
	for (;;) {
		if (is_word(peek(lex, 0)))
			lex->p++;
		else if (peek(lex, 0) == ':' && peek(lex, 1) == ':' &&
			 is_word(peek(lex, 2)))
			lex->p += 2;
		else
			break;
	}
	lex->tok.kind = PTX_TOK_DOT;
}

void
ptx_lex_next(struct ptx_lex *lex)
{
	const char *before = lex->p;
	int c;

	skip_space(lex);
	lex->tok = (struct ptx_tok){
		.kind = PTX_TOK_BAD,
		.s = lex->p,
		.line = lex->line,
		.is_glued = lex->p == before,
	};
	c = peek(lex, 0);
	if (lex->p >= lex->end) {
		lex->tok.kind = PTX_TOK_EOF;
	} else if (isdigit(c)) {
		lex_number(lex);
	} else if (c == '"') {
		lex_string(lex);
	} else if (c == '.' && is_word(peek(lex, 1))) {
		lex_dot(lex);
	} else if (isalpha(c) ||
		   ((c == '_' || c == '$' || c == '%') &&
		    is_word(peek(lex, 1)))) {
		lex->tok.kind = PTX_TOK_IDENT;
		lex->p++;
		while (is_word(peek(lex, 0)))
			lex->p++;
	} else {
		if (c == '_')
			lex->tok.kind = PTX_TOK_IDENT;
		else if (strchr(",;:{}[]()<>@!|+-*/%~&^=?", c))
			lex->tok.kind = PTX_TOK_PUNCT;
		lex->p++;
	}
	lex->tok.n = (size_t)(lex->p - lex->tok.s);
}

void
ptx_lex_init(struct ptx_lex *lex, const char *text, size_t size)
{
	const char *nul = memchr(text, 0, size);

	*lex = (struct ptx_lex){
		.p = text,
		.end = nul ? nul : text + size,
		.line = 1,
	};
	ptx_lex_next(lex);
}

bool
ptx_tok_is(const struct ptx_tok *tok, const char *s)
{
	return (tok->kind == PTX_TOK_IDENT || tok->kind == PTX_TOK_DOT ||
		tok->kind == PTX_TOK_PUNCT) &&
	       strlen(s) == tok->n && !memcmp(tok->s, s, tok->n);
}
