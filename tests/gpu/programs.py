#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of programs.tsv natively and under mpsrun, compares them.

Started by programs.sh, which says what the columns mean. Prints one row for
each program and a sum; diffs and log lines go to files in $OUT.
"""
import argparse
import difflib
import glob
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
COLUMNS = "name set origin limit usual needs judge command".split()
# A native run of these is no reference: killed, not executable, not found.
NO_REFERENCE = {124, 125, 126, 127, 137, -9, -15}
UNIT = (r"(?:[nuµm]?s|msec|secs?|seconds?|[KMGT]i?B(?:/s|ps)?|[KMGT]?[Ff][Ll]"
        r"[Oo][Pp](?:/?[sS])?|it/s|keys/s|[KMG]?Pixel/s|Hz|%)")
NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)"


def keep_pytest(text):
    """What a test runner counted and which tests failed, without times."""
    kept = []
    for line in text.splitlines():
        if re.match(r"(FAILED|ERROR|FAIL:|ERROR:)\b", line):
            kept.append(line.split(" - ")[0])
        elif re.search(r"\b\d+ (passed|failed|error)|^Ran \d+|^(OK|FAILED)\b",
                       line):
            kept.append(re.sub(r" in [\d.]+s.*| \(\d+:\d+:\d+\)|=+", "", line))
    return "\n".join(sorted(kept)) + "\n"


FILTERS = {
    # Measured times and rates.
    "time": lambda t: re.sub(NUMBER + r"\s*" + UNIT + r"(?![\w])", "<time>",
                             t),
    "addr": lambda t: re.sub(r"0x[0-9a-fA-F]{6,}", "<addr>", t),
    # How much device memory is free: others use it too.
    "free": lambda t: re.sub(r"(?i)(free\D{0,4})\d+", r"\1<free>", t),
    "pid": lambda t: re.sub(r"(?i)(pid\D{0,3})\d+", r"\1<pid>", t),
    # Bare figures behind their names, as in "GFLOPs: 123.4".
    "rate": lambda t: re.sub(r"(?i)((?:flops?|runtime|bandwidth|clocks|millis"
                             r"|/ sec)\b[^:\n]*:\s*)" + NUMBER,
                             r"\1<rate>", t),
    "pytest": keep_pytest,
    # Results whose order is not promised.
    "sorted": lambda t: "\n".join(sorted(t.splitlines())) + "\n",
}


class Program:
    def __init__(self, line):
        for name, value in zip(COLUMNS, line.split("\t")):
            setattr(self, name, value)
        self.limit, self.usual = int(self.limit), int(self.usual)
        self.rule, _, names = self.judge.partition(":")
        self.filters = [n for n in names.split(",") if n]
        assert self.rule in ("same", "spread"), self.judge
        assert all(f in FILTERS for f in self.filters), self.judge
        self.runs = {}

    def missing(self):
        for need in self.needs.split(","):
            need = os.path.expandvars(need)
            if need == "-":
                continue
            if "/" in need:
                if not os.path.exists(need):
                    return os.path.basename(need) + " is not built"
            elif importlib.util.find_spec(need) is None:
                return "no Python module " + need
        return None

    def output(self, text):
        for name in self.filters:
            text = FILTERS[name](text)
        return text


class Run:
    """One run of a program: its result and what was seen of it."""

    def __init__(self, program, how, scratch):
        self.program, self.how = program, how
        self.folder = tempfile.mkdtemp(dir=scratch)
        self.path = {n: os.path.join(self.folder, n)
                     for n in ("out", "err", "log")}
        self.process, self.code, self.seconds = None, None, 0.0
        self.pids, self.devices, self.nvml, self.real = set(), set(), 0, set()

    def start(self, under, patience):
        env = dict(os.environ)
        command = ["timeout", "-k", "5", str(self.program.limit * patience),
                   "bash", "-c", self.program.command]
        if self.how == "native":
            # No daemon is to be looked for.
            env["CUDA_MPS_PIPE_DIRECTORY"] = "/nonexistent"
        else:
            command = [*under, *command]
            env["MPSSHIM_LOG"] = "warn:" + self.path["log"]
        # Every run compiles for itself, as a first run does.
        for cache in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR",
                      "CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME",
                      "TORCH_EXTENSIONS_DIR", "TMPDIR"):
            env[cache] = os.path.join(self.folder, cache.lower())
            os.mkdir(env[cache])
        self.began = time.time()
        with open(self.path["out"], "wb") as out, \
                open(self.path["err"], "wb") as err:
            self.process = subprocess.Popen(
                command, env=env, cwd=self.folder, stdout=out, stderr=err,
                stdin=subprocess.DEVNULL, start_new_session=True)

    def poll(self):
        code = self.process.poll()
        if code is None:
            return False
        self.code, self.seconds = code, time.time() - self.began
        return True

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def read(self, name):
        try:
            with open(self.path[name], errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def look(self, pid, ours):
        """Device files that a process of this run has open, and by whom."""
        self.pids.add(pid)
        try:
            with open(f"/proc/{pid}/maps") as f:
                maps = f.read()
            files = {os.readlink(p) for p in glob.glob(f"/proc/{pid}/fd/*")}
        except OSError:
            return
        # Before exec it is still this runner, or mpsrun.
        libraries = set(re.findall(r"(/\S*libcuda\.so\S*)", maps))
        self.nvml |= "libnvidia-ml.so" in maps
        self.devices |= {f for f in files if f.startswith("/dev/nvidia")}
        self.real |= {p for p in libraries
                      if not os.path.realpath(p).startswith(ours)}

    def trespass(self, without):
        """Device files that NVML does not account for.

        NVML opens /dev/nvidia-uvm itself, at least with driver 580: of 64
        runs, those 40 that had loaded it had that file open and the other
        24 had none, with no real libcuda in any of them. Beside a real
        libcuda nothing shows whose a file is, and all of them count. Where
        there is no such file to open, every one does.
        """
        if self.how == "native":
            return set()
        ours = self.nvml and not self.real and not without
        return self.real | (set() if ours else self.devices)


def sessions():
    """Which processes there are in each session."""
    found = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat) as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        found.setdefault(int(fields[3]), []).append(int(stat.split("/")[2]))
    return found


class Watch(threading.Thread):
    """Looks again and again at the processes of the runs under way."""

    def __init__(self, running, ours):
        super().__init__(daemon=True)
        self.running, self.ours, self.stop = running, ours, False

    def run(self):
        while not self.stop:
            found = sessions()
            for run in list(self.running):
                for pid in found.get(run.process.pid, ()):
                    run.look(pid, self.ours)
            time.sleep(0.1)


class Broker:
    """A broker of its own, and settings for its clients; `log` at its end."""

    def __init__(self, table, scratch, name, **settings):
        self.table, self.settings = table, settings
        self.before = {name: os.environ.get(name) for name in settings}
        self.folder = os.path.join(scratch, name)
        self.log = ""

    def __enter__(self):
        os.environ.update(self.settings, CUDA_MPS_PIPE_DIRECTORY=self.folder)
        subprocess.run([self.table.mpsrun, "true"], check=True, timeout=30)
        return self

    def __exit__(self, *exception):
        subprocess.run([os.path.join(self.table.build, "bin", "mpsctl"),
                        "quit", "--force"], timeout=30, capture_output=True)
        for name, value in self.before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        with open(os.path.join(self.folder, "mpsd.log"),
                  errors="replace") as f:
            self.log = f.read()


class Table:
    def __init__(self, options, programs, scratch):
        self.options, self.programs = options, programs
        self.scratch = scratch
        self.build = os.environ["MPSSHIM_BUILD"]
        self.mpsrun = os.path.join(self.build, "bin", "mpsrun")
        self.under = [self.mpsrun]
        if options.without:
            self.under.insert(0, os.path.join(HERE, "without_devices.sh"))
        self.deadline = time.time() + options.seconds

    def waiting(self, how, programs):
        """The runs to come of one kind, longest first."""
        return [Run(p, how, self.scratch)
                for p in sorted(programs, key=lambda p: -p.usual)
                for _ in range(3 if (how, p.rule) == ("native", "spread")
                               else 1)]

    def phase(self, hows, programs, at_once):
        """Runs of several kinds beside each other, so many at once of each.

        One kind after the other would wait for its longest program twice.
        """
        ours = os.path.realpath(os.path.join(self.build, "lib"))
        todo = {how: self.waiting(how, programs) for how in hows}
        running = []
        watch = Watch(running, ours)
        watch.start()
        while running or any(todo.values()):
            left = self.deadline - time.time()
            for how in hows:
                todo[how] = [r for r in todo[how] if r.program.usual <= left]
                while todo[how] and at_once > \
                        sum(r.how == how for r in running):
                    run = todo[how].pop(0)
                    # A software device takes its time.
                    run.start(self.under, 1 if self.options.native else 8)
                    run.program.runs.setdefault(how, []).append(run)
                    running.append(run)
            for run in list(running):
                if run.poll():
                    running.remove(run)
                elif left < -10:
                    # Cut short it says nothing.
                    run.end()
                    running.remove(run)
                    run.program.runs[run.how].remove(run)
            time.sleep(0.01)
        watch.stop = True
        watch.join()

    def judge(self, program, run):
        """None if equal to the native runs, else a reason."""
        native = program.runs.get("native")
        if not native:
            return "not run natively"
        if run.code != native[0].code:
            return f"exit {run.code}, natively {native[0].code}"
        want = [program.output(r.read("out")) for r in native]
        got = program.output(run.read("out"))
        if program.rule == "same":
            return None if got == want[0] else "output differs"
        return spread(want, got)


def spread(want, got):
    """Text alike, and each number as near as native runs are to each other."""
    texts = [re.sub(NUMBER, "#", t) for t in (*want, got)]
    if any(t != texts[0] for t in texts):
        return "text differs"
    columns = zip(*[[float(n) for n in re.findall(NUMBER, t)]
                    for t in (*want, got)])
    for i, (*natives, ours) in enumerate(columns):
        low, high = min(natives), max(natives)
        # nan and inf are equal to themselves only.
        if str(ours) in map(str, natives):
            continue
        if not low - (high - low) <= ours <= high + (high - low):
            return f"number {i}: {ours}, natively {low} to {high}"
    return None


def versions(options):
    try:
        text = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version",
             "--format=csv,noheader"], capture_output=True, text=True,
            timeout=20).stdout.strip()
    except OSError:
        text = "no nvidia-smi"
    print(f"GPU and driver: {text}; {options.at_once} at a time, "
          f"{os.cpu_count()} cores")


def load(sets):
    with open(os.path.join(HERE, "programs.tsv")) as f:
        lines = [x.rstrip("\n") for x in f if x.strip() and x[0] != "#"]
    programs = [Program(x) for x in lines]
    names = [p.name for p in programs]
    assert len(names) == len(set(names)), "a name comes twice"
    if "all" in sets:
        return programs
    unknown = set(sets) - {p.set for p in programs} - set(names)
    if unknown:
        sys.exit(f"no such set or program: {' '.join(sorted(unknown))}")
    return [p for p in programs if p.set in sets or p.name in sets]


def is_reference(program, run):
    """Tests may fail natively too, but some must have passed."""
    if "pytest" not in program.filters:
        return run.code == 0
    passed = re.search(r"\b[1-9]\d* passed|^Ran [1-9]",
                       program.output(run.read("out")), re.M)
    return run.code not in NO_REFERENCE and passed is not None


def log_rows(table, log):
    """Late errors and unserved slots, with the program they belong to."""
    owner = {pid: p.name for p in table.programs
             for runs in p.runs.values() for r in runs for pid in r.pids}
    rows = []
    for line in log:
        born = re.search(r"pid (\d+), (/\S+)$", line)
        if born:
            owner.setdefault(int(born[1]), born[2])
        pid = re.search(r"\(pid (\d+)\)", line)
        if re.search(r" (warn|error): |worker .* ended: (?!exit status 0)",
                     line):
            rows.append("mpsd.log: %s: %s" % (
                owner.get(int(pid[1]), "?") if pid else "?", line.strip()))
    for p in table.programs:
        seen = set()
        for how, runs in p.runs.items():
            for line in (x for r in runs for x in r.read("log").splitlines()):
                text = re.sub(r"^mpsshim\[\d+\] |0x[0-9a-f]+", "", line)
                if text not in seen:
                    seen.add(text)
                    rows.append(f"{p.name}: {text}")
    return rows


def diff(program, run):
    native = program.runs.get("native", [run])[0]
    lines = [f"=== {program.name} ({run.how}): native exit {native.code}, "
             f"mpsrun exit {run.code}"]
    lines += list(difflib.unified_diff(
        program.output(native.read("out")).splitlines(),
        program.output(run.read("out")).splitlines(), "native", "mpsrun",
        n=1, lineterm=""))[:60]
    for r in (native, run):
        tail = r.read("err").strip().splitlines()[-12:]
        lines += [f"--- stderr, {r.how}:"] + [t[:400] for t in tail]
    return "\n".join(lines)


def print_table(table, skipped, out):
    options = table.options
    sums = dict.fromkeys(("equal", "not ours", "differ", "skipped",
                          "no reference", "not run"), 0)
    diffs = []
    print(f"{'program':32} {'origin':16} {'native s':>8} {'alone s':>8} "
          f"{f'{options.at_once} at once':>9}  equal?")
    for p in table.programs:
        if p.name in skipped:
            sums["skipped"] += 1
            print(f"{p.name:32} {p.origin:16} {'':27}  skipped: "
                  f"{skipped[p.name]}")
            continue
        p.runs = {how: runs for how, runs in p.runs.items() if runs}
        native = p.runs.get("native", [])
        shim = [r for how in ("together", "alone", *options.switches)
                for r in p.runs.get(how, [])]
        if not shim or options.native and not native:
            verdict, kind = "not run", "not run"
        elif not options.native:
            bad = [r for r in shim if r.code]
            verdict = f"exit {shim[0].code}"
            kind = "differ" if bad else "equal"
            diffs += [diff(p, r) for r in bad]
        elif not is_reference(p, native[0]):
            verdict, kind = f"natively exit {native[0].code}", "no reference"
            diffs.append(diff(p, native[0]))
        else:
            reasons = [(r, table.judge(p, r)) for r in shim]
            bad = [(r, why) for r, why in reasons if why]
            verdict = "; ".join(f"NO, {r.how}: {why}" for r, why in bad) \
                or "yes"
            kind = "differ" if bad else "equal"
            diffs += [diff(p, r) for r, _ in bad]
        sums[kind] += 1
        if kind == "equal" and p.origin != "ours":
            sums["not ours"] += 1
        times = {how: f"{runs[0].seconds:.2f}" for how, runs in p.runs.items()}
        print(f"{p.name:32} {p.origin:16} {times.get('native', ''):>8} "
              f"{times.get('alone', ''):>8} {times.get('together', ''):>9}  "
              f"{verdict}")
    with open(os.path.join(out, "programs_diff.txt"), "w") as f:
        f.write("\n".join(diffs) + "\n")
    return sums


def print_switches(table):
    for switch in table.options.switches:
        runs = [(p, r) for p in table.programs for r in p.runs.get(switch, [])]
        if table.options.native:
            right = [p for p, r in runs if not table.judge(p, r)]
        else:
            right = [p for p, r in runs if not r.code]
        print(f"MPSSHIM_PERF={switch}: {len(right)} of {len(runs)} equal")


def print_devices(table):
    """Who had an NVIDIA device file open under mpsrun."""
    shim = [r for p in table.programs for how, runs in p.runs.items()
            if how != "native" for r in runs]
    nvml = sorted({r.program.name for r in shim if r.devices and r.nvml})
    without = table.options.without
    bad = [(r.program.name, r.trespass(without)) for r in shim
           if r.trespass(without)]
    print(f"device files under mpsrun: {len(shim)} runs looked at, "
          f"{len(nvml)} opened some through NVML"
          + (f" ({' '.join(nvml)})" if nvml else ""))
    for name, files in bad:
        print(f"NOT THROUGH NVML: {name}: {' '.join(sorted(files))}")
    return len(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-j", dest="at_once", type=int, default=8)
    parser.add_argument("-a", dest="alone", action="store_true",
                        help="each also alone, not only the quick ones")
    parser.add_argument("-n", dest="native", action="store_false",
                        help="no native runs: only check the exit status")
    parser.add_argument("-d", dest="without", action="store_true",
                        help="under mpsrun without device files")
    parser.add_argument("-s", dest="switches", type=str.split, default=[],
                        help="each once more with these MPSSHIM_PERF")
    parser.add_argument("-t", dest="seconds", type=float, default=240)
    parser.add_argument("sets", nargs="*", default=["all"])
    options = parser.parse_args()
    out = os.environ.get("OUT") or tempfile.mkdtemp()
    with tempfile.TemporaryDirectory(prefix="programs.") as scratch:
        sys.exit(run_all(options, out, scratch))


def run_all(options, out, scratch):
    programs = load(options.sets)
    skipped = {p.name: p.missing() for p in programs if p.missing()}
    ready = [p for p in programs if p.name not in skipped]
    table = Table(options, programs, scratch)
    began = time.time()
    with Broker(table, scratch, "socket") as broker:
        versions(options)
        table.phase(["native", "together"] if options.native
                    else ["together"], ready, options.at_once)
        alone = [p for p in ready
                 if options.alone or quick(p) or suspect(table, p)]
        table.phase(["alone"], alone, 1)
    log = broker.log
    for switch in options.switches:
        with Broker(table, scratch, switch, MPSSHIM_PERF=switch) as broker:
            table.phase([switch], ready, options.at_once)
        log += broker.log
    sums = print_table(table, skipped, out)
    print_switches(table)
    trespasses = print_devices(table)
    with open(os.path.join(out, "programs_mpsd.txt"), "w") as f:
        f.write(log[-1000000:])
    rows = log_rows(table, log.splitlines())
    print(f"late errors, unserved slots and warnings: {len(rows)} lines")
    print(*rows[:60], sep="\n", end="\n" if rows else "")
    with open(os.path.join(out, "programs_log.txt"), "w") as f:
        f.write("\n".join(rows) + "\n")
    print(f"{len(programs)} programs in {time.time() - began:.0f} s: "
          + ", ".join(f"{n} {k}" for k, n in sums.items()))
    return 1 if sums["differ"] or trespasses else 0


def quick(program):
    native = program.runs.get("native")
    return bool(native) and native[0].seconds < 2


def suspect(table, program):
    """Differs beside others: alone too?"""
    runs = program.runs
    return bool(runs.get("native") and runs.get("together")) and \
        table.judge(program, runs["together"][0]) is not None


main()
