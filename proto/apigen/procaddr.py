# SPDX-License-Identifier: Apache-2.0
"""cuGetProcAddress: which symbol a name stands for at which version.

The rows come from the PFN_<name>_v<version>[_ptds|_ptsz] types of NVIDIA's
cuda*Typedefs.h and are committed as proto/procaddr-13.0.tsv for machines
without those headers. Two rules make symbols of them: the n-th version of a
name is exported as <name>, <name>_v2, <name>_v3 …; the per-thread flag takes
only the _ptds or _ptsz twins, from the twin's version on, where there are any.
"""

import pathlib
import re

from apigen.model import ApiError
from apigen.text import c_file

HEADERS = ("cudaTypedefs.h", "cudaProfilerTypedefs.h", "cudaGLTypedefs.h",
           "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h")
PFN = re.compile(r"\*PFN_(cu\w+?)_v(\d+)(?:_(ptds|ptsz))?\)")
# Declared, but the Linux x86-64 driver finds neither by name.
NOT_ON_LINUX = ("cuWGLGetDevice", "cuEventCreateFromEGLSync")
HEAD = ("# cuGetProcAddress of CUDA 13.0: name, then VERSION=SYMBOL ascending "
        "for flags 0 and 1, then for flags 2 and 3.\n"
        "# Written by `apigen --write-procaddr`; see proto/apigen/procaddr.py "
        "for the rules.\n")


def rows_from_headers(include):
    """{name: ([(version, symbol)…] legacy, the same per thread)}."""
    plain, twins = {}, {}
    for header in HEADERS:
        text = (pathlib.Path(include) / header).read_text(encoding="utf-8")
        for name, version, suffix in PFN.findall(text):
            if name in NOT_ON_LINUX:
                continue
            where = twins if suffix else plain
            where.setdefault(name, {})[int(version)] = suffix
    rows = {}
    for name in sorted(plain.keys() | twins.keys()):
        rows[name] = one_name(name, sorted(plain.get(name, {})),
                              twins.get(name, {}))
    return rows


def one_name(name, versions, twins):
    first = min(versions)
    symbols = {v: name if v == first else f"{name}_v{n}"
               for n, v in enumerate(versions, 1)}
    legacy = sorted(symbols.items())
    if not twins:
        return legacy, legacy
    # With a twin there is nothing per-thread before the twin's version.
    per_thread = [(v, symbols[max(p for p in versions if p <= v)] + "_" + s)
                  for v, s in sorted(twins.items())]
    return legacy, per_thread


def to_tsv(rows):
    def cell(pairs):
        return " ".join(f"{v}={s}" for v, s in pairs)
    return HEAD + "".join(f"{name}\t{cell(a)}\t{cell(b)}\n"
                          for name, (a, b) in rows.items())


def read_tsv(path, shown=None):
    rows = {}
    shown = shown or path
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#"):
                continue
            cells = line.rstrip("\n").split("\t")
            if len(cells) != 3:
                raise ApiError(shown, number, "expected three columns")
            rows[cells[0]] = tuple(parse_cell(shown, number, c)
                                   for c in cells[1:])
            if cells[0] != max(rows):
                raise ApiError(shown, number, f"{cells[0]} is out of order")
    return rows


def parse_cell(path, number, cell):
    pairs = []
    for item in cell.split(" "):
        if not re.fullmatch(r"\d+=cu\w+", item):
            raise ApiError(path, number, f"not VERSION=SYMBOL: '{item}'")
        version, symbol = item.split("=")
        pairs.append((int(version), symbol))
    if pairs != sorted(pairs):
        raise ApiError(path, number, "versions do not ascend")
    return pairs


def merged(legacy, per_thread):
    """[(version, legacy symbol, per-thread symbol)…]: one step per change."""
    def at(pairs, version):
        found = [s for v, s in pairs if v <= version]
        return found[-1] if found else None
    versions = sorted({v for v, _ in legacy} | {v for v, _ in per_thread})
    return [(v, at(legacy, v), at(per_thread, v)) for v in versions]


def name_hash(name):
    """As shim/procaddr.c does it, of four bytes at three places."""
    def word(at):
        return int.from_bytes((name.encode() + b"\0")[at:at + 4], "little")
    mixed = (word(2) * 0x9e3779b1 ^ word(len(name) // 2) * 0x85ebca77 ^
             word(len(name) - 4) * 0xc2b2ae3d) + len(name)
    return (mixed & 0xffffffff) * 0x27d4eb2f >> 16


def hash_slots(names):
    """Numbers of names from 1 on at their hashes, or at the next free slot
    behind; at least half of the slots are 0, where a search ends."""
    size = 16
    while size < 2 * len(names):
        size *= 2
    slots = [0] * size
    for number, name in enumerate(names, 1):
        at = name_hash(name) % size
        while slots[at]:
            at = (at + 1) % size
        slots[at] = number
    return slots


def shim_procaddr_c(rows, exports, path):
    """Names in one block of text and symbols by index: the fewer pointers,
    the less the dynamic linker has to do in every process."""
    symbols = sorted({s for a, b in rows.values() for _, s in a + b})
    missing = [s for s in symbols if s not in exports]
    if missing:
        raise ApiError(path, 1, f"{missing[0]} is not exported")
    index = {s: i for i, s in enumerate(symbols)}
    index[None] = "SHIM_PROC_NONE"
    names, versions, blob, offset = [], [], [], 0
    short = [name for name in rows if len(name) < 6]
    if short:
        raise ApiError(path, 1, f"{short[0]} is too short a name")
    slots = hash_slots(sorted(rows))
    for name, (legacy, per_thread) in sorted(rows.items()):
        steps = merged(legacy, per_thread)
        names.append(f"\t{{ {offset}, {len(versions)}, {len(steps)} }}, "
                     f"/* {name} */")
        versions += [f"\t{{ {v}, {index[a]}, {index[b]} }},"
                     for v, a, b in steps]
        blob.append(f'\t"{name}\\0"')
        offset += len(name) + 1
    return c_file('#include "shim/procaddr.h"', '#include "api_exports.h"', """
/* Hidden aliases of the entry points: see shim_entry.c. */
#define DECLARE(name) \\
	__attribute__((visibility("hidden"))) void entry_##name(void);
API_EXPORTS(DECLARE)""",
                  f"const unsigned int shim_proc_mask = {len(slots) - 1};",
                  "const uint16_t shim_proc_slots[] = {\n" + "\n".join(
                      "\t" + " ".join(f"{n}," for n in slots[i:i + 12])
                      for i in range(0, len(slots), 12)) + "\n};",
                  # strcmp takes a slower way across the end of a page:
                  # where that is, is not to depend on other code.
                  "_Alignas(4096) const char shim_proc_text[] =\n"
                  + "\n".join(blob) + ";",
                  "const struct shim_proc_name shim_proc_names[] = {\n"
                  + "\n".join(names) + "\n};",
                  "const struct shim_proc_version shim_proc_versions[] = {\n"
                  + "\n".join(versions) + "\n};",
                  "void (*const shim_proc_functions[])(void) = {\n"
                  + "\n".join(f"\tentry_{s}," for s in symbols) + "\n};")
