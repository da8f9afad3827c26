/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoded PTX: types, instructions, functions, modules.
 * Private to the front end and the executor (server/soft/ptx_*.c).
 *
 * A function is an array of fixed-size instructions. Operands are slots:
 * slot >= 0 is a register of the frame (32 lanes of 64 bits, held zero-
 * extended), slot < 0 is entry ~slot of the function's constant table,
 * broadcast to 32 lanes so that both kinds read alike. Predicates live in
 * a space of their own, one bit a lane.
 */
#ifndef SERVER_SOFT_PTX_IR_H
#define SERVER_SOFT_PTX_IR_H

#include "server/soft/ptx.h"

#include <stdarg.h>
#include <stdio.h>

#define PTX_LANES 32

/*
 * Generic addresses of what is not global memory. All lie between 4 GiB and
 * 20 GiB, where nothing of the address plan and no library is mapped.
 */
#define PTX_WIN_SHARED 0x100000000ull
#define PTX_WIN_LOCAL 0x200000000ull
#define PTX_WIN_PARAM 0x300000000ull
#define PTX_WIN_FUNC 0x400000000ull
#define PTX_WIN_SIZE 0x010000000ull
/* Shared memory of cluster rank r, seen from the cluster. */
#define PTX_RANK_SHIFT 20

/* Shared, local and parameter memory of one block or thread at most. */
#define PTX_SHARED_MAX (227u << 10)
#define PTX_LOCAL_MAX (512u << 10)

enum ptx_type {
	PTX_T_NONE,
	PTX_T_PRED,
	PTX_T_B8, PTX_T_B16, PTX_T_B32, PTX_T_B64, PTX_T_B128,
	PTX_T_U8, PTX_T_U16, PTX_T_U32, PTX_T_U64,
	PTX_T_S8, PTX_T_S16, PTX_T_S32, PTX_T_S64,
	PTX_T_F16, PTX_T_F16X2, PTX_T_BF16, PTX_T_BF16X2,
	PTX_T_F32, PTX_T_F64, PTX_T_TF32,
	PTX_T_E4M3X2, PTX_T_E5M2X2,
	PTX_T_U16X2, PTX_T_S16X2,
	PTX_T_COUNT,
};

enum ptx_rnd {
	PTX_RND_NONE,
	PTX_RN, PTX_RZ, PTX_RM, PTX_RP, PTX_RNA,      /* to a float */
	PTX_RNI, PTX_RZI, PTX_RMI, PTX_RPI,           /* to an integer */
	PTX_APPROX, PTX_FULL,
};

enum ptx_cmp {
	PTX_CMP_NONE,
	PTX_EQ, PTX_NE, PTX_LT, PTX_LE, PTX_GT, PTX_GE,
	PTX_LO, PTX_LS, PTX_HI, PTX_HS,
	PTX_EQU, PTX_NEU, PTX_LTU, PTX_LEU, PTX_GTU, PTX_GEU,
	PTX_NUM, PTX_NAN,
};

enum ptx_sem {
	PTX_SEM_WEAK,
	PTX_SEM_RELAXED,
	PTX_SEM_ACQUIRE,
	PTX_SEM_RELEASE,
	PTX_SEM_ACQ_REL,
	PTX_SEM_SC,
};

/* Reserved slots of every frame: results that nobody reads go here. */
enum {
	PTX_REG_SINK,
	PTX_REG_TEMP,             /* for hidden instructions */
	PTX_REG_TEMPS = 8,
	PTX_REG_FIRST = PTX_REG_TEMP + PTX_REG_TEMPS,
};
enum {
	PTX_PRED_FALSE,
	PTX_PRED_TRUE,
	PTX_PRED_SINK,
	PTX_PRED_TEMP,
	PTX_PRED_TEMPS = 4,
	PTX_PRED_FIRST = PTX_PRED_TEMP + PTX_PRED_TEMPS,
};

struct ptx_warp;
struct ptx_insn;
typedef void ptx_exec_fn(struct ptx_warp *w, const struct ptx_insn *i);

struct ptx_insn {
	ptx_exec_fn *exec;
	int32_t guard;            /* predicate slot, -1 without */
	uint32_t guard_xor;       /* all ones for @!p */
	uint32_t line;
	uint32_t target;          /* pc of a branch */
	int32_t dst[8];
	int32_t src[8];
	int64_t imm;              /* address offset and the like */
	uint8_t type, type2;
	uint8_t rnd, ftz, sat;
	uint8_t op, op2;
	uint8_t space;            /* enum ptx_space */
	uint8_t sem;              /* enum ptx_sem */
	uint8_t vec;              /* elements */
	uint8_t bits;             /* width of the destination register */
	uint8_t flags;            /* the instruction's own */
	const void *aux;
};

/* What a constant slot waits for until the module is linked. */
enum ptx_reloc_kind {
	PTX_RELOC_SYMBOL,         /* address of symbols[index] */
	PTX_RELOC_FUNC,           /* handle of funcs[index] */
	PTX_RELOC_SHARED,         /* shared[index] of the only kernel */
};

struct ptx_reloc {
	enum ptx_reloc_kind kind;
	uint32_t index;
	uint32_t place;           /* constant slot, or byte of a variable */
	uint8_t size;             /* bytes written */
	uint8_t shift;            /* mask initialisers take one byte */
	int64_t addend;
};

/* Extensible array; item sizes are the caller's business. */
struct ptx_vec {
	void *data;
	size_t count, cap;
};

void *ptx_vec_push(struct ptx_vec *v, size_t item_size);
void ptx_vec_free(struct ptx_vec *v);

/* A formal or actual parameter: a register, or bytes of the param area. */
struct ptx_arg {
	bool is_reg;
	int32_t slot;             /* register or constant slot */
	uint32_t offset;          /* in the frame's param area */
	uint32_t size;
};

struct ptx_call {
	uint32_t func;            /* index, UINT32_MAX when indirect */
	int32_t target_slot;      /* holds the handle when indirect */
	unsigned nargs, nrets;
	struct ptx_arg *args, *rets;
};

/* Table of a brx.idx. */
struct ptx_branches {
	unsigned count;
	uint32_t *pc;
};

typedef enum ptx_fault ptx_builtin_fn(struct ptx_warp *w,
				      const struct ptx_call *c);

struct ptx_func {
	char *name;
	struct ptx_module *module;
	uint32_t index;
	bool is_kernel, is_defined, is_address_taken;
	struct ptx_insn *code;
	size_t ncode;
	unsigned nregs, npreds;
	uint64_t *consts;         /* nconsts * 32 */
	size_t nconsts;
	size_t param_size;        /* of the param area: own and callees' */
	size_t local_size;
	bool has_alloca;
	unsigned nargs, nrets;
	struct ptx_arg *args, *rets;
	struct ptx_vec relocs;    /* struct ptx_reloc on constants */
	struct ptx_vec callees;   /* uint32_t function indices */
	struct ptx_vec shareds;   /* uint32_t indices into module->shared */
	bool calls_indirect, reads_envreg;
	ptx_builtin_fn *builtin;
	/* kernels only */
	uint32_t *shared_off;     /* offset of every module->shared entry */
};

struct ptx_shared {
	const char *name;
	size_t size, align;
	bool is_dynamic;          /* extern .shared x[] */
};

struct ptx_var {
	struct ptx_symbol sym;
	bool is_extern;
	uint8_t *init;            /* bytes, NULL when all zero */
	size_t init_size;
	struct ptx_vec relocs;
};

struct ptx_kernel_own {
	struct ptx_kernel k;      /* first: handed out by address */
	struct ptx_param *params;
};

struct ptx_chunk;

struct ptx_module {
	unsigned version, target;
	struct ptx_chunk *arena;  /* everything below points into it */
	struct ptx_vec funcs;     /* struct ptx_func * */
	struct ptx_vec kernels;   /* struct ptx_kernel_own * */
	struct ptx_vec vars;      /* struct ptx_var * */
	struct ptx_vec shared;    /* struct ptx_shared */
	bool is_linked;
};

/* Zeroed memory that lives as long as the module; NULL when exhausted. */
void *ptx_arena_alloc(struct ptx_chunk **arena, size_t size);
char *ptx_arena_strndup(struct ptx_chunk **arena, const char *s, size_t n);
void ptx_arena_free(struct ptx_chunk **arena);

static inline struct ptx_func *
ptx_func_at(const struct ptx_module *m, size_t index)
{
	return ((struct ptx_func **)m->funcs.data)[index];
}

static inline struct ptx_var *
ptx_var_at(const struct ptx_module *m, size_t index)
{
	return ((struct ptx_var **)m->vars.data)[index];
}

static inline struct ptx_shared *
ptx_shared_at(const struct ptx_module *m, size_t index)
{
	return &((struct ptx_shared *)m->shared.data)[index];
}

static inline bool
ptx_func_is(const struct ptx_func *f, const char *name)
{
	return !__builtin_strcmp(f->name, name);
}

unsigned ptx_type_size(int type);
bool ptx_type_is_signed(int type);
bool ptx_type_is_float(int type);
/* enum ptx_type of a spelling without its dot; PTX_T_NONE when unknown. */
int ptx_type_named(const char *name);

/* The builtin that an undefined function is bound to, or NULL. */
ptx_builtin_fn *ptx_builtin_for(const struct ptx_func *f);

#endif
