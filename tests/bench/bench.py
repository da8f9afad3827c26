#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sharing costs: natively, under NVIDIA MPS and under mpsrun, in turn.

    [NAME=VALUE...] bench.py

SET      micro, tenants, memory, small (all of them: 1, 4 and 8 tenants),
         targets (what a target is set for, and no more) or full (all, 1 to
         128); small by default, micro where there is no GPU
MODES    of native, mps and mpsrun, in the order to run them
TENANTS  how many at once, for tenants: "1 4 8"; for memory "1 2 4 8"
KINDS    of resnet, bert, tiny, mix (the first two in turn) and step (a C
         program); "mix tiny step"
SECONDS  that tenants are measured (4)
REPEAT   how often PyTorch tenants with a target are started anew and measured
         (2; 1 for tenants); their values are taken together
RESULTS  folder for bench.csv, bench.svg and bench.txt (build/bench)
DRIVER   cuda or soft; by default cuda where there is a GPU
ONLY     parts of micro: start; launch, local, wait, event, alloc, copy, load;
         empty, spin
LIMIT    seconds after which what is left is left out (75 for micro, 240 for
         targets, 540 for small)

Prints a table and writes it to RESULTS. Fails if a program failed or had a
wrong result; a mode that is not there is left out, and said so. Whatever it
starts has ended when it ends, by a signal too.
"""
import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import chart
import modes
import report
import tenants

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("MPSSHIM_BUILD",
                                    HERE.parents[1] / "build")).resolve()
PROGRAMS = BUILD / "tests" / "bench"
COMMAND_LIMIT_S = 60
SETS = ("micro", "tenants", "memory", "targets", "small", "full")
# Those that measure all that a target is set for.
WHOLE = ("targets", "small", "full")
CALLS = ("launch", "local", "wait", "event", "alloc", "copy", "load")
KERNELS = ("empty", "spin")
# More clients than NVIDIA MPS takes.
MPS_CLIENTS = 48


def setting(name, default):
    return os.environ.get(name) or default


class Bench:
    def __init__(self):
        self.on_gpu = os.path.exists("/dev/nvidiactl")
        self.driver = setting("DRIVER", "cuda" if self.on_gpu else "soft")
        self.on_gpu = self.driver != "soft"
        self.set = setting("SET", "small" if self.on_gpu else "micro")
        if self.set not in SETS:
            sys.exit("SET=%s: not one of %s" % (self.set, " ".join(SETS)))
        self.only = setting("ONLY", "").split()
        for part in self.only:
            if part not in ("start", *CALLS, *KERNELS):
                sys.exit("ONLY: %s: not one of start %s" % (
                    part, " ".join(CALLS + KERNELS)))
        self.seconds = float(setting("SECONDS", "4"))
        self.repeat = int(setting("REPEAT", "2" if self.set in WHOLE else "1"))
        self.results = pathlib.Path(setting("RESULTS", BUILD / "bench"))
        limit = float(setting("LIMIT", {
            "micro": 75, "targets": 240, "small": 540}.get(self.set, 3600)))
        self.end = time.monotonic() + limit
        self.rows, self.notes = [], []
        self.failed = False

    # ---- running ------------------------------------------------------------

    def remaining(self):
        return max(0.1, self.end - time.monotonic())

    def limit(self, seconds):
        return min(seconds, self.remaining())

    def note(self, what):
        """Something went wrong: said at once and again below the table."""
        self.failed = True
        self.notes.append(what)
        print("! " + what, flush=True)

    @contextlib.contextmanager
    def phase(self, name):
        start = time.monotonic()
        yield
        print("# %-40s %6.1f s" % (name, time.monotonic() - start),
              flush=True)

    @contextlib.contextmanager
    def running(self, mode):
        try:
            mode.start()
            yield
        finally:
            mode.stop()

    def run(self, mode, clients, *command):
        """Rows from what a program of ours prints."""
        if self.remaining() < 1:
            self.note("left out, no time: %s under %s" % (
                command[0], mode.name))
            return
        name = " ".join(map(str, command))
        command = [str(PROGRAMS / command[0]), *map(str, command[1:])]
        if name.startswith("start"):
            command += mode.prefix
        else:
            command = mode.prefix + command
        process = subprocess.Popen(command, env=mode.env, text=True,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        try:
            out, errors = process.communicate(
                timeout=self.limit(COMMAND_LIMIT_S))
            why = "exit %d" % process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
            why = "time limit"
        finally:
            process.kill()
        if process.returncode:
            said = errors.strip().splitlines() or [""]
            self.note("%s under %s: %s: %s" % (name, mode.name, why,
                                               said[0]))
        # What it measured before it failed is right.
        lines = out[:out.rfind("\n") + 1]
        self.rows += report.parse_lines(lines, mode.name, clients)

    def auditor(self):
        """See asked.c."""
        return PROGRAMS / "asked.so"

    # ---- sets ---------------------------------------------------------------

    def chosen(self, parts):
        return [p for p in parts if not self.only or p in self.only]

    def starts(self, mode):
        with self.phase("start, %s" % mode.name):
            for _ in range(3):
                with self.running(mode):
                    self.run(mode, 1, "start", 2)

    def micro(self, mode_list):
        soft = not self.on_gpu
        times = ["-r", 3, "-t", 50 if soft else 300]
        # The software device is for trying it out.
        rounds = (["-r", 3, "-s", 50, "-m", 1] if soft else
                  ["-m", 1024] if self.set == "full" else [])
        calls, kernels = self.chosen(CALLS), self.chosen(KERNELS)
        for mode in mode_list:
            if self.chosen(["start"]):
                self.starts(mode)
            if not calls and not kernels:
                continue
            with self.running(mode):
                if calls:
                    with self.phase("calls, %s" % mode.name):
                        self.run(mode, 1, "micro", *rounds, *calls)
                if kernels:
                    with self.phase("kernels, %s" % mode.name):
                        for n in (1, 2) if soft else (1, 8):
                            self.run(mode, n, "clients", *times, n, *kernels)

    def c_tenants(self, mode_list, count):
        """A C program of many small kernels."""
        for mode in mode_list:
            if mode.name == "mps" and count > MPS_CLIENTS:
                continue
            with self.phase("step, %d: %s" % (count, mode.name)), \
                    self.running(mode):
                self.run(mode, count, "clients", "-r", tenants.WINDOWS, "-t",
                         int(self.seconds * 1000 / tenants.WINDOWS), count,
                         "step")

    def rates(self, mode_list, kind, count):
        """Steps of PyTorch tenants. Runs differ more than the windows of one,
        so a verdict is over several."""
        own = "resnet" if (kind, count) == ("mix", 1) else kind
        judged = any(figure.startswith(own + "_") and n == count
                     for figure, n in report.TARGETS)
        for _ in range(self.repeat if judged else 1):
            tenants.rates(self, mode_list, kind, count, self.seconds)

    def tenants(self, mode_list, default_kinds, default_counts):
        kinds = setting("KINDS", default_kinds).split()
        counts = [int(n) for n in setting("TENANTS", default_counts).split()]
        without = tenants.missing() if self.on_gpu else "needs a GPU"
        for kind in kinds:
            if kind != "step" and without:
                print("left out: %s tenants: %s" % (kind, without))
                continue
            for n in counts:
                if kind == "step":
                    self.c_tenants(mode_list, n)
                else:
                    self.rates(mode_list, kind, n)
                # One of a mix is a ResNet-18.
                if (kind, n) == ("mix", 1) and self.set in WHOLE:
                    self.rates(mode_list, "bert", 1)

    def memory(self, mode_list, default_counts, kind):
        without = tenants.missing() if self.on_gpu else "needs a GPU"
        if without:
            print("left out: memory: " + without)
            return
        counts = [int(n) for n in setting("TENANTS", default_counts).split()]
        tenants.memory(self, mode_list, kind, counts)

    def whole(self, mode_list):
        """The sets small and full."""
        self.micro(mode_list)
        many = self.set == "full"
        self.tenants(mode_list, "mix tiny step", "1 2 4 8 16" if many else
                     "1 4 8")
        if many and not os.environ.get("KINDS"):
            for n in (32, 64, 128):
                self.c_tenants(mode_list, n)
        self.memory(mode_list, "1 2 4 8", "resnet")

    def targets(self, mode_list):
        self.micro(mode_list)
        self.tenants(mode_list, "mix", "1 8")
        # No target of it is in terms of another mode.
        self.memory([m for m in mode_list if m.name == "mpsrun"], "1 8",
                    "resnet")

    def unjudged(self):
        """Targets of this set without a verdict, in words."""
        groups = report.grouped(self.rows)
        return ["%s, %d" % (report.LABELS[f].strip(), n)
                for (f, n), target in report.TARGETS.items()
                if ("1GiB" not in f or self.set == "full") and
                report.verdict(target, *groups.get((f, n), ("", {}))) == "-"]

    def instructions(self):
        with self.phase("instructions"):
            counted = subprocess.run(
                [sys.executable, str(HERE / "check_instructions.py"),
                 "--print"], text=True, capture_output=True,
                timeout=COMMAND_LIMIT_S)
        out = counted.stdout.strip()
        if counted.returncode == 77:
            return ["instructions not counted: " + out]
        if counted.returncode:
            self.note("check_instructions.py: " + counted.stderr.strip())
            return []
        return ["", "Instructions of a call, as callgrind counts them:", out]

    # ---- the whole ----------------------------------------------------------

    def device(self):
        if not self.on_gpu:
            return "software device (no GPU: figures are not of one)"
        out = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version",
             "--format=csv,noheader"], capture_output=True, text=True,
            timeout=20).stdout.strip().splitlines()[0]
        return "%s, driver %s" % tuple(out.split(", ", 1))

    def choose_modes(self, work):
        default = "mpsrun mps native" if self.set in (
            "tenants", "memory") else "native mps mpsrun"
        chosen = []
        for name in setting("MODES", default).split():
            if name not in modes.MODES:
                sys.exit("MODES: %s: not one of %s" % (
                    name, " ".join(modes.MODES)))
            mode = modes.MODES[name](str(BUILD), self.driver, work)
            if mode.missing():
                print("left out: mode %s: %s" % (name, mode.missing()))
            else:
                chosen.append(mode)
        return chosen

    def run_set(self, chosen):
        if self.set == "micro":
            self.micro(chosen)
        elif self.set == "tenants":
            self.tenants(chosen, "mix tiny step", "1 4 8")
        elif self.set == "memory":
            self.memory(chosen, "1 2 4 8",
                        setting("KINDS", "resnet").split()[0])
        elif self.set == "targets":
            self.targets(chosen)
        else:
            self.whole(chosen)

    def main(self):
        names = ("SET", "MODES", "TENANTS", "KINDS", "SECONDS", "REPEAT",
                 "DRIVER", "ONLY", "LIMIT", "MPSSHIM_PERF", "MPSSHIM_LANES")
        given = ["%s=%s" % (n, shlex.quote(os.environ[n])) for n in names
                 if os.environ.get(n)]
        device = "%s, %d cores" % (self.device(), os.cpu_count())
        head = [" ".join(["$", *given, "make bench"]), device]
        print("\n".join(head), flush=True)
        with tempfile.TemporaryDirectory(prefix="mpsshim-bench.") as work:
            chosen = self.choose_modes(work)
            try:
                self.run_set(chosen)
            except SystemExit as e:
                self.note("ended by signal %d" % (e.code - 128))
            finally:
                for mode in chosen:
                    mode.stop()
        extra = [] if self.on_gpu else self.instructions()
        if self.on_gpu and self.set in WHOLE:
            extra = ["no verdict: " + what for what in self.unjudged()]
        text = [*head, "", *report.table(self.rows, self.on_gpu), *extra,
                *("! " + n for n in self.notes)]
        print("\n".join(text[2:]))
        self.results.mkdir(parents=True, exist_ok=True)
        (self.results / "bench.txt").write_text("\n".join(text) + "\n")
        report.write_csv(self.results / "bench.csv", self.rows, device)
        (self.results / "bench.svg").write_text(chart.svg(self.rows, device))
        print("wrote bench.txt, bench.csv and bench.svg in", self.results)
        return 1 if self.failed else 0


def leave(number, _frame):
    """Ends by an exception: every mode is stopped, and what has been measured
    is reported."""
    for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(n, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(n, leave)
    sys.exit(Bench().main())
