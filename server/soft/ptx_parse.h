/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser's state and what instruction decoders may ask of it.
 * Private to server/soft/ptx_parse*.c and ptx_decode*.c.
 */
#ifndef SERVER_SOFT_PTX_PARSE_H
#define SERVER_SOFT_PTX_PARSE_H

#include "server/soft/ptx_ir.h"
#include "server/soft/ptx_lex.h"

#include <setjmp.h>

#define PTX_MAX_MODS 16
#define PTX_MAX_OPNDS 64
#define PTX_MAX_ELEMS 128
#define PTX_HASH_SIZE 4096

enum ptx_name_kind {
	PTX_NAME_REG,
	PTX_NAME_REG_RANGE,   /* %r<10> */
	PTX_NAME_VAR,         /* .global and .const: module->vars */
	PTX_NAME_SHARED,
	PTX_NAME_LOCAL,
	PTX_NAME_PARAM,       /* in the frame's param area */
	PTX_NAME_KPARAM,      /* in the kernel's parameter block */
	PTX_NAME_FUNC,
	PTX_NAME_LABEL,
	PTX_NAME_PROTO,
	PTX_NAME_TARGETS,
};

struct ptx_name {
	char *text;
	uint32_t hash;
	enum ptx_name_kind kind;
	int type;             /* of a register */
	int32_t index;        /* slot, index or pc */
	uint32_t count;       /* of a range */
	uint8_t vec;          /* elements of a vector register, 0: scalar */
	uint32_t offset, size;
	void *data;           /* struct ptx_branches */
	unsigned depth;
	struct ptx_name *next, *next_in_scope;
};

enum ptx_opnd_kind {
	PTX_O_REG,
	PTX_O_IMM,
	PTX_O_FIMM,
	PTX_O_NAME,           /* variable, function, label: name + imm */
	PTX_O_WORD,           /* an identifier that nothing declared (yet) */
	PTX_O_SREG,
	PTX_O_SINK,
	PTX_O_ADDR,           /* [base + imm] or [base, {…}] */
	PTX_O_VEC,            /* {a, b} */
	PTX_O_PAIR,           /* a|b */
	PTX_O_LIST,           /* (a, b) */
};

struct ptx_opnd {
	enum ptx_opnd_kind kind;
	enum ptx_opnd_kind base; /* of an address */
	bool is_neg;             /* !p */
	uint8_t sel;             /* of %r.b0 to .b3: 1 to 4, .h0, .h1: 5, 6 */
	int type;
	int32_t slot;
	uint64_t imm;
	unsigned fbits;
	const struct ptx_name *name;
	const char *word;
	size_t word_size;
	unsigned first, count;   /* parser->elems */
};

struct ptx_fixup {
	uint32_t pc;             /* instruction whose target is missing */
	uint32_t *place;         /* or an entry of a branch table */
	const char *label;
	unsigned depth;
	uint32_t line;
	struct ptx_fixup *next;
};

struct ptx_scope {
	struct ptx_name *names;
	struct ptx_fixup *fixups;
	int32_t reg_mark;
	uint32_t param_mark;
};

#define PTX_MAX_SCOPES 64

struct ptx_parser {
	struct ptx_lex lex;
	struct ptx_module *m;
	struct ptx_func *f;
	char *log;
	size_t log_size;
	struct ptx_chunk *scratch;
	jmp_buf fail;            /* error exits, so that no check is lost */

	struct ptx_name *hash[PTX_HASH_SIZE];
	struct ptx_scope scopes[PTX_MAX_SCOPES];
	unsigned depth;

	/* the function under construction */
	struct ptx_vec code, consts, reloc_slots;
	uint32_t const_hash[1024];
	int32_t next_reg, next_pred;
	uint32_t next_param;
	int ntemps, npred_temps; /* taken by the statement */
	struct ptx_kernel_own *kernel;
	uint64_t kernel_param_size;

	/* the statement under construction */
	char op[32];
	char *mods[PTX_MAX_MODS];
	char mod_text[256];
	bool mod_used[PTX_MAX_MODS];
	unsigned nmods;
	char full[256];
	uint32_t line;
	int32_t guard;
	bool guard_neg;
	struct ptx_opnd opnds[PTX_MAX_OPNDS];
	unsigned nopnds;
	struct ptx_opnd elems[PTX_MAX_ELEMS];
	unsigned nelems;
};

/* Errors. None returns. */
_Noreturn void ptx_fail(struct ptx_parser *p, int code, uint32_t line,
			const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
_Noreturn void ptx_fail_token(struct ptx_parser *p);
_Noreturn void ptx_unsupported(struct ptx_parser *p);
void *ptx_need(struct ptx_parser *p, void *ptr);

/* Names. */
struct ptx_name *ptx_name_add(struct ptx_parser *p, const char *s, size_t n,
			      enum ptx_name_kind kind);
struct ptx_name *ptx_name_find(struct ptx_parser *p, const char *s,
			       size_t n);
void ptx_scope_open(struct ptx_parser *p);
void ptx_scope_close(struct ptx_parser *p);
void ptx_label_want(struct ptx_parser *p, const char *s, size_t n,
		    uint32_t pc, uint32_t *place);

/* Parsing pieces (ptx_parse*.c). */
bool ptx_accept(struct ptx_parser *p, const char *s);
void ptx_expect(struct ptx_parser *p, const char *s);
uint64_t ptx_expect_int(struct ptx_parser *p);
/* From an opening bracket to the one that closes it. */
void ptx_skip_balanced(struct ptx_parser *p, const char *open,
		       const char *close);
int64_t ptx_const_expr(struct ptx_parser *p);
void ptx_parse_module(struct ptx_parser *p);
void ptx_parse_func(struct ptx_parser *p);
void ptx_parse_entry(struct ptx_parser *p);
void ptx_parse_body(struct ptx_parser *p);
void ptx_parse_operands(struct ptx_parser *p);
void ptx_parse_variable(struct ptx_parser *p, int space, unsigned linkage);
void ptx_finish_func(struct ptx_parser *p);
uint32_t ptx_param_reserve(struct ptx_parser *p, size_t size, size_t align);
uint64_t ptx_float_bits(uint64_t bits, unsigned fbits, int type);

enum { PTX_LINK_EXTERN = 1, PTX_LINK_VISIBLE = 2, PTX_LINK_WEAK = 4 };

/* Modifiers of the statement: each must be consumed by somebody. */
bool ptx_mod(struct ptx_parser *p, const char *name);
int ptx_mod_type(struct ptx_parser *p);
int ptx_mod_rnd(struct ptx_parser *p);
int ptx_mod_cmp(struct ptx_parser *p);
int ptx_mod_space(struct ptx_parser *p, int fallback);
const char *ptx_mod_any(struct ptx_parser *p);
void ptx_mods_done(struct ptx_parser *p);
/* True when the statement has n operands; a syntax error otherwise. */
void ptx_want_opnds(struct ptx_parser *p, unsigned n);

/* Operands to slots. Hidden instructions may be emitted for sources. */
int32_t ptx_dst(struct ptx_parser *p, const struct ptx_opnd *o, int type);
int32_t ptx_dst_pred(struct ptx_parser *p, const struct ptx_opnd *o);
int32_t ptx_src(struct ptx_parser *p, const struct ptx_opnd *o, int type);
int32_t ptx_src_pred(struct ptx_parser *p, const struct ptx_opnd *o);
/* Like dst/src, but a register wider than the type is fine. */
int32_t ptx_dst_wide(struct ptx_parser *p, const struct ptx_opnd *o,
		     int type, uint8_t *out_bits);
int32_t ptx_src_wide(struct ptx_parser *p, const struct ptx_opnd *o,
		     int type);
int32_t ptx_const(struct ptx_parser *p, uint64_t value);
int32_t ptx_temp(struct ptx_parser *p);
/* Base register or constant of an address and its offset. */
int32_t ptx_src_addr(struct ptx_parser *p, const struct ptx_opnd *o,
		     int64_t *out_offset);

/* A fresh instruction with the statement's guard and line; and its end. */
struct ptx_insn ptx_insn_start(struct ptx_parser *p, ptx_exec_fn *exec);
struct ptx_insn *ptx_emit(struct ptx_parser *p, const struct ptx_insn *i);

/* Arithmetic on f32 and f64, and on halves, once the type is taken. */
void ptx_decode_float_op(struct ptx_parser *p, int type);
void ptx_decode_half_op(struct ptx_parser *p, int type);

void ptx_decode_bar(struct ptx_parser *p);
void ptx_decode_warp_bar(struct ptx_parser *p);

/* dst0 and n sources of one type, in the order of the text; emits. */
void ptx_emit_plain(struct ptx_parser *p, ptx_exec_fn *exec, int type,
		    unsigned nsrc);

/* Decode the statement that stands in the parser. */
void ptx_decode(struct ptx_parser *p);

struct ptx_decoder {
	const char *name;
	void (*decode)(struct ptx_parser *p);
};

/* One table a file; each ends with a NULL name. */
extern const struct ptx_decoder ptx_decode_mov[], ptx_decode_int[],
	ptx_decode_bits[], ptx_decode_float[], ptx_decode_cvt[], ptx_decode_cmp[],
	ptx_decode_mem[], ptx_decode_atom[], ptx_decode_ctl[],
	ptx_decode_warp[], ptx_decode_tex[], ptx_decode_half[],
	ptx_decode_async[], ptx_decode_video[], ptx_decode_mbar[],
	ptx_decode_mma[], ptx_decode_wmma[], ptx_decode_matrix[];

#endif
