# SPDX-License-Identifier: Apache-2.0
"""Ids, signatures, the cuda.h wrapper: what both sides share."""

from apigen.text import c_file, header

WIRE_CLASS = {"": "WIRE_LOCAL", "sync ordered": "WIRE_SYNC_ORDERED",
              "sync unordered": "WIRE_SYNC_UNORDERED", "post": "WIRE_POST"}


def api_cuda_h(api):
    return header("api_cuda.h", """
/*
 * cuda.h with every function under its exported, versioned name: without the
 * macro, cuda.h renames cuMemAlloc to cuMemAlloc_v2 and so on wherever the
 * name stands, members of structures included. Include this, never cuda.h.
 */
#ifdef __cuda_cuda_h__
#ifndef __CUDA_API_VERSION_INTERNAL
#error "include api_cuda.h instead of cuda.h"
#endif
#endif
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cudaProfiler.h>""")


def api_ids_h(api):
    ids = "\n".join(f"\tAPI_{e.name} = {e.id}," for e in api.all)
    top = max(e.id for e in api.all) + 1
    return header("api_ids.h", f"""
/* Ids of driver functions and internal operations; they never change. */
enum api_id {{
	API_NONE,
{ids}
	API_COUNT = {top}
}};""", """
/* Exported name of the function or operation, NULL for an unused id. */
extern const char *const api_names[API_COUNT];""")


def api_names_c(api):
    rows = "\n".join(f'\t[API_{e.name}] = "{e.name}",' for e in api.all)
    return f"const char *const api_names[API_COUNT] = {{\n{rows}\n}};"


def flags(param):
    words = []
    if param.nullable:
        words.append("WIRE_NULLABLE")
    if param.signed and param.kind == "VALUE":
        words.append("WIRE_SIGNED")
    return " | ".join(words) or "0"


def wire_param(param):
    count = "WIRE_NO_COUNT" if param.count is None else str(param.count)
    return (f"{{ WIRE_{param.kind}, {flags(param)}, "
            f"HANDLE_{param.handle.upper()}, {count}, {param.size} }}")


def api_sigs_h(api):
    return header("api_sigs.h", '#include "api_ids.h"\n'
                  '#include "proto/marshal.h"', """
/* By id. Whatever does not travel is WIRE_LOCAL without parameters. */
extern const struct wire_sig api_sigs[API_COUNT];""")


def api_sigs_c(api):
    params, rows = [], []
    for entry in api.all:
        head = f'\t[API_{entry.name}] = {{ "{entry.name}", '
        if not entry.on_wire:
            rows.append(head + "WIRE_LOCAL, 0, NULL },")
            continue
        where = "NULL"
        if entry.params:
            where = f"params_{entry.name}"
            lines = "\n".join(f"\t{wire_param(p)}, /* {p.name} */"
                              for p in entry.params)
            params.append(f"static const struct wire_param {where}[] = {{\n"
                          f"{lines}\n}};")
        rows.append(f"{head}{WIRE_CLASS[entry.wire]}, {len(entry.params)},\n"
                    f"\t\t{where} }},")
    return c_file('#include "api_sigs.h"',
                  '#include <stddef.h>\n\n#include "api_cuda.h"\n'
                  '#include "proto/handle.h"',
                  api_names_c(api), *params,
                  "const struct wire_sig api_sigs[API_COUNT] = {\n"
                  "\t[API_NONE] = { NULL, WIRE_LOCAL, 0, NULL },\n"
                  + "\n".join(rows) + "\n};")


def files(api):
    return {"api_cuda.h": api_cuda_h(api), "api_ids.h": api_ids_h(api),
            "api_sigs.h": api_sigs_h(api), "api_sigs.c": api_sigs_c(api)}
