#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What guards the worker, on a real GPU: PTX compiled by a process of its own,
memory that is left for the next worker.

Under 30 s. Needs build/bin, build/lib and build/tests/puppet of `make tests`
($MPSSHIM_BUILD). MPSSHIM_DRIVER=soft runs it on the software device. Skips
(77) where there is no GPU.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("MPSSHIM_BUILD", "build"))
BIN = os.path.join(BUILD, "bin")
DRIVER = os.environ.setdefault("MPSSHIM_DRIVER", "cuda")
HEAD = ".version 7.0\n.target sm_50\n.address_size 64\n"
# struct question and struct answer of server/worker/compile.c.
QUESTION = "<QII32I32Q"
ANSWER = "<IIQ4096s4096s"
# CUjitInputType, CUresult.
PTX, INVALID_PTX = 1, 218

passed = failed = 0


def row(good, text):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("%-5s %s" % ("ok" if good else "FAIL", text), flush=True)


def driver_path():
    """Of the library that the broker has chosen."""
    out = subprocess.run([BIN + "/mpsrun", "-v", "true"], timeout=60,
                         capture_output=True, text=True).stderr
    return re.search(r"^mpsrun: driver (\S+)", out, re.M).group(1)


def compile_apart(driver, text):
    """Answer and milliseconds of `mpsd-worker --compile`."""
    image = text.encode()
    fd = os.memfd_create("question")
    at = (struct.calcsize(QUESTION) + len(image) + 1 + 4095) & ~4095
    os.pwrite(fd, struct.pack(QUESTION, len(image), PTX, 0,
                              *[0] * 64) + image, 0)
    os.ftruncate(fd, at)
    begin = time.monotonic()
    subprocess.run(["sh", "-c", 'exec "$@" 3<>/proc/self/fd/%d' % fd, "sh",
                    BIN + "/mpsd-worker", "--compile", "--driver", driver,
                    "--device", "0"], pass_fds=[fd], timeout=60, check=True)
    ms = (time.monotonic() - begin) * 1000
    size = struct.calcsize(ANSWER)
    tried, result, code, _, error = struct.unpack(ANSWER,
                                                  os.pread(fd, size, at))
    begins = os.pread(fd, min(code, 4), at + size)
    os.close(fd)
    return tried, result, code, begins, error.split(b"\0")[0].decode(), ms


def compiler():
    driver = driver_path()
    good = HEAD + ".visible .entry f()\n{\n ret;\n}\n"
    tried, result, size, begins, _, ms = compile_apart(driver, good)
    row(tried and result == 0 and size and
        (DRIVER == "soft" or begins == b"\x7fELF"),
        "text becomes %d bytes of code, in %.0f ms" % (size, ms))
    bad = HEAD + ".visible .entry f()\n{\n nonsense;\n}\n"
    tried, result, _, _, error, ms = compile_apart(driver, bad)
    row(tried and result == INVALID_PTX and "nonsense" in error,
        "wrong text is %d, in %.0f ms: %s" % (result, ms,
                                              error.replace("\n", " ")[:80]))


class Puppet:
    def __init__(self):
        self.p = subprocess.Popen(
            [BIN + "/mpsrun", BUILD + "/tests/puppet"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)

    def ask(self, command):
        self.p.stdin.write(command + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        self.p.wait(timeout=20)


def memory():
    full, other, wild = Puppet(), Puppet(), Puppet()
    for p in (full, other, wild):
        row(p.ask("make").startswith("ok"), "a program starts")
    for who, command, begins in (
            (full, "fill", "ok"), (other, "fill", "-1"),
            (wild, "wild", "700"), (other, "check", "ok"),
            (full, "check", "ok"), (other, "state", "ok"),
            (full, "empty", "ok"), (full, "fill", "ok")):
        said = who.ask(command)
        row(said.startswith(begins), "%s: %s" % (command, said))
    for p in (full, other, wild):
        p.end()


def main():
    if DRIVER != "soft" and not os.path.exists("/dev/nvidiactl"):
        print("no NVIDIA device here")
        return 77
    with tempfile.TemporaryDirectory() as directory:
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = directory
        os.environ.pop("MPSSHIM_PERF", None)
        try:
            compiler()
            memory()
        finally:
            subprocess.run([BIN + "/mpsctl", "quit", "--force"], timeout=20,
                           stderr=subprocess.DEVNULL)
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
