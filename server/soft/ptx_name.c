/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a PTX module: one hash table, a stack of scopes.
 *
 * A branch may go forward, and inline assembly repeats label names in
 * braces, so a label that is wanted is looked for when its scope closes,
 * then in the scope around it.
 */
#include "server/soft/ptx_parse.h"

#include <string.h>

static uint32_t
hash_of(const char *s, size_t n)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * 16777619u;
	return h;
}

static struct ptx_name *
find_exact(struct ptx_parser *p, const char *s, size_t n)
{
	uint32_t h = hash_of(s, n);
	struct ptx_name *name = p->hash[h % PTX_HASH_SIZE];

	for (; name; name = name->next) {
		if (name->hash == h && !strncmp(name->text, s, n) &&
		    !name->text[n])
			return name;
	}
	return NULL;
}

struct ptx_name *
ptx_name_add(struct ptx_parser *p, const char *s, size_t n,
	     enum ptx_name_kind kind)
{
	struct ptx_scope *scope = &p->scopes[p->depth];
	struct ptx_name *name = find_exact(p, s, n), **bucket;

	if (name && name->depth == p->depth)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "'%.80s' is declared twice", name->text);
	name = ptx_need(p, ptx_arena_alloc(&p->scratch, sizeof(*name)));
	name->text = ptx_need(p, ptx_arena_strndup(&p->scratch, s, n));
	name->hash = hash_of(s, n);
	name->kind = kind;
	name->depth = p->depth;
	bucket = &p->hash[name->hash % PTX_HASH_SIZE];
	name->next = *bucket;
	*bucket = name;
	name->next_in_scope = scope->names;
	scope->names = name;
	return name;
}

/* %r12 when %r<20> was declared: every way to cut digits off the end. */
static struct ptx_name *
find_in_range(struct ptx_parser *p, const char *s, size_t n, uint32_t *at)
{
	size_t digits = 0;

	while (digits < n - 1 && digits < 9 && s[n - 1 - digits] >= '0' &&
	       s[n - 1 - digits] <= '9')
		digits++;
	for (size_t k = digits; k > 0; k--) {
		const char *d = s + n - k;
		struct ptx_name *name;
		uint32_t v = 0;

		if (*d == '0' && k > 1)
			continue;
		name = find_exact(p, s, n - k);
		if (!name || name->kind != PTX_NAME_REG_RANGE)
			continue;
		for (size_t i = 0; i < k; i++)
			v = v * 10 + (uint32_t)(d[i] - '0');
		if (v < name->count) {
			*at = v;
			return name;
		}
	}
	return NULL;
}

struct ptx_name *
ptx_name_find(struct ptx_parser *p, const char *s, size_t n)
{
	struct ptx_name *name = find_exact(p, s, n), *range, *reg;
	uint32_t at;

	if (name && name->kind != PTX_NAME_REG_RANGE)
		return name;
	range = n > 1 ? find_in_range(p, s, n, &at) : NULL;
	if (!range)
		return NULL;
	/* Enter it in its range's scope: the next look-up is direct. */
	unsigned depth = p->depth;

	p->depth = range->depth;
	reg = ptx_name_add(p, s, n, PTX_NAME_REG);
	p->depth = depth;
	reg->type = range->type;
	reg->vec = range->vec;
	reg->index = range->index + (int32_t)(at *
		(range->vec ? range->vec : 1u + (range->type == PTX_T_B128)));
	return reg;
}

void
ptx_scope_open(struct ptx_parser *p)
{
	if (p->depth + 1 >= PTX_MAX_SCOPES)
		ptx_fail(p, PTX_E_SYNTAX, p->lex.tok.line,
			 "braces are nested too deeply");
	p->scopes[++p->depth] = (struct ptx_scope){
		.reg_mark = p->next_reg,
		.param_mark = p->next_param,
	};
}

static void
settle(struct ptx_parser *p, struct ptx_fixup *fix)
{
	struct ptx_name *name = find_exact(p, fix->label,
					   strlen(fix->label));

	if (name && name->kind == PTX_NAME_LABEL && name->depth == p->depth) {
		uint32_t *place = fix->place;

		if (!place) {
			struct ptx_insn *code = p->code.data;

			place = &code[fix->pc].target;
		}
		*place = (uint32_t)name->index;
		return;
	}
	if (p->depth <= 1)
		ptx_fail(p, PTX_E_SYNTAX, fix->line, "unknown label '%.80s'",
			 fix->label);
	fix->next = p->scopes[p->depth - 1].fixups;
	p->scopes[p->depth - 1].fixups = fix;
}

void
ptx_scope_close(struct ptx_parser *p)
{
	struct ptx_scope *scope = &p->scopes[p->depth];

	while (scope->fixups) {
		struct ptx_fixup *fix = scope->fixups;

		scope->fixups = fix->next;
		settle(p, fix);
	}
	for (struct ptx_name *n = scope->names; n; n = n->next_in_scope) {
		struct ptx_name **link = &p->hash[n->hash % PTX_HASH_SIZE];

		while (*link != n)
			link = &(*link)->next;
		*link = n->next;
	}
	/* Registers of the scope may serve the next one. */
	p->next_reg = scope->reg_mark;
	p->next_param = scope->param_mark;
	p->depth--;
}

void
ptx_label_want(struct ptx_parser *p, const char *s, size_t n, uint32_t pc,
	       uint32_t *place)
{
	struct ptx_fixup *fix = ptx_need(p, ptx_arena_alloc(&p->scratch,
							    sizeof(*fix)));

	fix->label = ptx_need(p, ptx_arena_strndup(&p->scratch, s, n));
	fix->pc = pc;
	fix->place = place;
	fix->line = p->line;
	fix->next = p->scopes[p->depth].fixups;
	p->scopes[p->depth].fixups = fix;
}
