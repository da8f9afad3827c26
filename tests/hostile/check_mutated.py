#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions of real programs, recorded, changed, and played again.

Records what four programs say to broker and worker, then plays that again
with bits flipped, lengths and ids changed, frames cut, doubled, moved, left
out, descriptors and shared memory misused. A neighbour computes all the
while and must be right; in the end broker and worker are the same processes
and hold what they held before.

    check_mutated.py             the whole
    check_mutated.py record DIR  only record, into DIR/*.session

Settings: COUNT frames (20000), SEED (of the day), JOBS players at once (2).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("MPSSHIM_BUILD", "build"))
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BIN, TESTS = os.path.join(BUILD, "bin"), os.path.join(BUILD, "tests")
# A library with a sanitizer cannot be preloaded: honest programs then have
# the shim of the plain build, and broker and worker the sanitizer.
PLAIN = os.path.abspath(os.environ.get(
    "MPSSHIM_PLAIN", os.path.join(TOP, "build")
    if os.environ.get("MPSSHIM_SAN") else BUILD))
EXAMPLES = os.path.join(PLAIN, "examples")
COUNT = int(os.environ.get("COUNT", "20000"))
SEED = int(os.environ.get("SEED", time.strftime("%Y%m%d")), 0)
JOBS = int(os.environ.get("JOBS", "2"))
PROGRAMS = {
    "streams": [os.path.join(EXAMPLES, "streams"), "2"],
    "vecadd_driver": [os.path.join(EXAMPLES, "vecadd_driver")],
    "kill_client": [os.path.join(PLAIN, "tests", "kill_client"), "0"],
    "infer": [sys.executable, os.path.join(TOP, "examples", "infer.py")],
}

passed = failed = 0


def row(good, text):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("%-5s %s" % ("ok" if good else "FAIL", text), flush=True)
    return good


def mpsrun(directory, args, **kwargs):
    env = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=directory)
    return subprocess.Popen([os.path.join(PLAIN, "bin", "mpsrun"), *args],
                            env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, **kwargs)


def start(directory):
    """A broker; it starts a worker for its first client."""
    # Without a limit a client may take all of the device, as without us.
    subprocess.run([os.path.join(BIN, "mpsd"), "-s", directory, "--idle=600",
                    "--device-limit=1G"], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)


def status(directory):
    env = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=directory)
    out = subprocess.run([os.path.join(BIN, "mpsctl"), "status", "--json"],
                         capture_output=True, timeout=60, check=True, env=env)
    return json.loads(out.stdout)


def end(directory):
    env = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=directory)
    subprocess.run([os.path.join(BIN, "mpsctl"), "quit", "--force"], env=env,
                   capture_output=True, timeout=60)


def figures(directory):
    """What must come back once every client has gone and is buried, and
    twice in a row: the worker closes what was in its hands a little later.
    Images stay for the next client, with a descriptor each in the broker."""
    last = None
    for _ in range(600):
        s = status(directory)
        now = None
        if not s["clients"] and not s["vault_chunks"]:
            w = s["workers"][0]
            now = {
                "broker pid": s["broker_pid"], "worker pid": w["pid"],
                "workers started": s["workers_started"],
                "broker descriptors, images apart":
                    s["broker_descriptors"] - s["store_images"],
                "worker descriptors": w["descriptors"],
                "worker mappings, images apart":
                    w["mappings"] - 2 * w["images"],
                "worker handles": w["handles"],
                "vault chunks": s["vault_chunks"],
            }
            if now == last:
                return s, now
        last = now
        time.sleep(0.1)
    raise SystemExit("no rest: %r, clients %r" % (last, s["clients"][:3]))


def record(work):
    """Every program once, through the proxy. The session files."""
    real, proxy = os.path.join(work, "real"), os.path.join(work, "proxy")
    os.mkdir(proxy, 0o700)
    os.environ["MPSSHIM_PERF"] = "no_ring"
    start(real)
    for name, command in PROGRAMS.items():
        tap = subprocess.Popen(
            [os.path.join(TESTS, "record"), os.path.join(proxy, "mpsshim"),
             os.path.join(real, "mpsshim"), os.path.join(work, name)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        tap.stdout.readline()
        program = mpsrun(proxy, command)
        out = program.communicate(timeout=120)[0].decode()
        tap.communicate(timeout=60)
        files = [f for f in os.listdir(work) if f.startswith(name + ".")]
        size = sum(os.path.getsize(os.path.join(work, f)) for f in files)
        row(program.returncode == 0 and len(files) == 1,
            "%s recorded: exit %d, %d bytes %s" % (
                name, program.returncode, size,
                out[-300:] if program.returncode else ""))
    end(real)
    del os.environ["MPSSHIM_PERF"]
    sessions = []
    for f in sorted(os.listdir(work)):
        if f.split(".")[0] in PROGRAMS:
            sessions.append(os.path.join(work, f.split(".")[0] + ".session"))
            os.rename(os.path.join(work, f), sessions[-1])
    return sessions


def play(directory, sessions, seed, frames):
    return subprocess.Popen(
        [os.path.join(TESTS, "replay"), os.path.join(directory, "mpsshim"),
         str(seed), str(frames), *sessions],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Neighbour:
    """Runs of an honest program, one after the other."""

    def __init__(self, directory):
        self.directory, self.runs, self.wrong = directory, 0, []
        self.start()

    def start(self):
        self.program = mpsrun(self.directory, PROGRAMS["streams"])

    def look(self, last=False):
        if not last and self.program.poll() is None:
            return
        out = self.program.communicate(timeout=120)[0].decode()
        self.runs += 1
        if self.program.returncode or ", 0 wrong" not in out:
            self.wrong.append("exit %d: %s" % (self.program.returncode,
                                               out[-300:]))
        if not last:
            self.start()


def main(work):
    sessions = record(work)
    if failed:
        return
    directory = os.path.join(work, "hostile")
    start(directory)
    # Pools and threads get their size first.
    warm = play(directory, sessions, SEED + 1, 500)
    out = warm.communicate(timeout=300)[0].decode().strip()
    row(warm.returncode == 0, "a first few: " + out)
    Neighbour(directory).look(last=True)
    before, base = figures(directory)

    begin = time.monotonic()
    neighbour = Neighbour(directory)
    players = [play(directory, sessions, SEED + 1000 * i, COUNT // JOBS)
               for i in range(JOBS)]
    while any(p.poll() is None for p in players):
        neighbour.look()
        time.sleep(0.02)
    took = time.monotonic() - begin
    neighbour.look(last=True)
    for i, p in enumerate(players):
        out = p.communicate()[0].decode().strip()
        row(p.returncode == 0, "SEED=%d COUNT=%d: exit %d: %s" % (
            SEED, COUNT, p.returncode, out))
    after, now = figures(directory)
    row(not neighbour.wrong, "the neighbour was wrong in %d of %d runs "
        "during %.0f s %s" % (
            len(neighbour.wrong), neighbour.runs, took,
            neighbour.wrong[:2] or ""))
    for name, value in base.items():
        # The heap keeps an arena for each thread that has ever been there, a
        # sanitizer's one for each size, and in it what is known of images.
        slack = 0
        if name.startswith("worker mappings"):
            slack = 16 + after["workers"][0]["images"] // 16
            if os.environ.get("MPSSHIM_SAN"):
                slack += 1000
        row(abs(now[name] - value) <= slack, "%s: %d before, %d after" % (
            name, value, now[name]))
    print("      bad frames seen by the broker: %d; clients: %d; images in "
          "the worker: %d, in the store: %d" % (
              after["bad_frames"] - before["bad_frames"],
              after["total_clients"] - before["total_clients"],
              after["workers"][0]["images"], after["store_images"]))
    end(directory)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(PLAIN, "examples", "streams")):
        print("skipped: honest programs need the plain build: make examples")
        sys.exit(77)
    os.environ.setdefault("MPSSHIM_DRIVER", "soft")
    if sys.argv[1:2] == ["record"]:
        record(sys.argv[2])
        sys.exit(1 if failed else 0)
    work = tempfile.mkdtemp(prefix="mutated.")
    try:
        main(work)
    finally:
        for name in ("real", "hostile"):
            end(os.path.join(work, name))
        log = os.path.join(work, "hostile", "mpsd.log")
        if failed and os.path.exists(log):
            with open(log, errors="replace") as lines:
                for line in lines.readlines()[-30:]:
                    print("      " + line.rstrip()[:200])
        if not os.environ.get("KEEP"):
            shutil.rmtree(work, ignore_errors=True)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    sys.exit(1 if failed else 0)
