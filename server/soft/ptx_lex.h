/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of PTX text.
 * Used by the parser (server/soft/ptx_parse*.c) only.
 */
#ifndef SERVER_SOFT_PTX_LEX_H
#define SERVER_SOFT_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_tok_kind {
	PTX_TOK_EOF,
	PTX_TOK_IDENT,
	PTX_TOK_DOT,      /* .word, with its dot; may hold "::" */
	PTX_TOK_INT,
	PTX_TOK_FLOAT,    /* value holds the bits, fbits says how wide */
	PTX_TOK_STRING,
	PTX_TOK_PUNCT,
	PTX_TOK_BAD,
};

struct ptx_tok {
	enum ptx_tok_kind kind;
	const char *s;    /* into the text, n bytes */
	size_t n;
	uint64_t value;
	unsigned fbits;   /* 32 for 0f…, 64 for 0d… and decimals */
	uint32_t line;
	bool is_glued;    /* no white space before it */
};

struct ptx_lex {
	const char *p, *end;
	uint32_t line;
	struct ptx_tok tok;  /* the current token */
};

void ptx_lex_init(struct ptx_lex *lex, const char *text, size_t size);
void ptx_lex_next(struct ptx_lex *lex);
bool ptx_tok_is(const struct ptx_tok *tok, const char *s);

#endif
