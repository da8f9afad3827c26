#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions that a call costs its caller, counted by valgrind.

    check_instructions.py            compare with instructions.tsv
    check_instructions.py --print    count, and compare with nothing
    check_instructions.py --record   write instructions.tsv
    check_instructions.py --where launch_4
                                     which functions a call spends them in

Counted on the software device: what the calling thread executes from the
call to its return, in the library and in libc, over 256 calls. Not counted:
the kernel, the worker, and the time spent waiting for its answers. The same
build gives the same counts on a busy machine, so a change of the code shows
where a clock would not show it.
"""
import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "instructions.tsv"
BUILD = pathlib.Path(os.environ.get("MPSSHIM_BUILD", HERE.parents[1] / "build"))
LIBRARY = BUILD / "lib" / "libmpsshim.so"
PROGRAM = BUILD / "tests" / "bench" / "count"
# More than this above the record fails.
MORE_PERCENT = 3.0
LIMIT_S = 20

# Functions of count.c and the calls that they make.
CALLS = {
    "launch_4": "cuLaunchKernel, 4 parameters",
    "launch_20": "cuLaunchKernel, 20 parameters",
    "event_record": "cuEventRecord",
    "copy_in": "cuMemcpyHtoDAsync, 64 bytes, pageable",
    "mem_alloc_free": "cuMemAlloc and cuMemFree, 1 MiB",
    "get_device": "cuCtxGetDevice",
    "get_current": "cuCtxGetCurrent",
    "attribute": "cuDeviceGetAttribute",
    "proc_address": "cuGetProcAddress",
    "synchronize": "cuStreamSynchronize",
}

# How long these run is up to the worker and the scheduler: not counted.
WAITING = ("shim_spin", "shim_futex_wait", "shim_relax", "shim_chan_nudge")


def skip(why):
    print(why)
    sys.exit(77)


def built_with():
    """What counts depend on besides our source, in one line."""
    data = LIBRARY.read_bytes()
    compilers = {"gcc " + m.decode() for m in
                 re.findall(rb"GCC: \([^)]*\) (\d+)\.", data)}
    compilers |= {"clang " + m.decode() for m in
                  re.findall(rb"clang version (\d+)\.", data)}
    if os.environ.get("MPSSHIM_SAN") or b"__gcov_" in data:
        skip("a build for sanitizers or coverage costs what it costs")
    return ", ".join(sorted(compilers) + [os.confstr("CS_GNU_LIBC_VERSION"),
                                          os.uname().machine])


class Rig:
    """A broker of our own, whose worker can be stopped."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mpsshim-count.")
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("MPSSHIM_", "SOFTCUDA_", "CUDA_"))}
        self.env.update(CUDA_MPS_PIPE_DIRECTORY=self.folder,
                        MPSSHIM_DRIVER="soft",
                        # One memcpy for all machines.
                        GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX,-AVX2,"
                                       "-AVX_Fast_Unaligned_Load,-ERMS",
                        # Addresses that valgrind leaves free.
                        MPSSHIM_WINDOWS="0x7e8000000000:256G")
        self.worker = None

    def mpsctl(self, *args):
        return subprocess.run([BUILD / "bin" / "mpsctl", *args], env=self.env,
                              capture_output=True, text=True, timeout=20)

    def stop_worker(self):
        status = self.mpsctl("status", "--json").stdout
        self.worker = int(re.search(r'"pid": (\d+)', status).group(1))
        os.kill(self.worker, signal.SIGSTOP)

    def go_on(self):
        if self.worker:
            os.kill(self.worker, signal.SIGCONT)
            self.worker = None

    def end(self):
        self.go_on()
        self.mpsctl("quit", "--force")
        shutil.rmtree(self.folder, ignore_errors=True)

    def callgrind(self, *options):
        """The path of a run's profile, and how many calls each count is of."""
        profile = os.path.join(self.folder, "profile")
        command = [BUILD / "bin" / "mpsrun", "valgrind", "--tool=callgrind",
                   "--callgrind-out-file=" + profile, "--compress-strings=no",
                   "--compress-pos=no",
                   *("--toggle-collect=" + f for f in WAITING),
                   "--collect-atstart=yes", *options, PROGRAM]
        log = os.path.join(self.folder, "log")
        with open(log, "w") as err, subprocess.Popen(
                command, env=self.env, stdin=subprocess.PIPE, stderr=err,
                stdout=subprocess.PIPE, text=True) as p:
            end = threading.Timer(LIMIT_S, p.kill)
            end.start()
            try:
                for line in p.stdout:
                    if line == "stop\n":
                        self.stop_worker()
                    elif line == "go\n":
                        self.go_on()
                    else:
                        rounds = int(line.split()[0])
                        continue
                    p.stdin.write("\n")
                    p.stdin.flush()
            finally:
                end.cancel()
        if p.returncode:
            print(open(log).read()[-3000:])
            sys.exit("count under callgrind exits with %d" % p.returncode)
        return profile, rounds


def count():
    """{function of count.c: instructions a call}"""
    rig = Rig()
    try:
        profile, rounds = rig.callgrind()
        lines = open(profile).read().splitlines()
    finally:
        rig.end()
    # What `counted` calls: "cfn=NAME", "calls=...", "line instructions".
    caller = callee = None
    found, called = {}, False
    for line in lines:
        if line.startswith("fn="):
            caller = line[3:]
        elif line.startswith("cfn="):
            callee = line[4:]
        elif called and caller == "counted":
            found[callee] = round(int(line.split()[1]) / rounds)
        called = line.startswith("calls=")
    if set(found) != set(CALLS):
        sys.exit("counted %s, expected %s" % (sorted(found), sorted(CALLS)))
    return found


def where(wanted):
    """(instructions a call, function) of each function below that call."""
    rig = Rig()
    try:
        # The profile comes in parts: every second is one call of `counted`.
        profile, rounds = rig.callgrind("--dump-before=counted",
                                        "--dump-after=counted")
        part = 2 * (list(CALLS).index(wanted) + 1)
        lines = open("%s.%d" % (profile, part)).read().splitlines()
    finally:
        rig.end()
    spent, function, called = collections.Counter(), None, False
    for line in lines:
        if line.startswith("fn="):
            function = line[3:]
        elif line[:1].isdigit() and not called:
            spent[function] += int(line.split()[1])
        called = line.startswith("calls=")
    return [(n / rounds, f) for f, n in spent.most_common() if n >= rounds]


def check_names():
    """A function that is gone would have its waiting counted."""
    symbols = subprocess.run(["nm", LIBRARY], capture_output=True, text=True,
                             check=True).stdout.split()
    for name in WAITING:
        if name not in symbols:
            sys.exit("%s is not in %s: WAITING in check_instructions.py "
                     "must name what waits now" % (name, LIBRARY.name))


def record(counts, here):
    lines = ["# Instructions a call, by check_instructions.py --record.",
             "# " + here]
    lines += ["%s\t%d" % (CALLS[f], counts[f]) for f in CALLS]
    RECORD.write_text("\n".join(lines) + "\n")
    print("wrote", RECORD)


def compare(counts, recorded):
    """Exit status: any count that has grown."""
    failed = less = 0
    for f, call in CALLS.items():
        was, now = recorded[call], counts[f]
        change = 100 * (now - was) / was
        grown = change > MORE_PERCENT
        failed += grown
        less += change < -MORE_PERCENT
        print("%-5s %-40s %6d, recorded %6d%s" % (
            "FAIL" if grown else "ok", call, now, was,
            " (%+.1f %%)" % change if now != was else ""))
    if failed:
        print("A call costs more than %g %% more than recorded. If that has "
              "to be: `make instructions`, and the reason in the commit's "
              "message." % MORE_PERCENT)
    if less:
        print("Some cost less than recorded: `make instructions` keeps it so.")
    print("%d passed, %d failed, 0 skipped" % (len(CALLS) - failed, failed))
    return 1 if failed else 0


def main():
    if not shutil.which("valgrind"):
        skip("valgrind is not installed")
    here = built_with()
    check_names()
    if sys.argv[1:] == ["--record"]:
        record(count(), here)
        return 0
    if sys.argv[1:] == ["--print"]:
        for f, n in count().items():
            print("%-40s %6d" % (CALLS[f], n))
        return 0
    if sys.argv[1:2] == ["--where"]:
        for n, f in where(sys.argv[2]):
            print("%8.1f  %s" % (n, f))
        return 0
    lines = RECORD.read_text().splitlines()
    if lines[1] != "# " + here:
        skip("recorded with %s, here %s: counts differ" % (lines[1][2:], here))
    recorded = dict(line.split("\t") for line in lines[2:])
    return compare(count(), {k: int(v) for k, v in recorded.items()})


if __name__ == "__main__":
    sys.exit(main())
