#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What calls waited for, and for whom a third client's kernels waited.

    stall.py NAMES ALONE BESIDE TABLE

NAMES is the generated timed_names.h. ALONE and BESIDE are folders with what
timed.so and beside left of the same programs, without and with a neighbour
whose kernels run for long: PID.calls, third.spans, neighbour.spans. TABLE is
written: a line a function. Printed is what is beyond a bound; exit status 1
if anything is.

The third's bound. The load gate lets code in when no operation is older than
GATE_MS, and what loads is waited for by everybody (measured: README.md); how
long that takes on this device is what it took ALONE. Twice that, since two
such loads may follow one another, is still far from the neighbour's kernel.

A function waits for the neighbour if its longest call is longer than the
longest ALONE by more than a part of the neighbour's kernel. Those that may
are in waits.tsv with the reason.
"""

import array
import bisect
import pathlib
import re
import sys

# server/worker/gate.c: OLD_NS.
GATE_MS = 5
# Of the neighbour's kernel: what a wait for it takes at least.
WAIT_SHARE = 0.1
# A call may return before it is replayed: blame those of so long before, too.
REPLAY_NS = 2_000_000
MS = 1e6


def words(path):
    """The 64-bit words of a file with as many entries as its first says."""
    width = 2 if path.suffix == ".spans" else 3
    with open(path, "rb") as file:
        first = array.array("Q", file.read(8))
        data = array.array("Q", first.tobytes())
        data.frombytes(file.read(8 * (width * (first[0] + 1) - 1)))
    return data[width:], width


class Spans:
    """One client's kernels, one after the other."""

    def __init__(self, path):
        data, _ = words(path)
        self.starts, self.ends = data[0::2], data[1::2]
        # The last may not have come to its end when all was over.
        if self.ends and not self.ends[-1]:
            self.starts.pop()
            self.ends.pop()

    def longest_in(self, start, end):
        """The longest that overlaps, in ns."""
        first = bisect.bisect_right(self.ends, start)
        last = bisect.bisect_left(self.starts, end)
        return max((self.ends[i] - self.starts[i]
                    for i in range(first, last)), default=0)

    def longest(self):
        return max((e - s for s, e in zip(self.starts, self.ends)), default=0)


class Function:
    def __init__(self):
        self.calls = self.own = self.stall = 0


class Run:
    """What a folder holds."""

    def __init__(self, folder, names):
        folder = pathlib.Path(folder)
        self.third = Spans(folder / "third.spans")
        neighbour = folder / "neighbour.spans"
        self.neighbour = Spans(neighbour) if neighbour.exists() else None
        self.functions = {}
        self.calls = []
        for path in folder.glob("*.calls"):
            self.read(path, names)

    def read(self, path, names):
        data, _ = words(path)
        over = self.third.ends[-1]
        for start, end, who in zip(data[0::3], data[1::3], data[2::3]):
            name = names[who & 0xFFFFFFFF]
            end = end or over
            f = self.functions.setdefault(name, Function())
            f.calls += 1
            f.own = max(f.own, end - start)
            f.stall = max(f.stall, self.third.longest_in(start, end))
            self.calls.append((start, end, name))

    def blamed(self, start, end):
        """Functions whose calls a kernel of the third may have waited for."""
        return sorted({name for s, e, name in self.calls
                       if s < end and e + REPLAY_NS > start})


def read_names(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return re.findall(r"^\tX\((\w+), (\w+)\)", text, re.M)


def plain(name):
    return re.sub(r"_pt[sd]z$|_ptds$", "", name)


def read_waits():
    path = pathlib.Path(__file__).with_name("waits.tsv")
    rows = [line.split("\t") for line in
            path.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")]
    return {row[0]: row[1] for row in rows}


def stalls(beside, bound):
    """The third's kernels beyond the bound, and which calls were made then."""
    for start, end in zip(beside.third.starts, beside.third.ends):
        if end - start > bound:
            names = beside.blamed(start, end)
            shown = ", ".join(names[:12])
            more = f" and {len(names) - 12} more" if len(names) > 12 else ""
            yield (f"the third waited {(end - start) / MS:.1f} ms during "
                   f"{shown or 'no call'}{more}")


def waits(alone, beside, documented):
    """Who waited for the neighbour without being known to."""
    limit = WAIT_SHARE * beside.neighbour.longest()
    for name, f in sorted(beside.functions.items()):
        before = alone.functions.get(name, Function()).own
        f.waits = f.own - before > limit
        if f.waits and name not in documented:
            yield (f"{name} waited: {f.own / MS:.1f} ms, "
                   f"without the neighbour {before / MS:.1f} ms")


def write_table(path, names, alone, beside, documented):
    lines = ["function\tcalls\town_ms\tstall_ms\talone_own_ms\t"
             "alone_stall_ms\twaits"]
    for name, _ in names:
        f = beside.functions.get(name)
        if not f:
            continue
        a = alone.functions.get(name, Function())
        why = documented.get(name, "unknown") if f.waits else ""
        lines.append(f"{name}\t{f.calls}\t{f.own / MS:.3f}\t"
                     f"{f.stall / MS:.3f}\t{a.own / MS:.3f}\t"
                     f"{a.stall / MS:.3f}\t{why}")
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(names_path, alone_path, beside_path, table):
    names = read_names(names_path)
    alone = Run(alone_path, [n for n, _ in names])
    beside = Run(beside_path, [n for n, _ in names])
    documented = read_waits()
    bound = GATE_MS * MS + 2 * alone.third.longest()
    beyond = list(stalls(beside, bound)) + list(waits(alone, beside,
                                                      documented))
    write_table(table, names, alone, beside, documented)
    for line in beyond:
        print(line)
    # A twin for the other default stream goes the same way.
    served = {plain(n) for n, kind in names if kind == "SERVED"}
    never = sorted(served - {plain(n) for n in beside.functions})
    print(f"never called, of {len(served)} served: {len(never)}: "
          + " ".join(never))
    print(f"neighbour: {len(beside.neighbour.ends)} kernels, longest "
          f"{beside.neighbour.longest() / MS:.0f} ms; third: "
          f"{len(beside.third.ends)} kernels, longest "
          f"{beside.third.longest() / MS:.1f} ms, alone "
          f"{alone.third.longest() / MS:.1f} ms, bound {bound / MS:.1f} ms")
    print(f"{len(beside.functions)} functions, {len(beside.calls)} calls, "
          f"{sum(f.waits for f in beside.functions.values())} functions "
          f"waited for the neighbour, {len(beyond)} beyond a bound")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
