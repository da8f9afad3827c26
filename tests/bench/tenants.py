# SPDX-License-Identifier: Apache-2.0
"""Leads PyTorch tenants (tenant.py): the tenants of every mode are started
together, since what takes longest is `import torch`, which makes no CUDA call;
then the modes go in turn while the others wait."""
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import asked
import modes as mode_list
from report import Row

TENANT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tenant.py")
WINDOWS = 4
AHEAD_S = 0.2
# For the tenants of all modes.
LIMIT_S = 150


class Failed(Exception):
    """A tenant has ended: the last line it said."""


def missing():
    for name in ("torch", "torchvision"):
        if not importlib.util.find_spec(name):
            return name + " is not installed"
    return None


def gpu_memory_mib():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used",
                          "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, timeout=20)
    return int(out.stdout.split()[0])


class Tenant:
    def __init__(self, command, env):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, env=env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors)

    def say(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # hear() says why

    def hear(self):
        line = self.process.stdout.readline()
        if line:
            return line.strip()
        self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines() or ["nothing said"]
        raise Failed("exit %d: %s" % (self.process.returncode, said[-1]))

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.end()
        self.errors.close()


class Group:
    """The tenants of one mode."""

    def __init__(self, mode, kind, count, env):
        self.mode, self.kind = mode, kind
        self.tenants = [
            Tenant([*mode.prefix, sys.executable, TENANT, kind, str(i)],
                   {**mode.env, **env}) for i in range(count)]

    def imported(self):
        for t in self.tenants:
            t.hear()

    def kill(self):
        for t in self.tenants:
            t.kill()

    def go(self, tenants):
        """What they say after their first results."""
        for t in tenants:
            t.say("go")
        return [json.loads(t.hear()) for t in tenants]

    def measure(self, seconds):
        """[what each says after its steps], CPU seconds of the helpers."""
        start = time.monotonic() + AHEAD_S
        for t in self.tenants:
            t.say("%r %r %d" % (start, seconds, WINDOWS))
        helpers = self.mode.helpers()
        time.sleep(max(0, start - time.monotonic()))
        cpu = mode_list.cpu_seconds(helpers)
        said = [json.loads(t.hear()) for t in self.tenants]
        return said, mode_list.cpu_seconds(helpers) - cpu

    def leave(self):
        for t in self.tenants:
            t.end()
        for t in self.tenants:
            t.process.wait()


def rows_of(kind, mode, said, results, helpers_cpu, memory):
    """Rows from what the tenants of a mode have said."""
    clients, rows = len(said), []

    def add(name, unit, values):
        rows.append(Row(name, clients, mode, unit, list(values)))

    def total(name, some):
        add(name + "_rate", "/s", map(sum, zip(*(r["rate"] for r in some))))

    kinds = [s["kind"] for s in said]
    if len(set(kinds)) > 1:
        total(kind, results)
    for k in sorted(set(kinds), reverse=True):
        some = [r for r, own in zip(results, kinds) if own == k]
        name = k if len(set(kinds)) == 1 else kind + "_" + k
        total(name, some)
        add(name + "_p50", "ms",
            map(statistics.mean, zip(*(r["p50"] for r in some))))
        add(name + "_p99", "ms", map(max, zip(*(r["p99"] for r in some))))
    kind = kinds[0] if len(set(kinds)) == 1 else kind
    cpu = sum(r["cpu_s"] for r in results) + helpers_cpu
    steps = sum(r["steps"] for r in results)
    if steps:
        add(kind + "_cpu", "s", [cpu / steps * 1000])
    add(kind + "_first", "s", [max(s["first_result_s"] for s in said)])
    add(kind + "_memory", "MiB", [memory])
    return rows


def in_turn(bench, modes, kind, count, turn, env):
    """turn(group) for each mode, all tenants started before."""
    groups = []
    # Whoever waits for a line then sees the end of it.
    timer = threading.Timer(bench.limit(LIMIT_S), lambda: [
        t.process.kill() for g in groups for t in g.tenants])
    timer.start()
    try:
        with bench.phase("%s, %d a mode: import" % (kind, count)):
            for m in modes:
                groups.append(Group(m, kind, count, env))
            for g in groups:
                g.imported()
        for g in groups:
            with bench.phase("%s, %d: %s" % (kind, count, g.mode.name)), \
                    bench.running(g.mode):
                try:
                    turn(g)
                    g.leave()
                except Failed as e:
                    bench.note("%s, %d under %s: %s" % (
                        kind, count, g.mode.name, e))
                finally:
                    g.kill()
    except Failed as e:
        bench.note("%s, %d: %s" % (kind, count, e))
    finally:
        timer.cancel()
        for g in groups:
            g.kill()
            # mpsrun has started its broker before its turn.
            g.mode.stop()


def rates(bench, modes, kind, count, seconds):
    def turn(group):
        before = gpu_memory_mib()
        said = group.go(group.tenants)
        memory = gpu_memory_mib() - before
        results, cpu = group.measure(seconds)
        wrong = sum(r["wrong"] for r in results)
        if wrong:
            bench.note("%s, %d under %s: %d WRONG results" % (
                kind, count, group.mode.name, wrong))
        bench.rows += rows_of(kind, group.mode.name, said, results, cpu,
                              memory)
    in_turn(bench, modes, kind, count, turn, {})


def memory(bench, modes, kind, counts):
    """Device memory and time to the first result as tenants are added."""
    def turn(group):
        mode, said, used = group.mode.name, [], {}
        before = gpu_memory_mib()
        for n in counts:
            new = group.go(group.tenants[len(said):n])
            said += new
            used[n] = gpu_memory_mib() - before
            rows = {"memory_used": ("MiB", used[n]),
                    "memory_first": (
                        "s", max(s["first_result_s"] for s in new))}
            if n > counts[0]:
                further = said[counts[0]:]
                gone = (used[n] - used[counts[0]]) / len(further)

                def mean(what):
                    return statistics.mean(s[what] for s in further)
                rows.update({
                    "memory_asked": ("MiB", mean("asked_mib")),
                    "memory_reserved": ("MiB", mean("reserved_mib")),
                    "memory_further": ("MiB", gone - mean("asked_mib"))})
            bench.rows += [Row(name, n, mode, unit, [value])
                           for name, (unit, value) in rows.items()]
    with tempfile.TemporaryDirectory(prefix="mpsshim-asked.") as folder:
        in_turn(bench, modes, kind, counts[-1], turn, asked.environment(
            bench.auditor(), folder))
