# SPDX-License-Identifier: Apache-2.0
"""Typed wrappers with which handwritten shim code sends calls."""

from apigen.text import call, declare, header, pointer_to, prototype

OP_TYPES = {"u32": "uint32_t", "u64": "uint64_t", "i32": "int32_t",
            "i64": "int64_t", "f32": "float", "f64": "double"}


def op_ctype(param):
    """The C type of an operation's parameter on the shim's side."""
    words = param.ctype.split()
    if words[0] == "id":
        return "uint64_t"
    if words[0] == "new":
        return "const uint64_t *"
    if words[:2] == ["out", "bytes"]:
        return "void *"
    if words[0] == "out":
        return OP_TYPES[words[1]] + " *"
    return {"string": "const char *", "bytes": "const void *",
            }.get(words[0]) or OP_TYPES[words[0]]


def ctype_of(entry, param):
    return op_ctype(param) if entry.is_op else param.ctype


def wrapper(entry):
    params = ["struct shim_chan *chan"]
    params += [declare(ctype_of(entry, p), p.name) for p in entry.params]
    verb = "shim_chan_post" if entry.wire == "post" else "shim_chan_call"
    lines = ""
    argv = "NULL"
    if entry.params:
        pieces = [pointer_to(ctype_of(entry, p), p.name)
                  for p in entry.params]
        lines = call("\tvoid *argv[] = { ", pieces, " };") + "\n\n"
        argv = "argv"
    return (prototype("static inline CUresult", f"call_{entry.name}", params,
                      ")")
            + f"\n{{\n{lines}\treturn {verb}(chan, API_{entry.name}, {argv});"
            "\n}")


def shim_calls_h(api):
    return header("shim_calls.h",
                  "#include <stdint.h>\n\n"
                  '#include "api_cuda.h"\n#include "api_ids.h"\n'
                  '#include "shim/chan.h"', """
/*
 * One wrapper for each id that travels. argv[i] points at argument i, as
 * shim_chan_call() and shim_chan_post() of shim/chan.h expect. A new id is
 * passed by pointer: the caller has minted it.
 */""", *[wrapper(e) for e in api.all if e.on_wire])


def files(api):
    return {"shim_calls.h": shim_calls_h(api)}
