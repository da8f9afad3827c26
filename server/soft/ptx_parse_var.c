/* SPDX-License-Identifier: Apache-2.0 */
/* Variable declarations of PTX and their initial values. */
#include "server/soft/ptx_parse.h"

#include <string.h>

#define MAX_VAR_SIZE (1ull << 40)
#define MAX_INIT_SIZE (1ull << 31)

struct decl {
	int space, type;
	unsigned vec;          /* elements of .v2, .v4 */
	uint64_t align;
	uint64_t dims[8];
	unsigned ndims;
	bool is_open;          /* [] */
	bool is_managed, is_ref;
	unsigned linkage;
	const char *name;
	size_t name_size;
	uint64_t elem_size, size;
};

/* Bytes of an initialiser as they become known. */
struct init {
	struct ptx_vec bytes;  /* its data is arena memory */
	struct ptx_vec *relocs;
	size_t at;
};

static bool
parse_decl_word(struct ptx_parser *p, struct decl *d)
{
	char word[24] = "";
	const struct ptx_tok *t = &p->lex.tok;

	if (t->kind != PTX_TOK_DOT || t->n - 1 >= sizeof(word))
		return false;
	memcpy(word, t->s + 1, t->n - 1);
	if (!strcmp(word, "v2") || !strcmp(word, "v4")) {
		d->vec = (unsigned)(word[1] - '0');
	} else if (!strcmp(word, "align")) {
		ptx_lex_next(&p->lex);
		d->align = t->value;
		if (t->kind != PTX_TOK_INT || !d->align || d->align > 4096 ||
		    (d->align & (d->align - 1)))
			ptx_fail_token(p);
	} else if (!strcmp(word, "attribute")) {
		ptx_lex_next(&p->lex);
		ptx_expect(p, "(");
		if (!ptx_tok_is(t, ".managed"))
			ptx_fail(p, PTX_E_UNSUPPORTED, t->line,
				 "unsupported .attribute");
		ptx_lex_next(&p->lex);
		d->is_managed = true;
		if (!ptx_tok_is(t, ")"))
			ptx_fail_token(p);
	} else if (!strcmp(word, "texref") || !strcmp(word, "surfref") ||
		   !strcmp(word, "samplerref")) {
		d->is_ref = true;
		d->type = PTX_T_B64;
	} else if (!strcmp(word, "ptr")) {
		/* attribute of a pointer: no influence */
	} else {
		d->type = ptx_type_named(word);
		if (!d->type || d->type == PTX_T_PRED)
			return false;
	}
	ptx_lex_next(&p->lex);
	return true;
}

static void
parse_dims(struct ptx_parser *p, struct decl *d)
{
	d->ndims = 0;
	d->is_open = false;
	d->size = d->elem_size;
	while (ptx_accept(p, "[")) {
		int64_t n = 0;

		if (d->ndims >= 8)
			ptx_fail_token(p);
		if (ptx_tok_is(&p->lex.tok, "]")) {
			if (d->ndims)
				ptx_fail_token(p);
			d->is_open = true;
			n = 1;
		} else {
			n = ptx_const_expr(p);
		}
		ptx_expect(p, "]");
		if (n < 0 || __builtin_mul_overflow(d->size, (uint64_t)n,
						    &d->size) ||
		    d->size > MAX_VAR_SIZE)
			ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
				 "'%.*s' is too large",
				 d->name_size > 80 ? 80 : (int)d->name_size,
				 d->name);
		d->dims[d->ndims++] = (uint64_t)n;
	}
}

static void
init_write(struct ptx_parser *p, struct init *in, size_t at,
	   const void *data, size_t n)
{
	struct ptx_vec *v = &in->bytes;

	if (at + n > MAX_INIT_SIZE)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "too many initial values");
	if (at + n > v->cap) {
		size_t cap = v->cap ? 2 * v->cap : 256;
		void *more;

		while (cap < at + n)
			cap *= 2;
		more = ptx_need(p, ptx_arena_alloc(&p->m->arena, cap));
		if (v->count)
			memcpy(more, v->data, v->count);
		v->data = more;
		v->cap = cap;
	}
	memcpy((char *)v->data + at, data, n);
	if (at + n > v->count)
		v->count = at + n;
}

/* name, name+4, generic(name)+4, 0xFF00(name); the name is known to come. */
static void
parse_init_address(struct ptx_parser *p, const struct decl *d,
		   struct init *in, uint64_t mask)
{
	struct ptx_name *name;
	struct ptx_reloc *r;
	bool is_generic = ptx_accept(p, "generic");
	unsigned shift = 0;

	if (is_generic)
		ptx_expect(p, "(");
	name = ptx_name_find(p, p->lex.tok.s, p->lex.tok.n);
	if (p->lex.tok.kind != PTX_TOK_IDENT || !name ||
	    (name->kind != PTX_NAME_VAR && name->kind != PTX_NAME_FUNC))
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	if (is_generic)
		ptx_expect(p, ")");
	while (mask && !(mask & 0xff)) {
		mask >>= 8;
		shift += 8;
	}
	r = ptx_need(p, ptx_vec_push(in->relocs, sizeof(*r)));
	r->kind = PTX_RELOC_SYMBOL;
	if (name->kind == PTX_NAME_FUNC) {
		r->kind = PTX_RELOC_FUNC;
		ptx_func_at(p->m, (size_t)name->index)->is_address_taken =
			true;
	}
	r->index = (uint32_t)name->index;
	r->place = (uint32_t)in->at;
	r->size = (uint8_t)ptx_type_size(d->type);
	r->shift = (uint8_t)shift;
	if (ptx_tok_is(&p->lex.tok, "+") || ptx_tok_is(&p->lex.tok, "-"))
		r->addend = ptx_const_expr(p);
}

static void
parse_init_scalar(struct ptx_parser *p, const struct decl *d,
		  struct init *in)
{
	unsigned n = ptx_type_size(d->type);
	const struct ptx_tok *t = &p->lex.tok;
	uint64_t v[2] = { 0 };
	bool is_neg = false;

	if (t->kind == PTX_TOK_IDENT && !ptx_tok_is(t, "WARP_SZ")) {
		parse_init_address(p, d, in, 0xff);
	} else {
		struct ptx_lex before = p->lex;

		if (ptx_accept(p, "-"))
			is_neg = true;
		if (t->kind == PTX_TOK_FLOAT) {
			v[0] = t->value;
			if (is_neg)
				v[0] ^= t->fbits == 32 ? 1ull << 31
						       : 1ull << 63;
			v[0] = ptx_float_bits(v[0], t->fbits, d->type);
			ptx_lex_next(&p->lex);
		} else if (t->kind == PTX_TOK_INT && !is_neg) {
			/* 0xFF(name) is a byte of an address */
			uint64_t mask = t->value;

			ptx_lex_next(&p->lex);
			if (ptx_accept(p, "(")) {
				parse_init_address(p, d, in, mask);
				ptx_expect(p, ")");
			} else {
				p->lex = before;
				v[0] = (uint64_t)ptx_const_expr(p);
			}
		} else {
			p->lex = before;
			v[0] = (uint64_t)ptx_const_expr(p);
		}
	}
	if (n == 16 && (int64_t)v[0] < 0 && is_neg)
		v[1] = ~0ull;
	init_write(p, in, in->at, v, n);
	in->at += n;
}

/*
 * Values of dimension `dim` and inwards. An inner brace starts a row at its
 * boundary; rows that are short end in zeros.
 */
static void
parse_init_list(struct ptx_parser *p, const struct decl *d, struct init *in,
		unsigned dim)
{
	uint64_t row = d->elem_size;
	unsigned n = 0;

	if (dim > 8)
		ptx_fail_token(p);
	for (unsigned i = dim + 1; i < d->ndims; i++)
		row *= d->dims[i];
	while (!ptx_accept(p, "}")) {
		if (n++)
			ptx_expect(p, ",");
		if (ptx_accept(p, "{")) {
			size_t start = in->at;

			parse_init_list(p, d, in, dim + 1);
			if (row < in->at - start)
				row = in->at - start;
			in->at = start + row;
		} else {
			parse_init_scalar(p, d, in);
		}
		if (!d->is_open && in->at > d->size)
			ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
				 "too many initial values");
	}
}

static void
parse_init(struct ptx_parser *p, struct decl *d, struct ptx_var *var)
{
	struct init in = { .relocs = &var->relocs };

	if (ptx_accept(p, "{"))
		parse_init_list(p, d, &in, 0);
	else
		parse_init_scalar(p, d, &in);
	if (d->is_open && in.at > d->size)
		d->size = (in.at + d->elem_size - 1) / d->elem_size *
			  d->elem_size;
	var->init = in.bytes.data;
	var->init_size = in.bytes.count;
}

static void
declare_global(struct ptx_parser *p, struct decl *d)
{
	struct ptx_name *name = ptx_name_find(p, d->name, d->name_size);
	struct ptx_var *var, **item;

	if (name && name->kind == PTX_NAME_VAR && name->depth == p->depth &&
	    (ptx_var_at(p->m, (size_t)name->index)->is_extern ||
	     (d->linkage & PTX_LINK_EXTERN))) {
		var = ptx_var_at(p->m, (size_t)name->index);
	} else {
		name = ptx_name_add(p, d->name, d->name_size, PTX_NAME_VAR);
		var = ptx_need(p, ptx_arena_alloc(&p->m->arena,
						  sizeof(*var)));
		name->index = (int32_t)p->m->vars.count;
		item = ptx_need(p, ptx_vec_push(&p->m->vars, sizeof(*item)));
		*item = var;
		var->is_extern = true;
		var->sym.name = ptx_need(p, ptx_arena_strndup(
			&p->m->arena, d->name, d->name_size));
	}
	if (!var->is_extern)
		return;
	var->is_extern = d->linkage & PTX_LINK_EXTERN;
	if (ptx_accept(p, "="))
		parse_init(p, d, var);
	var->sym.space = (enum ptx_space)d->space;
	var->sym.size = d->size;
	var->sym.align = d->align;
	var->sym.managed = d->is_managed;
	var->sym.is_texref = d->is_ref;
}

static void
declare_shared(struct ptx_parser *p, const struct decl *d)
{
	struct ptx_name *name = ptx_name_find(p, d->name, d->name_size);
	struct ptx_shared *s;
	bool is_dynamic = d->linkage & PTX_LINK_EXTERN;

	/* Every declaration of an extern array is the same array. */
	if (name && name->kind == PTX_NAME_SHARED &&
	    name->depth == p->depth) {
		if (is_dynamic)
			return;
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "'%.80s' is declared twice", name->text);
	}
	name = ptx_name_add(p, d->name, d->name_size, PTX_NAME_SHARED);
	name->index = (int32_t)p->m->shared.count;
	s = ptx_need(p, ptx_vec_push(&p->m->shared, sizeof(*s)));
	s->name = ptx_need(p, ptx_arena_strndup(&p->m->arena, d->name,
						d->name_size));
	s->size = d->is_open ? 0 : d->size;
	s->align = d->align;
	s->is_dynamic = is_dynamic;
}

static void
declare_local(struct ptx_parser *p, const struct decl *d)
{
	struct ptx_name *name;

	name = ptx_name_add(p, d->name, d->name_size, PTX_NAME_LOCAL);
	p->f->local_size = (p->f->local_size + d->align - 1) &
			   ~(d->align - 1);
	name->offset = (uint32_t)p->f->local_size;
	p->f->local_size += d->size;
	if (p->f->local_size > PTX_LOCAL_MAX)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "too much local memory");
}

uint32_t
ptx_param_reserve(struct ptx_parser *p, size_t size, size_t align)
{
	uint64_t at = (p->next_param + align - 1) & ~(uint64_t)(align - 1);

	if (size > PTX_LOCAL_MAX || at + size > PTX_LOCAL_MAX)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "too many parameter bytes");
	p->next_param = (uint32_t)(at + size);
	if (p->next_param > p->f->param_size)
		p->f->param_size = p->next_param;
	return (uint32_t)at;
}

static void
declare_param(struct ptx_parser *p, const struct decl *d)
{
	struct ptx_name *name;

	name = ptx_name_add(p, d->name, d->name_size, PTX_NAME_PARAM);
	name->type = d->type;
	name->size = (uint32_t)d->size;
	name->offset = ptx_param_reserve(p, d->size, d->align);
}

static void
declare(struct ptx_parser *p, struct decl *d)
{
	const struct ptx_tok *t = &p->lex.tok;

	if (t->kind != PTX_TOK_IDENT)
		ptx_fail_token(p);
	d->name = t->s;
	d->name_size = t->n;
	ptx_lex_next(&p->lex);
	parse_dims(p, d);
	switch (d->space) {
	case PTX_SPACE_GLOBAL:
	case PTX_SPACE_CONST:
		declare_global(p, d);
		break;
	case PTX_SPACE_SHARED:
		declare_shared(p, d);
		break;
	case PTX_SPACE_LOCAL:
		declare_local(p, d);
		break;
	default:
		declare_param(p, d);
	}
}

/* After ".global" and its like, up to the semicolon. */
void
ptx_parse_variable(struct ptx_parser *p, int space, unsigned linkage)
{
	struct decl d = { .space = space, .linkage = linkage, .vec = 1 };

	if (ptx_accept(p, "[")) { /* .const[bank] */
		ptx_const_expr(p);
		ptx_expect(p, "]");
	}
	while (parse_decl_word(p, &d))
		;
	if (!d.type)
		ptx_fail_token(p);
	d.elem_size = (uint64_t)ptx_type_size(d.type) * d.vec;
	if (!d.align)
		d.align = d.elem_size;
	do
		declare(p, &d);
	while (ptx_accept(p, ","));
	ptx_expect(p, ";");
}
