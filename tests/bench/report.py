#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of a run as a table, as CSV and back.

    report.py CSV...     the table of recorded runs, and their chart on request:
    report.py --svg FILE CSV...
"""
import collections
import csv
import statistics
import sys

# values: one from each repetition.
Row = collections.namedtuple("Row", "figure clients mode unit values")

MODES = ("native", "mps", "mpsrun")
HEADS = {"native": "native *", "mps": "NVIDIA MPS", "mpsrun": "mpsrun"}

KINDS = {
    "step": "C: 50 small kernels a step", "resnet": "PyTorch ResNet-18",
    "bert": "PyTorch BERT-like", "tiny": "PyTorch 50 small products",
    "mix": "PyTorch ResNet-18 and BERT-like",
    "mix_resnet": "  of these ResNet-18", "mix_bert": "  of these BERT-like",
}


def labels():
    """What to call each figure, in the table's order."""
    out = {}
    for n in (4, 20):
        for p in ("p50", "p99"):
            out["launch_%d_%s" % (n, p)] = "cuLaunchKernel, %d parameters, " \
                "%s" % (n, p)
    out.update({
        "get_device": "cuCtxGetDevice", "get_current": "cuCtxGetCurrent",
        "attribute": "cuDeviceGetAttribute",
        "proc_address": "cuGetProcAddress",
        "launch_sync": "launch + cuStreamSynchronize",
        "launch_event_sync": "launch + record + cuEventSynchronize",
        "sync_idle": "cuStreamSynchronize, idle",
        "event_record_p50": "cuEventRecord, p50",
        "event_record_p99": "cuEventRecord, p99",
        "event_query": "cuEventQuery, done",
        "event_sync": "cuEventSynchronize, done",
        "alloc_free": "cuMemAlloc + cuMemFree, 1 MiB"})
    for kind in ("pageable", "pinned"):
        for size in ("4B", "64KiB", "1MiB", "256MiB", "1GiB"):
            for way, name in (("htod", "HtoD"), ("dtoh", "DtoH")):
                out["%s_%s_%s" % (way, kind, size)] = "copy %s, %s, %s" % (
                    name, kind, size.replace("B", " B").replace(
                        "Ki B", " KiB").replace("Mi B", " MiB").replace(
                        "Gi B", " GiB"))
    out.update({
        "load_cold": "load + first kernel, new code",
        "load_warm": "load + first kernel, known code",
        "start_first": "start to first result, 1st client",
        "start_next": "start to first result, k-th client",
        "empty_rate": "empty kernels", "spin_rate": "kernels of 8 blocks, "
        "15 us"})
    for kind, name in KINDS.items():
        out[kind + "_rate"] = name + ("" if name[0] == " " else ", steps")
        out[kind + "_p50"] = name + ", p50"
        out[kind + "_p99"] = name + ", p99"
        out[kind + "_cpu"] = name + ", CPU per 1000 steps"
        out[kind + "_first"] = name + ", first result"
        out[kind + "_memory"] = name + ", GPU memory"
    out.update({
        "memory_used": "PyTorch tenants, GPU memory",
        "memory_asked": "  a further tenant's allocation calls",
        "memory_reserved": "  of these PyTorch's own",
        "memory_further": "  per further tenant, less what it asked for",
        "memory_first": "  first result of the last"})
    return out


LABELS = labels()

# What the figure of mpsrun is to be: at most (at least, for rates) FACTOR
# times the figure of BASE plus PLUS.
Target = collections.namedtuple("Target", "factor base plus")


def targets():
    out = {
        ("launch_4_p50", 1): Target(0, None, 0.5),
        ("launch_4_p99", 1): Target(0, None, 2),
        ("launch_20_p50", 1): Target(0, None, 0.5),
        ("launch_20_p99", 1): Target(0, None, 2),
        ("launch_sync", 1): Target(1.05, "native", 0),
        ("dtoh_pageable_4B", 1): Target(1, "native", 1),
        ("alloc_free", 1): Target(0.2, "native", 0),
        ("start_next", 1): Target(0, None, 20),
        ("empty_rate", 1): Target(0.9, "native", 0),
        ("empty_rate", 8): Target(0.85, "mps", 0),
        ("spin_rate", 8): Target(0.98, "mps", 0),
        ("resnet_rate", 1): Target(1, "native", 0),
        ("bert_rate", 1): Target(1, "native", 0),
        ("mix_rate", 8): Target(1, "mps", 0),
        ("mix_resnet_p99", 8): Target(1, "mps", 0),
        ("mix_bert_p99", 8): Target(1, "mps", 0),
        ("resnet_cpu", 1): Target(1.5, "native", 0),
        ("bert_cpu", 1): Target(1.5, "native", 0),
        ("mix_cpu", 8): Target(1.5, "native", 0),
        ("memory_further", 8): Target(0, None, 60),
    }
    for local in ("get_device", "get_current", "attribute", "proc_address"):
        out[local, 1] = Target(0, None, 0.05)
    for way in ("htod", "dtoh"):
        for size in ("1MiB", "256MiB", "1GiB"):
            out["%s_pinned_%s" % (way, size), 1] = Target(0.97, "native", 0)
        for size in ("1MiB", "256MiB"):
            out["%s_pageable_%s" % (way, size), 1] = Target(1, "native", 0)
    return out


TARGETS = targets()


def more_is_better(unit):
    return unit.endswith("/s")


def number(x):
    """Three digits, and all of those before the point."""
    return "%d" % round(x) if abs(x) >= 100 else "%.3g" % x


def spread_percent(values):
    """Half of what lies between the lowest and the highest."""
    middle = statistics.median(values)
    return 50 * (max(values) - min(values)) / middle if middle else 0


def cell(values):
    if not values:
        return "-"
    text = number(statistics.median(values))
    if len(values) > 1:
        text += " ±%.0f%%" % spread_percent(values)
    return text


def grouped(rows):
    """{(figure, clients): (unit, {mode: values})} in the table's order. Rows
    of the same figure, as from several runs, are one."""
    out = {}
    for r in rows:
        unit, by_mode = out.setdefault((r.figure, r.clients), (r.unit, {}))
        by_mode.setdefault(r.mode, []).extend(r.values)
    order = {f: i for i, f in enumerate(LABELS)}
    return dict(sorted(out.items(), key=lambda item: (
        order.get(item[0][0], len(order)), item[0][1])))


def target_text(target, unit):
    parts = []
    if target.base:
        name = "MPS" if target.base == "mps" else target.base
        parts.append(name if target.factor == 1 else
                     "%g %s" % (target.factor, name))
    if target.plus:
        parts.append("%g" % target.plus)
    return ("≥ " if more_is_better(unit) else "≤ ") + " + ".join(parts)


def verdict(target, unit, by_mode):
    """"met", "not met", or "-" where a figure is missing."""
    if not by_mode.get("mpsrun") or (
            target.base and not by_mode.get(target.base)):
        return "-"
    limit = target.plus
    if target.base:
        limit += target.factor * statistics.median(by_mode[target.base])
    ours = statistics.median(by_mode["mpsrun"])
    met = ours >= limit if more_is_better(unit) else ours <= limit
    return "met" if met else "not met"


def table(rows, on_gpu):
    """Lines of the table. Targets are for a GPU."""
    groups = grouped(rows)
    modes = [m for m in MODES if any(m in g[1] for g in groups.values())]
    head = ["figure", "clients", "unit"] + [HEADS[m] for m in modes]
    lines = [head + ["target", ""]]
    for (figure, clients), (unit, by_mode) in groups.items():
        target = TARGETS.get((figure, clients)) if on_gpu else None
        lines.append(
            [LABELS.get(figure, figure), str(clients), unit] +
            [cell(by_mode.get(m)) for m in modes] +
            ([target_text(target, unit), verdict(target, unit, by_mode)]
             if target else ["", ""]))
    widths = [max(map(len, column)) for column in zip(*lines)]
    out = []
    for line in lines:
        cells = [c.ljust(w) if i in (0, 2) or i > 2 + len(modes)
                 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))]
        out.append("  ".join(cells).rstrip())
    out.insert(1, "-" * max(map(len, out)))
    out.append("* one client alone has the GPU; several are time-sliced. "
               "Median of the repetitions, ± half of their range.")
    return out


def write_csv(path, rows, device):
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["figure", "clients", "mode", "unit", "device", "median",
                      "low", "high", "values"])
        for r in rows:
            out.writerow([r.figure, r.clients, r.mode, r.unit, device,
                          "%.6g" % statistics.median(r.values),
                          "%.6g" % min(r.values), "%.6g" % max(r.values),
                          " ".join("%.6g" % v for v in r.values)])


def read_csv(path):
    """(rows, device)"""
    rows, device = [], ""
    with open(path, newline="") as f:
        for line in csv.DictReader(f):
            device = line["device"]
            rows.append(Row(line["figure"], int(line["clients"]),
                            line["mode"], line["unit"],
                            [float(v) for v in line["values"].split()]))
    return rows, device


def parse_lines(text, mode, clients):
    """Rows from what micro, clients and start print."""
    rows = []
    for line in text.splitlines():
        figure, unit, values = line.split("\t")
        rows.append(Row(figure, clients, mode, unit,
                        [float(v) for v in values.split()]))
    return rows


def main():
    import chart

    paths = sys.argv[1:]
    svg = None
    if paths[:1] == ["--svg"]:
        svg, paths = paths[1], paths[2:]
    if not paths:
        sys.exit(__doc__)
    rows, devices = [], set()
    for path in paths:
        more, device = read_csv(path)
        rows += more
        devices.add(device)
    if len(devices) > 1:
        sys.exit("runs of different devices: " + ", ".join(sorted(devices)))
    device = devices.pop()
    print(device)
    print("\n".join(table(rows, "software" not in device)))
    if svg:
        with open(svg, "w") as f:
            f.write(chart.svg(rows, device))


if __name__ == "__main__":
    main()
