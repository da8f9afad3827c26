# SPDX-License-Identifier: Apache-2.0
"""proto/COVERAGE.md: what is served and why the rest is not."""

KINDS = ("full", "partial", "refused")


def count(entries, kind):
    return sum(e.cover.kind == kind for e in entries)


def group_table(api):
    lines = ["| group | | functions | full | partial | refused |",
             "|---|---|---:|---:|---:|---:|"]
    for group, title in api.groups.items():
        entries = [e for e in api.entries if e.group == group]
        if entries:
            cells = " | ".join(str(count(entries, k)) for k in KINDS)
            lines.append(f"| {group} | {title} | {len(entries)} | {cells} |")
    cells = " | ".join(str(count(api.entries, k)) for k in KINDS)
    lines.append(f"| **all** | | {len(api.entries)} | {cells} |")
    return lines


def name_list(entries):
    return ", ".join(f"{e.name} (= {e.alias})" if e.alias else e.name
                     for e in entries)


def group_details(api, group, title):
    entries = [e for e in api.entries if e.group == group]
    lines = [f"### {group}: {title}", ""]
    full = [e for e in entries if e.cover.kind == "full"]
    if full:
        lines += [f"Full: {name_list(full)}.", ""]
    for entry in entries:
        if entry.cover.kind == "partial":
            lines += [f"Partial: {entry.name}: {entry.cover.text}.", ""]
    reasons = {}
    for entry in entries:
        if entry.cover.kind == "refused":
            key = (entry.cover.code, entry.cover.text)
            reasons.setdefault(key, []).append(entry)
    for (code, text), refused in reasons.items():
        lines += [f"Refused with {code}, {text}: {name_list(refused)}.", ""]
    return lines


def op_params(op):
    def show(p):
        words = p.ctype.split()
        if words[0] == "new":
            return f"new id({words[2]}) {p.name}"
        if words[0] == "id":
            return f"id({words[1]}) {p.name}"
        if words[:2] == ["out", "bytes"]:
            return f"out bytes({words[2]}) {p.name}"
        return f"{p.ctype} {p.name}"
    sizes = {op.params[p.count].name for p in op.params if p.kind == "BYTES"}
    return ", ".join(show(p) for p in op.params if p.name not in sizes)


def coverage_md(api, graphics):
    twins = [e for e in api.entries if e.twin]
    lines = ["<!-- generated from proto/cuda.api by apigen - do not edit -->",
             "# What of the CUDA driver API is served", "",
             f"{len(api.entries)} functions = "
             + " + ".join(f"{count(api.entries, k)} {k}" for k in KINDS)
             + f"; with {len(twins)} per-thread-stream twins "
             f"{len(api.exports())} exports. {len(graphics)} GL, EGL and "
             "VDPAU functions are exported as well and refuse with "
             "CUDA_ERROR_NOT_SUPPORTED. A refused function is found by "
             "cuGetProcAddress and refuses when it is called; (= name) is "
             "served by that function.", ""]
    lines += group_table(api) + [""]
    for group, title in api.groups.items():
        if any(e.group == group for e in api.entries):
            lines += group_details(api, group, title)
    lines += ["## Functions that wait", "",
              "What the driver library waits for in a function, whoever calls "
              "it; the worker keeps these off the lanes.", "",
              "| function | waits for |", "|---|---|"]
    lines += [f"| {e.name} | {e.waits} |" for e in api.entries if e.waits]
    lines += ["", "## Internal operations", "",
              "| id | operation | class | runs on |", "|---:|---|---|---|"]
    for op in api.ops:
        lines.append(f"| {op.id} | {op.name}({op_params(op)}) | {op.wire} | "
                     f"{op.on} |")
    return "\n".join(lines) + "\n"
