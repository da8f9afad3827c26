#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
ptxas.py FILE...: has NVIDIA's compiler compile each whole PTX text among the
string literals of C files, and prints what it refuses, FILE:LINE: why. The
software device's parser takes more than that compiler does, and not every
program here runs on a real driver before it is delivered. Texts that are to
be refused have one of the WRONG words in them. No output without a ptxas.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

WRONG = re.compile(r"nonsense|bogus|frobnicate|call gone|\bnothere\b|"
                   r"\.version [19][0-9]\.|sm_200|entry x\( \{")
BLANK = r"(?:\s|\\\n|/\*.*?\*/|//[^\n]*)"
STRING = r'"(?:[^"\\\n]|\\.)*"'
DEFINE = re.compile(r"#define\s+(\w+)%s+((?:%s%s*)+)\n" %
                    (r"(?:[ \t]|\\\n)", STRING, r"(?:[ \t]|\\\n)"))


def unquoted(strings):
    text = "".join(s[1:-1] for s in re.findall(STRING, strings))
    return text.encode().decode("unicode_escape")


def texts(path):
    """Whole texts of a file, each with its line."""
    with open(path, encoding="utf-8") as f:
        source = f.read()
    macros = {m[1]: unquoted(m[2]) for m in DEFINE.finditer(source)}
    names = "".join(r"|\b%s\b" % n for n in macros)
    piece = re.compile(r"(%s%s)|/\*.*?\*/|//[^\n]*" % (STRING, names), re.S)
    run = re.compile(r"(?:(?:%s%s)%s*)+" % (STRING, names, BLANK), re.S)
    for m in run.finditer(source):
        # With parts that only a preprocessor can tell.
        if re.match(r"[\w#]", source[m.end():m.end() + 1]):
            continue
        text = "".join(macros[p] if p in macros else unquoted(p)
                       for p in piece.findall(m[0]))
        if "%%" in text:
            text = text.replace("%%", "%").replace("%u", "64")
            text = text.replace("%s", "")
        if re.match(r"\s*\.version .*\.target .*\.(entry|func)", text, re.S):
            yield source.count("\n", 0, m.start()) + 1, text


def refused(compiler, text):
    r = subprocess.run([compiler, "-arch=sm_90", "-o", "/dev/null",
                        "/dev/stdin"], input=text + "\n", text=True,
                       capture_output=True, check=False)
    return (r.stdout + r.stderr).split("\n", maxsplit=1)[0] \
        if r.returncode else None


def main():
    compiler = shutil.which("ptxas") or os.path.join(
        os.environ.get("CUDA", "/usr/local/cuda"), "bin", "ptxas")
    if not os.access(compiler, os.X_OK):
        return
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(path, line, pool.submit(refused, compiler, text))
                for path in sys.argv[1:] for line, text in texts(path)
                if not WRONG.search(text)]
        for path, line, job in jobs:
            if job.result():
                print("%s:%d: %s" % (path, line, job.result()))


main()
