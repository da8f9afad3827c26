/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ptx/forms.h"

#include <string.h>

static const char input_name[] = "abcx";
static const char output_name[] = "defg";

/* The bytes of cbuf: like a thread's scratch, values with every sign. */
static void
const_print(FILE *f)
{
	int i;

	fprintf(f, ".const .align 16 .b8 cbuf[64] = {");
	for (i = 0; i < 64; i++)
		fprintf(f, "%s%d", i ? ", " : "", (i * 29 + 129) & 255);
	fprintf(f, "};\n.global .align 16 .b8 gbuf[64];\n");
}

static bool
mentions(const struct form *form, size_t count, const char *word)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (strstr(form[i].ptx, word))
			return true;
	}
	return false;
}

static void
registers_print(FILE *f, const struct form *form)
{
	unsigned k;

	fprintf(f, "\t.reg .u64 %%pin, %%pout, %%gp, %%gs;\n"
		   "\t.reg .u32 %%t, %%word;\n\t.reg .pred %%bit;\n");
	for (k = 0; k < form->nin; k++)
		fprintf(f, "\t.reg %s %%%c;\n", form->in[k]->reg,
			input_name[k]);
	for (k = 0; k < form->nout; k++)
		fprintf(f, "\t.reg %s %%%c;\n", form->out[k]->reg,
			output_name[k]);
	if (strstr(form->ptx, "sbuf"))
		fprintf(f, "\t.shared .align 16 .b8 sbuf[4096];\n");
	if (strstr(form->ptx, "lbuf"))
		fprintf(f, "\t.local .align 16 .b8 lbuf[64];\n");
	fprintf(f, "\tld.param.u64 %%pin, [in];\n"
		   "\tld.param.u64 %%pout, [out];\n"
		   "\tld.param.u64 %%gs, [scratch];\n"
		   "\tmov.u32 %%t, %%tid.x;\n"
		   "\tmad.wide.u32 %%pin, %%t, 8, %%pin;\n"
		   "\tmad.wide.u32 %%pout, %%t, 8, %%pout;\n"
		   "\tmad.wide.u32 %%gp, %%t, %d, %%gs;\n", FORM_SCRATCH);
}

static void
operands_print(FILE *f, const struct form *form)
{
	unsigned k;

	for (k = 0; k < form->nin; k++) {
		unsigned at = k * FORM_THREADS * 8;

		if (form->in[k]->kind == 'p')
			fprintf(f, "\tld.global.u32 %%word, [%%pin+%u];\n"
				   "\tsetp.ne.u32 %%%c, %%word, 0;\n", at,
				input_name[k]);
		else
			fprintf(f, "\tld.global%s %%%c, [%%pin+%u];\n",
				form->in[k]->reg, input_name[k], at);
	}
}

static void
results_print(FILE *f, const struct form *form)
{
	unsigned k;

	for (k = 0; k < form->nout; k++) {
		unsigned at = k * FORM_THREADS * 8;

		if (form->out[k]->kind == 'p')
			fprintf(f, "\tselp.u32 %%word, 1, 0, %%%c;\n"
				   "\tst.global.u32 [%%pout+%u], %%word;\n",
				output_name[k], at);
		else
			fprintf(f, "\tst.global%s [%%pout+%u], %%%c;\n",
				form->out[k]->reg, at, output_name[k]);
	}
}

/* Module text before "::" goes out first, the rest is the kernel's. */
static const char *
prologue_print(FILE *f, const struct form *form)
{
	const char *cut = strstr(form->ptx, " :: ");

	if (!cut)
		return form->ptx;
	fprintf(f, "%.*s\n", (int)(cut - form->ptx), form->ptx);
	return cut + 4;
}

void
form_module_print(FILE *f, const struct form *form, size_t count)
{
	size_t i;

	fprintf(f, ".version 9.0\n.target sm_90\n.address_size 64\n");
	if (mentions(form, count, "cbuf") || mentions(form, count, "gbuf"))
		const_print(f);
	for (i = 0; i < count; i++) {
		const char *body = prologue_print(f, &form[i]);

		fprintf(f, "// %s\n.visible .entry form_%zu(\n"
			   "\t.param .u64 out, .param .u64 in, "
			   ".param .u64 scratch,\n"
			   "\t.param .align 16 .b8 blob[32])\n{\n",
			form[i].name, i);
		registers_print(f, &form[i]);
		operands_print(f, &form[i]);
		fprintf(f, "\t%s\n", body);
		results_print(f, &form[i]);
		fprintf(f, "\tret;\n}\n");
	}
}
