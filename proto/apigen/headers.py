# SPDX-License-Identifier: Apache-2.0
"""Compare cuda.api with NVIDIA's headers and with the stub library."""

import pathlib
import re
import subprocess

from apigen import cudatypes as ct
from apigen import procaddr
from apigen.parse import Parser

SOURCE = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
PROTOTYPE = re.compile(r"CUresult\s+(cu\w+)\s*\(([^;{}]*)\)\s*;")
TWIN = re.compile(r"(.*)_(ptds|ptsz)$")


def preprocess(include):
    return subprocess.run(
        ["gcc", "-E", "-P", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL",
         "-I", include, "-"], input=SOURCE, check=True, text=True,
        capture_output=True).stdout


def normalise(ctype):
    return re.sub(r"\bunsigned$", "unsigned int", ctype)


def header_prototypes(text):
    """name -> [(type, name)…] of every function that cuda.h declares."""
    found = {}
    parser = Parser("cuda.h", "")
    for name, params in PROTOTYPE.findall(text):
        params = re.sub(r"\s+", " ", params)
        found[name] = [(normalise(p.ctype), p.name)
                       for p in parser.c_params(0, params)]
    return found


def compare_prototypes(api, found):
    for entry in api.entries:
        names = [entry.name] + ([entry.twin_name] if entry.twin else [])
        for name in names:
            mine = [(p.ctype, p.name) for p in entry.params]
            if name not in found:
                yield f"{name}: not in cuda.h"
            elif name == entry.name and found[name] != mine:
                yield f"{name}: cuda.h has {found[name]}, we have {mine}"
            elif [t for t, _ in found[name]] != [t for t, _ in mine]:
                yield f"{name}: cuda.h has other parameter types"
    known = set(api.exports())
    for name in sorted(found.keys() - known):
        yield f"{name}: in cuda.h, not here"


def compare_codes(text):
    start = text.index("enum cudaError_enum")
    body = text[start:text.index("CUresult;", start)]
    theirs = {n: int(v) for n, v in
              re.findall(r"(CUDA_[A-Z0-9_]+)\s*=\s*(\d+)", body)}
    for name in sorted(theirs.keys() | ct.CODES.keys()):
        if theirs.get(name) != ct.CODES.get(name):
            yield (f"{name}: cuda.h has {theirs.get(name)}, we have "
                   f"{ct.CODES.get(name)}")


def compare_types(text, include):
    """Sizes and signedness that inference relies on, asked of gcc."""
    lines = []
    for name, (size, signed) in ct.SCALARS.items():
        lines.append(f"_Static_assert(sizeof({name}) == {size} && "
                     f"(({name})-1 < 0) == {int(signed)}, \"{name}\");")
    for name in sorted(ct.ENUMS):
        lines.append(f"_Static_assert(sizeof({name}) == 4, \"{name}\");")
    for name, size in ct.BY_VALUE.items():
        if size:
            lines.append(f"_Static_assert(sizeof({name}) == {size}, "
                         f"\"{name}\");")
    for name in sorted(ct.STRUCTS):
        lines.append(f"_Static_assert(sizeof({name}) > 0, \"{name}\");")
    for name in sorted(set(ct.HANDLES) | ct.LOCAL_ONLY):
        lines.append(f"_Static_assert(sizeof({name}) == 8, \"{name}\");")
    run = subprocess.run(
        ["gcc", "-fsyntax-only", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL",
         "-I", include, "-"], input=SOURCE + "\n".join(lines) + "\n",
        text=True, capture_output=True)
    for line in run.stderr.splitlines():
        if "error" in line:
            yield f"types: {line}"


def compare_procaddr(include, rows):
    theirs = procaddr.rows_from_headers(include)
    for name in sorted(theirs.keys() | rows.keys()):
        if theirs.get(name) != rows.get(name):
            yield f"{name}: cuGetProcAddress rows differ from the headers"


def compare_stub(api, path, committed):
    text = subprocess.run(["nm", "-D", "--defined-only", path], check=True,
                          text=True, capture_output=True).stdout
    symbols = {line.split()[2] for line in text.splitlines()
               if line.split()[2].startswith("cu")}
    yield from compare_names("the stub", symbols, set(api.exports()))
    yield from compare_names("exports-13.0.txt", set(committed), symbols)


def compare_names(what, theirs, ours):
    for name in sorted(theirs - ours):
        yield f"{name}: in {what}, not here"
    for name in sorted(ours - theirs):
        yield f"{name}: not in {what}"


def check_headers(api, include, rows):
    text = preprocess(include)
    yield from compare_prototypes(api, header_prototypes(text))
    yield from compare_codes(text)
    yield from compare_types(text, include)
    if (pathlib.Path(include) / procaddr.HEADERS[0]).exists():
        yield from compare_procaddr(include, rows)
