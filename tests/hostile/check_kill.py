#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients killed after their Kth call, K spread over a program's whole life.

A neighbour computes all the while and must be right every time; in the end
descriptors, mappings, chunks and handles of broker and worker are what they
were before the first victim. Usage: check_kill.py [CLIENTS]
"""
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("MPSSHIM_BUILD", "build")
BIN = os.path.join(BUILD, "bin")
CLIENT = os.path.join(BUILD, "tests", "kill_client")
NEIGHBOUR = os.path.join(BUILD, "examples", "streams")
AT_ONCE = 4

passed = failed = 0


def row(good, text):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("%-5s %s" % ("ok" if good else "FAIL", text), flush=True)


def run(*args, **kwargs):
    return subprocess.run([os.path.join(BIN, "mpsrun"), *args],
                          capture_output=True, timeout=120, **kwargs)


def status():
    out = subprocess.run([os.path.join(BIN, "mpsctl"), "status", "--json"],
                         capture_output=True, timeout=20, check=True)
    return json.loads(out.stdout)


def figures():
    """What must come back, once every client has gone and is buried, and
    twice in a row: the worker closes what was in its hands a little later."""
    last = None
    for _ in range(200):
        s = status()
        now = None
        if not s["clients"] and not s["vault_chunks"]:
            w = s["workers"][0]
            now = {"broker descriptors": s["broker_descriptors"],
                   "worker descriptors": w["descriptors"],
                   "worker mappings": w["mappings"],
                   "worker handles": w["handles"],
                   "vault chunks": s["vault_chunks"],
                   "worker pid": w["pid"], "workers": len(s["workers"])}
            if now == last:
                return s, now
        last = now
        time.sleep(0.05)
    raise SystemExit("no rest: %r, clients %r" % (last, s["clients"]))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    listing = run(CLIENT, "list", text=True)
    if listing.returncode:
        print(listing.stderr)
        raise SystemExit("kill_client does not run: %d" % listing.returncode)
    phases = dict(line.split() for line in listing.stdout.splitlines())
    total = len(phases)
    # The neighbour once and one victim of every kind first, so that pools have
    # their size and the code of both is there.
    run(NEIGHBOUR, "3")
    for k in range(0, total, 25):
        run(CLIENT, str(k))
    before, base = figures()

    stop, runs, wrong = False, 0, []
    neighbour = subprocess.Popen([os.path.join(BIN, "mpsrun"), NEIGHBOUR,
                                  "3"], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
    histogram, odd = collections.Counter(), []
    victims, started = [], 0
    begin = time.monotonic()
    while started < count or victims:
        while started < count and len(victims) < AT_ONCE:
            k = 1 + started * total // count
            victims.append((k, subprocess.Popen(
                [os.path.join(BIN, "mpsrun"), CLIENT, str(k)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)))
            started += 1
        k, victim = victims.pop(0)
        _, err = victim.communicate(timeout=120)
        if victim.returncode == -signal.SIGKILL:
            histogram[phases[str(k)]] += 1
        else:
            odd.append((k, victim.returncode, err.decode()[-200:]))
        if neighbour.poll() is not None:
            out = neighbour.communicate()[0].decode()
            runs += 1
            if neighbour.returncode or ", 0 wrong" not in out:
                wrong.append(out[-300:])
            if not stop:
                neighbour = subprocess.Popen(
                    [os.path.join(BIN, "mpsrun"), NEIGHBOUR, "3"],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    stop = True
    out = neighbour.communicate(timeout=120)[0].decode()
    runs += 1
    if neighbour.returncode or ", 0 wrong" not in out:
        wrong.append(out[-300:])
    after, now = figures()

    row(not odd, "%d of %d clients died by SIGKILL, none otherwise (%.0f s) "
        "%s" % (sum(histogram.values()), count, time.monotonic() - begin,
                odd[:3] or ""))
    print("      phases: " + ", ".join("%s %d" % x for x in
                                       histogram.items()))
    if count >= 1000:
        row(set(histogram) == set(phases.values()) and
            min(histogram.values()) >= 20,
            "every phase was hit at least 20 times")
    row(not wrong, "the neighbour was right in all of %d runs %s" % (
        runs, wrong[:2] or ""))
    for name, value in base.items():
        row(now[name] == value, "%s: %d before, %d after" % (
            name, value, now[name]))
    row(after["bad_frames"] == before["bad_frames"],
        "no bad frames: %d before, %d after" % (before["bad_frames"],
                                                after["bad_frames"]))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    directory = tempfile.mkdtemp(prefix="check_kill.")
    os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.path.join(directory, "socket")
    os.environ.setdefault("MPSSHIM_DRIVER", "soft")
    try:
        code = main()
    finally:
        subprocess.run([os.path.join(BIN, "mpsctl"), "quit", "--force"],
                       capture_output=True)
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(code)
