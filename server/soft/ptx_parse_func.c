/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and kernels of PTX: their signatures and tuning directives. */
#include "server/soft/ptx_parse.h"

#include <string.h>

/* One formal parameter as it stands in the text. */
struct formal {
	const char *name;
	size_t name_size;
	int type;
	bool is_reg;
	uint64_t size, align;
};

#define MAX_FORMALS 4096

static void
parse_ptr_attribute(struct ptx_parser *p)
{
	for (;;) {
		if (ptx_accept(p, ".const") || ptx_accept(p, ".global") ||
		    ptx_accept(p, ".shared") || ptx_accept(p, ".local"))
			continue;
		if (!ptx_accept(p, ".align"))
			return;
		ptx_expect_int(p);
	}
}

static int
expect_type(struct ptx_parser *p)
{
	char name[16] = "";
	int type = PTX_T_NONE;
	const struct ptx_tok *t = &p->lex.tok;

	if (t->kind == PTX_TOK_DOT && t->n - 1 < sizeof(name)) {
		memcpy(name, t->s + 1, t->n - 1);
		type = ptx_type_named(name);
	}
	if (!type)
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	return type;
}

static void
parse_formal(struct ptx_parser *p, struct formal *f)
{
	*f = (struct formal){ 0 };
	f->is_reg = ptx_tok_is(&p->lex.tok, ".reg");
	if (!f->is_reg && !ptx_tok_is(&p->lex.tok, ".param"))
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	if (ptx_accept(p, ".align"))
		f->align = ptx_expect_int(p);
	f->type = expect_type(p);
	f->size = ptx_type_size(f->type);
	if (ptx_accept(p, ".ptr"))
		parse_ptr_attribute(p);
	if (ptx_accept(p, ".align"))
		f->align = ptx_expect_int(p);
	if (!f->align)
		f->align = f->size;
	if (p->lex.tok.kind != PTX_TOK_IDENT)
		ptx_fail_token(p);
	f->name = p->lex.tok.s;
	f->name_size = p->lex.tok.n;
	ptx_lex_next(&p->lex);
	while (ptx_accept(p, "[")) {
		/* "[]": the variadic tail, passed by address */
		uint64_t n = ptx_tok_is(&p->lex.tok, "]") ? 0
							  : ptx_expect_int(p);

		ptx_expect(p, "]");
		if (n > (1u << 20) || f->size > (1u << 20))
			ptx_fail_token(p);
		f->size *= n;
	}
	if (f->align > 128 || (f->align & (f->align - 1)) || !f->align)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line, "bad alignment");
	if (f->is_reg && (f->type == PTX_T_PRED || f->type == PTX_T_B128))
		ptx_fail(p, PTX_E_UNSUPPORTED, p->lex.tok.line,
			 "unsupported register parameter");
}

static unsigned
parse_formals(struct ptx_parser *p, struct formal **out)
{
	struct ptx_vec v = { 0 };
	struct formal f, *copy;
	unsigned n = 0;

	*out = NULL;
	if (!ptx_accept(p, "("))
		return 0;
	/* The list is built in scratch memory, so that errors lose none. */
	copy = ptx_need(p, ptx_arena_alloc(&p->scratch,
					   16 * sizeof(*copy)));
	v.cap = 16;
	while (!ptx_accept(p, ")")) {
		if (n)
			ptx_expect(p, ",");
		parse_formal(p, &f);
		if (n >= MAX_FORMALS)
			ptx_fail_token(p);
		if (n == v.cap) {
			struct formal *more = ptx_need(p, ptx_arena_alloc(
				&p->scratch, 2 * v.cap * sizeof(*more)));

			memcpy(more, copy, n * sizeof(*more));
			copy = more;
			v.cap *= 2;
		}
		copy[n++] = f;
	}
	*out = copy;
	return n;
}

static struct ptx_func *
find_or_add_func(struct ptx_parser *p, const struct ptx_tok *name)
{
	struct ptx_name *n = ptx_name_find(p, name->s, name->n);
	struct ptx_func *f, **item;

	if (n) {
		if (n->kind != PTX_NAME_FUNC)
			ptx_fail(p, PTX_E_SYNTAX, name->line,
				 "'%s' is declared twice", n->text);
		return ptx_func_at(p->m, (size_t)n->index);
	}
	n = ptx_name_add(p, name->s, name->n, PTX_NAME_FUNC);
	f = ptx_need(p, ptx_arena_alloc(&p->m->arena, sizeof(*f)));
	f->name = ptx_need(p, ptx_arena_strndup(&p->m->arena, name->s,
						name->n));
	f->module = p->m;
	f->index = (uint32_t)p->m->funcs.count;
	n->index = (int32_t)f->index;
	item = ptx_need(p, ptx_vec_push(&p->m->funcs, sizeof(*item)));
	*item = f;
	return f;
}

static void
place_formals(struct ptx_parser *p, struct ptx_arg **out_args,
	      const struct formal *f, unsigned n)
{
	struct ptx_arg *args = NULL;

	if (n)
		args = ptx_need(p, ptx_arena_alloc(&p->m->arena,
						   n * sizeof(*args)));
	for (unsigned i = 0; i < n; i++) {
		args[i].is_reg = f[i].is_reg;
		args[i].size = (uint32_t)f[i].size;
		if (f[i].is_reg) {
			args[i].slot = p->next_reg;
			p->next_reg++;
		} else {
			args[i].offset = ptx_param_reserve(p, f[i].size,
							   f[i].align);
		}
	}
	*out_args = args;
}

static void
name_formals(struct ptx_parser *p, const struct ptx_arg *args,
	     const struct formal *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (f[i].name_size == 1 && f[i].name[0] == '_')
			continue;
		struct ptx_name *name = ptx_name_add(p, f[i].name,
			f[i].name_size, f[i].is_reg ? PTX_NAME_REG
						    : PTX_NAME_PARAM);

		name->type = f[i].type;
		name->index = args[i].slot;
		name->offset = args[i].offset;
		name->size = args[i].size;
	}
}

static void
begin_function(struct ptx_parser *p, struct ptx_func *f)
{
	p->f = f;
	p->code.count = 0;
	p->consts.count = 0;
	memset(p->const_hash, 0, sizeof(p->const_hash));
	p->next_reg = PTX_REG_FIRST;
	p->next_pred = PTX_PRED_FIRST;
	p->next_param = 0;
	p->kernel = NULL;
	f->nregs = PTX_REG_FIRST;
	f->npreds = PTX_PRED_FIRST;
	f->param_size = 0;
}

static void
end_of_body(struct ptx_parser *p, struct ptx_func *f)
{
	if (f->is_defined)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "'%s' is defined twice", f->name);
	f->is_defined = true;
	ptx_expect(p, "{");
	ptx_parse_body(p);
}

void
ptx_parse_func(struct ptx_parser *p)
{
	struct formal *rets, *args;
	struct ptx_tok name;
	struct ptx_func *f;
	unsigned nrets, nargs;

	if (ptx_accept(p, ".attribute"))
		ptx_skip_balanced(p, "(", ")");
	nrets = parse_formals(p, &rets);
	name = p->lex.tok;
	if (name.kind != PTX_TOK_IDENT)
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	nargs = parse_formals(p, &args);
	f = find_or_add_func(p, &name);
	if (f->is_defined && f->is_kernel)
		ptx_fail(p, PTX_E_SYNTAX, name.line,
			 "'%s' is declared twice", f->name);
	while (p->lex.tok.kind == PTX_TOK_DOT) {
		bool has_value = ptx_tok_is(&p->lex.tok, ".abi_preserve") ||
			ptx_tok_is(&p->lex.tok, ".abi_preserve_control");

		if (!has_value && !ptx_tok_is(&p->lex.tok, ".noreturn") &&
		    !ptx_tok_is(&p->lex.tok, ".unified"))
			ptx_fail_token(p);
		ptx_lex_next(&p->lex);
		if (has_value)
			ptx_expect_int(p);
	}
	if (f->is_defined && ptx_accept(p, ";"))
		return;
	if (f->is_defined)
		ptx_fail(p, PTX_E_SYNTAX, name.line, "'%s' is defined twice",
			 f->name);
	begin_function(p, f);
	place_formals(p, &f->rets, rets, nrets);
	place_formals(p, &f->args, args, nargs);
	f->nrets = nrets;
	f->nargs = nargs;
	if (ptx_accept(p, ";"))
		return;
	ptx_scope_open(p);
	name_formals(p, f->rets, rets, nrets);
	name_formals(p, f->args, args, nargs);
	end_of_body(p, f);
}

/* The block's layout is the ABI's: each at its natural alignment. */
static void
place_kernel_params(struct ptx_parser *p, struct ptx_kernel_own *k,
		    const struct formal *f, unsigned n)
{
	size_t offset = 0;

	if (n)
		k->params = ptx_need(p, ptx_arena_alloc(
			&p->m->arena, n * sizeof(*k->params)));
	for (unsigned i = 0; i < n; i++) {
		struct ptx_name *name;

		offset = (offset + f[i].align - 1) & ~(f[i].align - 1);
		k->params[i] = (struct ptx_param){
			.offset = offset,
			.size = f[i].size,
			.align = f[i].align,
		};
		name = ptx_name_add(p, f[i].name, f[i].name_size,
				    PTX_NAME_KPARAM);
		name->offset = (uint32_t)offset;
		name->size = (uint32_t)f[i].size;
		offset += f[i].size;
		if (offset > 32764) /* the most since CUDA 12.1 */
			ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
				 "too many parameter bytes");
	}
	k->k.params = k->params;
	k->k.nparams = n;
	k->k.param_size = offset;
}

static unsigned
parse_dims(struct ptx_parser *p, unsigned dims[3])
{
	unsigned product = 1;

	for (unsigned i = 0; i < 3; i++)
		dims[i] = 1;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t v = ptx_expect_int(p);

		if (v > 1024)
			v = 1024;
		dims[i] = (unsigned)v;
		product *= dims[i];
		if (i == 2 || !ptx_accept(p, ","))
			break;
	}
	return product;
}

static bool
parse_one_tuning(struct ptx_parser *p, struct ptx_kernel *k)
{
	unsigned dims[3];

	if (ptx_accept(p, ".maxntid")) {
		unsigned n = parse_dims(p, dims);

		if (n && n < k->max_threads)
			k->max_threads = n;
	} else if (ptx_accept(p, ".reqntid")) {
		unsigned n = parse_dims(p, k->req_ntid);

		if (n && n < k->max_threads)
			k->max_threads = n;
	} else if (ptx_accept(p, ".reqnctapercluster")) {
		parse_dims(p, k->req_cluster);
	} else if (ptx_accept(p, ".minnctapersm") ||
		   ptx_accept(p, ".maxnctapersm") ||
		   ptx_accept(p, ".maxnreg") ||
		   ptx_accept(p, ".maxclusterrank")) {
		ptx_expect_int(p);
	} else if (ptx_accept(p, ".pragma")) {
		ptx_lex_next(&p->lex);
		ptx_expect(p, ";");
	} else {
		return ptx_accept(p, ".explicitcluster") ||
		       ptx_accept(p, ".blocksareclusters");
	}
	return true;
}

void
ptx_parse_entry(struct ptx_parser *p)
{
	struct ptx_kernel_own *k, **item;
	struct formal *formals;
	struct ptx_tok name = p->lex.tok;
	struct ptx_func *f;
	unsigned n;

	if (name.kind != PTX_TOK_IDENT)
		ptx_fail_token(p);
	ptx_lex_next(&p->lex);
	n = parse_formals(p, &formals);
	f = find_or_add_func(p, &name);
	if (f->is_defined)
		ptx_fail(p, PTX_E_SYNTAX, name.line, "'%s' is defined twice",
			 f->name);
	f->is_kernel = true;
	begin_function(p, f);
	ptx_scope_open(p);
	k = ptx_need(p, ptx_arena_alloc(&p->m->arena, sizeof(*k)));
	place_kernel_params(p, k, formals, n);
	k->k.name = f->name;
	k->k.func = f;
	k->k.module = p->m;
	k->k.max_threads = 1024;
	k->k.ptx_version = p->m->version;
	k->k.target = p->m->target;
	while (parse_one_tuning(p, &k->k))
		;
	if (ptx_accept(p, ";")) { /* a declaration */
		ptx_scope_close(p);
		return;
	}
	item = ptx_need(p, ptx_vec_push(&p->m->kernels, sizeof(*item)));
	*item = k;
	p->kernel = k;
	p->kernel_param_size = k->k.param_size;
	end_of_body(p, f);
}
