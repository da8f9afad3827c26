# SPDX-License-Identifier: Apache-2.0
"""Small pieces of C text that several emitters need."""

BANNER = "/* generated from proto/cuda.api by apigen - do not edit */"


def c_file(*parts):
    """A C file: the banner, then the parts, blank lines between them."""
    return "\n\n".join([BANNER] + [p.strip("\n") for p in parts if p]) + "\n"


def header(name, *parts):
    guard = "GEN_" + name.upper().replace(".", "_")
    return c_file(f"#ifndef {guard}\n#define {guard}", *parts, "#endif")


def declare(ctype, name):
    return ctype + name if ctype.endswith("*") else f"{ctype} {name}"


def wrap(head, pieces, tail, width=79):
    """head(piece, piece…)tail with continuation lines under the bracket."""
    pieces = pieces or ["void"]
    column = len(head.expandtabs(8)) - head.rfind("\n") - 1
    if column > 40 or "\n" not in head and column > 48:
        column = 16
    indent = "\t" * (column // 8) + " " * (column % 8)
    lines, line = [], head
    for i, piece in enumerate(pieces):
        piece += "," if i < len(pieces) - 1 else tail
        last = line.rsplit("\n", 1)[-1]
        if i and len(last.expandtabs(8)) + 1 + len(piece) > width:
            lines.append(line)
            line = indent + piece
        else:
            line += (" " if i else "") + piece
    return "\n".join(lines + [line])


def call(head, names, tail=");"):
    """head(name, name…); for a call: no void for an empty list."""
    return wrap(head, names, tail) if names else head + tail


def c_params(entry):
    return [declare(p.ctype, p.name) for p in entry.params]


def prototype(result, name, params, tail=");"):
    """GNU style: the result on a line of its own, so ^name finds it."""
    return wrap(f"{result}\n{name}(", params, tail)


def one_line_prototype(result, name, params):
    return wrap(f"{result} {name}(", params, ");")


def pointer_to(ctype, name):
    """An element of argv: a pointer to the variable, const or not."""
    return f"(void *)&{name}" if ctype.startswith("const ") else f"&{name}"
