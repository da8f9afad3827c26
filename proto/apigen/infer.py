# SPDX-License-Identifier: Apache-2.0
"""How each parameter travels: from its C type, corrected by `arg` words."""

import re

from apigen import cudatypes as ct
from apigen.model import ApiError

# Functions whose first pointer to a handle gives birth to it; all others
# return handles that exist, which only handwritten code can find.
MAKES_HANDLE = re.compile(r"Create|Add|Clone|Instantiate|Load|Import|Open")
ARG_FLAGS = ("out", "in", "inout", "string", "new", "nullable", "value")
OP_SCALARS = {"u32": (4, False), "u64": (8, False),
              "i32": (4, True), "i64": (8, True)}


def is_pointer(ctype):
    return ctype.endswith("*")


def pointee(ctype):
    """'const int *' -> ('int', True)."""
    base = ctype[:-1].strip()
    if base.startswith("const ") and not base.endswith("*"):
        return base[6:], True
    return base, False


class Inference:
    def __init__(self, api):
        self.api = api

    def fail(self, line, text):
        raise ApiError(self.api.path, line, text)

    def run(self):
        for entry in self.api.all:
            for index, param in enumerate(entry.params):
                if entry.is_op:
                    self.op_param(entry, param, index)
                else:
                    self.c_param(entry, param)
            if not entry.is_op:
                for param in entry.params:
                    self.overrides(entry, param)
            self.demand(entry)

    # Driver functions

    def c_param(self, entry, param):
        ctype = param.ctype
        if is_pointer(ctype):
            self.pointer(entry, param)
        elif ctype in ct.HANDLES:
            param.kind, param.size = "HANDLE", "8"
            param.handle = ct.HANDLES[ctype]
            param.nullable = ctype == "CUstream"
        elif not self.scalar(param, ctype, "VALUE"):
            if ctype in ct.LOCAL_ONLY:
                param.why_not = f"a {ctype} belongs to this process"
            elif ctype in ct.BY_VALUE:
                self.by_value(param, ctype)
            elif ctype in ct.STRUCTS:
                self.fail(param.line, f"{entry.name}: structure {ctype} by "
                                      "value is not a known type")
            else:
                self.fail(param.line, f"{entry.name}: unknown type {ctype}")

    def scalar(self, param, ctype, kind):
        """VALUE or OUT_VALUE of a scalar type."""
        if ctype in ct.SCALARS:
            size, param.signed = ct.SCALARS[ctype]
        elif ctype in ct.ENUMS:
            size, param.signed = 4, False
        elif ctype in ct.FLOATS:
            size = int(ct.FLOATS[ctype])
            kind = ctype.upper() if kind == "VALUE" else kind
        else:
            return False
        param.kind, param.size = kind, str(size)
        return True

    def by_value(self, param, ctype):
        if ct.BY_VALUE[ctype]:
            param.kind, param.size = "VALUE", str(ct.BY_VALUE[ctype])
        else:
            param.why_not = f"{ctype} by value needs handwritten code"

    def pointer(self, entry, param):
        base, const = pointee(param.ctype)
        known = (base in ct.SCALARS or base in ct.FLOATS or base in ct.ENUMS
                 or base in ct.STRUCTS or base in ct.HANDLES
                 or base in ct.LOCAL_ONLY or base == "void"
                 or is_pointer(base))
        if not known:
            self.fail(param.line, f"{entry.name}: unknown type {base}")
        if base == "char" and const:
            param.kind, param.size = "STRING", "1"
        elif base == "void":
            param.why_not = f"{param.ctype} says nothing of its bytes"
        elif is_pointer(base) or base in ct.LOCAL_ONLY:
            param.why_not = f"{param.ctype} belongs to this process"
        elif base in ct.HANDLES:
            self.handle_pointer(entry, param, base, const)
        elif base in ct.STRUCTS:
            param.kind = "BYTES" if const else "OUT_BYTES"
            param.size = f"sizeof({base})"
            if base in ct.WITH_POINTERS:
                param.why_not = f"{base} holds pointers or handles"
        elif const:
            param.kind, param.size = "BYTES", f"sizeof({base})"
        elif base == "char":
            self.text_out(entry, param)
        else:
            self.scalar(param, base, "OUT_VALUE")

    def handle_pointer(self, entry, param, base, const):
        first = next(p for p in entry.params if is_pointer(p.ctype)
                     and pointee(p.ctype)[0] in ct.HANDLES)
        if const:
            param.why_not = "an array of handles needs translation"
        elif param is first and MAKES_HANDLE.search(entry.name):
            self.new_handle(param, base)
        else:
            param.why_not = f"returns a {base} that exists already"

    def new_handle(self, param, base):
        param.kind, param.size, param.why_not = "NEW_HANDLE", "8", ""
        param.handle = ct.HANDLES[base]

    def text_out(self, entry, param):
        """char *name, int len."""
        index = entry.params.index(param) + 1
        after = entry.params[index] if index < len(entry.params) else None
        if after is None or after.ctype not in ("int", "size_t",
                                                "unsigned int"):
            param.why_not = "char * without a length after it"
            return
        param.kind, param.size, param.count = "OUT_BYTES", "1", index

    def overrides(self, entry, param):
        for word in param.words:
            key, _, value = word.partition("=")
            if key == "count" and value:
                self.set_count(entry, param, value)
            elif key == "size" and value:
                param.size, param.why_not = value, ""
            elif key == "handle" and value:
                if value not in ct.HANDLE_KINDS:
                    self.fail(param.line, f"no handle kind '{value}'")
                param.kind, param.size, param.handle = "HANDLE", "8", value
                param.why_not = ""
            elif word in ARG_FLAGS:
                self.flag(entry, param, word)
            else:
                self.fail(param.line, f"arg {param.name}: unknown '{word}'")

    def set_count(self, entry, param, name):
        names = [p.name for p in entry.params]
        if name not in names:
            self.fail(param.line, f"{entry.name} has no parameter {name}")
        count = entry.params[names.index(name)]
        if count.kind != "VALUE":
            self.fail(param.line, f"count {name} is not a value")
        param.count = names.index(name)
        if param.kind == "OUT_VALUE":
            param.kind = "OUT_BYTES"

    def flag(self, entry, param, word):
        if word == "nullable":
            param.nullable = True
            return
        if not is_pointer(param.ctype):
            self.fail(param.line, f"arg {param.name} {word}: not a pointer")
        base, _ = pointee(param.ctype)
        if word == "value":
            param.kind, param.size, param.signed = "VALUE", "8", False
        elif word == "string":
            param.kind, param.size = "STRING", "1"
        elif word == "new":
            if base not in ct.HANDLES:
                self.fail(param.line, f"arg {param.name} new: {base} is no "
                                      "handle that travels")
            self.new_handle(param, base)
        else:
            param.kind = {"in": "BYTES", "out": "OUT_BYTES",
                          "inout": "INOUT_BYTES"}[word]
            if base == "void":
                param.size = "1"
            elif param.size == "0" or base in ct.SCALARS:
                param.size = f"sizeof({base})"
        param.why_not = ""

    # Operations

    def op_param(self, entry, param, index):
        words = param.ctype.split()
        what = words[-1]
        if words[0] in ("id", "new"):
            if what not in ct.HANDLE_KINDS:
                self.fail(param.line, f"no handle kind '{what}'")
            param.handle, param.size = what, "8"
            param.kind = "HANDLE" if words[0] == "id" else "NEW_HANDLE"
            param.nullable = False
        elif words[:2] == ["out", "bytes"]:
            names = [p.name for p in entry.params]
            if what not in names:
                self.fail(param.line, f"{entry.name} has no parameter {what}")
            param.kind, param.size = "OUT_BYTES", "1"
            param.count = names.index(what)
        elif words[0] == "out":
            param.kind = "OUT_VALUE"
            param.size = "4" if what.endswith("32") else "8"
        elif what in OP_SCALARS:
            size, param.signed = OP_SCALARS[what]
            param.kind, param.size = "VALUE", str(size)
        elif what in ("f32", "f64"):
            param.kind = "FLOAT" if what == "f32" else "DOUBLE"
            param.size = "4" if what == "f32" else "8"
        elif what == "string":
            param.kind, param.size = "STRING", "1"
        else:
            param.kind, param.size, param.count = "BYTES", "1", index + 1
            param.nullable = True

    def demand(self, entry):
        """Whoever travels under its own id must be wholly understood."""
        for param in entry.params:
            if param.count is not None:
                count = entry.params[param.count]
                if count.kind != "VALUE":
                    self.fail(param.line, f"{entry.name}: capacity "
                                          f"{count.name} is not a value")
            if entry.wire and (param.why_not or param.kind is None):
                self.fail(param.line,
                          f"{entry.name}: {param.name} cannot travel: "
                          f"{param.why_not}; say 'arg {param.name} …' or "
                          "class local or custom")


def infer(api):
    Inference(api).run()
