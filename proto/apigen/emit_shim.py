# SPDX-License-Identifier: Apache-2.0
"""The shim's exported entry points and the prototypes they call."""

from apigen.text import (c_file, c_params, call, header, one_line_prototype,
                         pointer_to, prototype)

NOT_SUPPORTED = "CUDA_ERROR_NOT_SUPPORTED"


def impl_params(entry):
    lead = ["CUstream stream"] if entry.takes_stream else []
    return lead + c_params(entry)


def shim_impl_h(api):
    parts = []
    for group, title in api.groups.items():
        protos = [one_line_prototype("CUresult", f"shim_{e.name}",
                                     impl_params(e))
                  for e in api.entries
                  if e.group == group and e.is_served and e.is_handwritten]
        if protos:
            parts.append(f"/* {group}: {title} */\n" + "\n".join(protos))
    return header("shim_impl.h", '#include "api_cuda.h"', """
/*
 * Handwritten in shim/<group>.c, called by the entry points in shim_entry.c
 * after their prologue. A leading `stream` is the default stream of the
 * entry: CU_STREAM_LEGACY, or CU_STREAM_PER_THREAD in the _ptds or _ptsz twin.
 */""", *parts)


def api_exports_h(api, graphics):
    rows = " \\\n".join(f"\tX({n})" for n in api.exports() + graphics)
    return header("api_exports.h", f"""
/* X(name) for every exported entry point. */
#define API_EXPORTS(X) \\
{rows}""")


TEST = "\tif (r != CUDA_SUCCESS)\n\t\treturn r;"


def prologue(served, api_id):
    """Declaration and test of what the call needs; before them what the
    driver does before it tests."""
    early = [f"\tif ({p.name})\n\t\t*{p.name} = 0;" for p in served.clears]
    checks = []
    for check in served.checks:
        test = " && ".join(f"!{p.name}" for p in check.params)
        checks.append(f"\tif ({test})\n\t\treturn {check.code};")
    if served.needs == "nothing":
        return [], early + checks
    enter = f"shim_enter_{served.needs}({api_id});"
    if not early and not checks:
        return [f"\tCUresult r = {enter}"], [TEST]
    if served.checks_before == "context":
        early += [f"\tr = shim_enter_init({api_id});", TEST]
    return (["\tCUresult r;"],
            early + checks + [f"\tr = {enter}", TEST])


def null_code(param):
    if param.kind != "HANDLE":
        return "CUDA_ERROR_INVALID_VALUE"
    if param.handle == "context":
        return "CUDA_ERROR_INVALID_CONTEXT"
    return "CUDA_ERROR_INVALID_HANDLE"


def null_checks(names, served):
    """What the driver answers for a missing pointer or handle."""
    for name, param in zip(names, served.params):
        if param.nullable or param.kind in ("VALUE", "FLOAT", "DOUBLE"):
            continue
        test = f"!{name}"
        if param.count is not None:
            test += f" && {names[param.count]}"
        yield f"\tif ({test})\n\t\treturn {null_code(param)};"


def generic(entry, served):
    """argv, checks, and the call of a generated entry point."""
    verb = "shim_post" if served.wire == "post" else "shim_call"
    names = [p.name for p in entry.params]
    if not names:
        return [], [f"\treturn {verb}(API_{served.name}, NULL);"]
    argv = call("\tvoid *argv[] = { ",
                [pointer_to(p.ctype, p.name) for p in entry.params], " };")
    return [argv], [*null_checks(names, served),
                    f"\treturn {verb}(API_{served.name}, argv);"]


def handwritten(entry, served, twin):
    names = [p.name for p in entry.params]
    if served.takes_stream:
        names.insert(0, "CU_STREAM_PER_THREAD" if twin
                     else "CU_STREAM_LEGACY")
    return [], [call(f"\treturn shim_{served.name}(", names)]


def per_thread(entry):
    return [f"\tif (!{p.name})\n\t\t{p.name} = CU_STREAM_PER_THREAD;"
            for p in entry.stream_params()]


def body(entry, twin):
    """An alias has its own prologue and the answer of the other."""
    served = entry.target or entry
    declared, steps = prologue(served, f"API_{entry.name}")
    if served.is_refused:
        refusal = call("\treturn shim_refuse(",
                       [f"API_{entry.name}", served.cover.code])
        return declared, steps + [refusal]
    fix = per_thread(entry) if twin else []
    answer = (handwritten(entry, served, twin) if served.is_handwritten
              else generic(entry, served))
    return answer[0] + declared, steps + fix + answer[1]


def answered(step, api_id):
    """Every way out of an entry point says what it answers, for the log."""
    head, found, value = step.partition("return ")
    if not found or value.startswith("shim_refuse("):
        return step
    lines = value.removesuffix(";").split("\n")
    if len(lines) == 1 and "(" not in value:
        return f"{head}return shim_answer({api_id}, {lines[0]});"
    return (f"{head}return shim_answer({api_id},\n"
            + "\n".join("\t\t" + line for line in lines) + ");")


def entry_point(entry, twin):
    name = entry.twin_name if twin else entry.name
    params = c_params(entry)
    if entry.is_refused:
        params = [f"{p} UNUSED" for p in params]
    declared, steps = body(entry, twin)
    text = "\n".join(declared) + "\n\n" if declared else ""
    steps = [answered(step, f"API_{entry.name}") for step in steps]
    return (prototype("CUresult", name, params, ")")
            + "\n{\n" + text + "\n".join(steps) + "\n}")


def graphics_entry(name):
    declared = ["\tCUresult r = shim_enter_init(API_NONE);"]
    steps = [TEST]
    steps.append(f"\treturn shim_refuse(API_NONE, {NOT_SUPPORTED});")
    return (f"CUresult {name}(void);\n\nCUresult\n{name}(void)\n{{\n"
            + "\n".join(declared) + "\n\n" + "\n".join(steps) + "\n}")


def shim_entry_c(api, graphics):
    parts = [entry_point(e, False) for e in api.entries]
    parts += [entry_point(e, True) for e in api.entries if e.twin]
    return c_file("""
/*
 * Every exported entry point: prologue, then the answer. shim/enter.h gives
 * shim_enter_init(), shim_enter_context(), shim_refuse(id, code),
 * shim_call(id, argv) and shim_post(id, argv).
 */
#pragma GCC visibility push(default)
#include "api_cuda.h"
#pragma GCC visibility pop

#include "api_exports.h"
#include "api_ids.h"
#include "shim_impl.h"
#include "shim/enter.h"

#define UNUSED __attribute__((unused))

#pragma GCC visibility push(default)""", *parts, """
/*
 * GL, EGL and VDPAU interoperation, exported by the real library as well.
 * Without their headers the parameters are unknown; the calling conventions
 * of x86-64 and arm64 let a function ignore what it was given.
 */""", *[graphics_entry(n) for n in graphics],
                  "#pragma GCC visibility pop", """
/*
 * The look-up table of shim_procaddr.c holds these hidden aliases: their
 * addresses need no symbol look-up by the dynamic linker, 671 of which would
 * be felt at the start of every process.
 */
#define ENTRY(name) \\
	extern __typeof__(name) entry_##name \\
		__attribute__((alias(#name), visibility("hidden")));
API_EXPORTS(ENTRY)""".replace("671", str(len(api.exports() + graphics))))


def shim_reasons_h():
    return header("shim_reasons.h", '#include <stdbool.h>\n\n'
                  '#include "api_ids.h"', """
/* Why a function is refused, or what of it is served. */
struct shim_reason {
	const char *text;       /* NULL: it is served in full */
	bool refused;           /* altogether */
	bool quiet;             /* programs ask in passing, and do without */
};
extern const struct shim_reason shim_reasons[API_COUNT];""")


def c_string(text):
    return '"' + text.replace("\\", r"\\").replace('"', r'\"') + '"'


def shim_reasons_c(api):
    rows = []
    for entry in api.entries:
        served = entry.target or entry
        if served.cover.kind != "full":
            refused = str(served.is_refused).lower()
            quiet = str(bool(served.quiet)).lower()
            rows.append(f"\t[API_{entry.name}] = {{ "
                        f"{c_string(served.cover.text)}, {refused}, "
                        f"{quiet} }},")
    rows = "\n".join(rows)
    return c_file('#include "shim_reasons.h"',
                  "const struct shim_reason shim_reasons[API_COUNT] = {\n"
                  f"{rows}\n}};")


def shim_map(api, graphics):
    text = "\n".join(f"\t{n};" for n in sorted(api.exports() + graphics))
    return ("/* generated from proto/cuda.api by apigen - do not edit */\n"
            f"{{\nglobal:\n{text}\nlocal:\n\t*;\n}};\n")


def files(api, graphics):
    return {"shim_impl.h": shim_impl_h(api),
            "api_exports.h": api_exports_h(api, graphics),
            "shim_entry.c": shim_entry_c(api, graphics),
            "shim_reasons.h": shim_reasons_h(),
            "shim_reasons.c": shim_reasons_c(api),
            "shim.map": shim_map(api, graphics)}
