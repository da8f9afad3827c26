# SPDX-License-Identifier: Apache-2.0
"""Command line: generate, check against headers, refresh committed files."""

import argparse
import pathlib
import subprocess
import sys

from apigen import (emit_calls, emit_common, emit_coverage, emit_shim,
                    emit_tests, emit_worker, headers, procaddr)
from apigen.infer import infer
from apigen.model import ApiError
from apigen.parse import parse_file
from apigen.rules import check

PROTO = pathlib.Path(__file__).resolve().parent.parent


def shown(path):
    """proto/cuda.api for messages, wherever make was started."""
    path = pathlib.Path(path).resolve()
    try:
        return str(path.relative_to(PROTO.parent))
    except ValueError:
        return str(path)


def names_of(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").split()
    return [n for n in lines if n]


def load(path):
    api = parse_file(path, shown(path))
    infer(api)
    check(api)
    return api


def outputs(api, graphics, rows, rows_path):
    exports = set(api.exports()) | set(graphics)
    return {**emit_common.files(api), **emit_shim.files(api, graphics),
            **emit_calls.files(api), **emit_worker.files(api),
            **emit_tests.files(api, graphics),
            "shim_procaddr.c": procaddr.shim_procaddr_c(rows, exports,
                                                        rows_path)}


def write_changed(path, text):
    """Leave an unchanged file alone, so that make rebuilds nothing."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def differences(api, args, graphics, rows):
    committed = names_of(args.exports)
    yield from headers.compare_names("exports-13.0.txt", set(committed),
                                     set(api.exports()))
    if args.check_headers:
        yield from headers.check_headers(api, args.check_headers, rows)
    if args.check_stub:
        yield from headers.compare_stub(api, args.check_stub, committed)
    if args.check_coverage:
        path = pathlib.Path(args.check_coverage)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != emit_coverage.coverage_md(api, graphics):
            yield f"{shown(path)}: stale, run apigen --coverage"


def parse_args(argv):
    parser = argparse.ArgumentParser(
        prog="apigen", description="Make C sources of proto/cuda.api.")
    parser.add_argument("api", nargs="?", default=PROTO / "cuda.api")
    parser.add_argument("--out", help="folder for generated C")
    parser.add_argument("--coverage", help="write the coverage table there")
    parser.add_argument("--check-coverage", metavar="FILE",
                        help="fail if that table is stale")
    parser.add_argument("--check-headers", metavar="CUDA_INC",
                        help="compare with the headers of that folder")
    parser.add_argument("--check-stub", metavar="PATH",
                        help="compare with that library's dynamic symbols")
    parser.add_argument("--write-procaddr", metavar="CUDA_INC",
                        help="write the cuGetProcAddress rows anew")
    parser.add_argument("--exports", default=PROTO / "exports-13.0.txt")
    parser.add_argument("--graphics", default=PROTO / "exports-gl-13.0.txt")
    parser.add_argument("--procaddr", default=PROTO / "procaddr-13.0.tsv")
    return parser.parse_args(argv)


def run(args):
    api = load(args.api)
    graphics = names_of(args.graphics)
    if args.write_procaddr:
        write_changed(pathlib.Path(args.procaddr), procaddr.to_tsv(
            procaddr.rows_from_headers(args.write_procaddr)))
    rows = procaddr.read_tsv(args.procaddr, shown(args.procaddr))
    made = outputs(api, graphics, rows, shown(args.procaddr))
    if args.out:
        out = pathlib.Path(args.out)
        out.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            write_changed(out / name, text)
    if args.coverage:
        write_changed(pathlib.Path(args.coverage),
                      emit_coverage.coverage_md(api, graphics))
    bad = 0
    for line in differences(api, args, graphics, rows):
        print(line, file=sys.stderr)
        bad += 1
    return 1 if bad else 0


def main(argv):
    try:
        return run(parse_args(argv))
    except ApiError as error:
        print(error, file=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"apigen: {error}", file=sys.stderr)
    return 1
