# SPDX-License-Identifier: Apache-2.0
"""What asked.c has written: the device memory that a process has asked for by
allocation calls and not freed."""
import os

FOLDER = "BENCH_ASKED"


class Uncounted(Exception):
    """It has made what asked.c does not count."""


def read(lines):
    """Bytes, from an iterable of lines."""
    held = {}
    for line in lines:
        what, kind, address, size = line.split()
        if what == "+":
            held[kind, address] = int(size)
        elif what == "-":
            # 0, or what was mapped or opened and not allocated.
            held.pop((kind, address), None)
        else:
            raise Uncounted(kind)
    return sum(held.values())


def live(pid):
    with open(os.path.join(os.environ[FOLDER], str(pid))) as f:
        return read(f)


def environment(auditor, folder):
    """For programs that are to be counted."""
    return {"LD_AUDIT": str(auditor), FOLDER: str(folder)}
