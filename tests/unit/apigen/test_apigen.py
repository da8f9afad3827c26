#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""proto/apigen: every rule has an input that breaks it, the output for a
small description is known, and proto/cuda.api agrees with what else there is.

`test_apigen.py --update` writes the golden files anew; look at the diff.
"""

import ast
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import traceback
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "proto"))

from apigen import (cudatypes, emit_coverage, headers, main,  # noqa: E402
                    procaddr)
from apigen.model import ApiError  # noqa: E402

PROTO = ROOT / "proto"
APIGEN = PROTO / "apigen"
GRAPHICS = ["cuGLInit"]
CUDA = next((p for p in (pathlib.Path(os.environ.get("MPSSHIM_CUDA",
                                                     "/usr/local/cuda")),
                         ROOT / ".deps/cuda")
             if (p / "include/cuda.h").exists()), None)


def golden():
    """Name -> text of everything made of small.api and small.tsv."""
    api = main.load(HERE / "small.api")
    rows = procaddr.read_tsv(HERE / "small.tsv")
    made = main.outputs(api, GRAPHICS, rows, "small.tsv")
    made["COVERAGE.md"] = emit_coverage.coverage_md(api, GRAPHICS)
    return made


def raising_lines(tree):
    """Line numbers of the statements that report a fault."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and \
                isinstance(node.func, ast.Attribute) and \
                node.func.attr == "fail":
            yield node.lineno


class BadInput(unittest.TestCase):
    """bad/*.api: the first line is '# LINE: message'."""

    def test_each_bad_file_gives_its_message_and_no_rule_is_untested(self):
        reached = set()
        for path in sorted((HERE / "bad").glob("*.api")):
            with self.subTest(path.name):
                line, _, text = path.read_text(
                    encoding="utf-8").split("\n")[0][2:].partition(": ")
                message, where = self.load(path)
                self.assertEqual(
                    message, f"tests/unit/apigen/bad/{path.name}:{line}: "
                             f"error: {text}")
                reached.add(where)
        self.assertEqual(self.rules() - reached, set())

    def load(self, path):
        """The message, and the statement of apigen that reported it."""
        # Not assertRaises, which forgets the traceback.
        try:
            main.load(path)
        except ApiError as error:
            frames = traceback.extract_tb(error.__traceback__)
            frame = [f for f in frames if f.name != "fail"][-1]
            return str(error), (pathlib.Path(frame.filename).name,
                                frame.lineno)
        return "no error", None

    def rules(self):
        return {(name, line)
                for name in ("parse.py", "infer.py", "rules.py")
                for line in raising_lines(ast.parse(
                    (APIGEN / name).read_text(encoding="utf-8")))}

    def test_command_prints_the_message_and_fails(self):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            status = main.main([str(HERE / "bad/no-class.api")])
        self.assertEqual(status, 1)
        self.assertEqual(err.getvalue(), "tests/unit/apigen/bad/no-class.api"
                         ":3: error: cuInit has no class\n")

    def test_stale_coverage_fails(self):
        with tempfile.NamedTemporaryFile("w", suffix=".md") as file:
            file.write("old\n")
            file.flush()
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                status = main.main(["--check-coverage", file.name])
        self.assertEqual(status, 1)
        self.assertIn("stale, run apigen --coverage", err.getvalue())

    def test_export_that_is_missing_fails(self):
        exports = (PROTO / "exports-13.0.txt").read_text(encoding="utf-8")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(exports + "cuMemNew\n")
            file.flush()
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                status = main.main(["--exports", file.name])
        self.assertEqual(status, 1)
        self.assertEqual(err.getvalue(),
                         "cuMemNew: in exports-13.0.txt, not here\n")

    def test_missing_file_is_one_line(self):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual(main.main(["/nonexistent.api"]), 1)
        self.assertEqual(len(err.getvalue().splitlines()), 1)


class BadProcaddr(unittest.TestCase):
    ROW = "cuInit\t2000=cuInit\t2000=cuInit\n"

    def expect(self, text, message, exports=("cuInit",)):
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
            file.write(text)
            file.flush()
            with self.assertRaises(ApiError) as caught:
                procaddr.shim_procaddr_c(
                    procaddr.read_tsv(file.name, "x.tsv"), exports, "x.tsv")
        self.assertEqual(str(caught.exception), f"x.tsv:{message}")

    def test_row_of_two_columns(self):
        self.expect("cuInit\t2000=cuInit\n",
                    "1: error: expected three columns")

    def test_names_out_of_order(self):
        self.expect(self.ROW + self.ROW.replace("cuInit\t", "cuA\t", 1),
                    "2: error: cuA is out of order")

    def test_cell_that_is_no_step(self):
        self.expect(self.ROW.replace("2000=", "2000:"),
                    "1: error: not VERSION=SYMBOL: '2000:cuInit'")

    def test_versions_that_descend(self):
        self.expect("cuA\t3000=cuInit 2000=cuInit\t2000=cuInit\n",
                    "1: error: versions do not ascend")

    def test_symbol_that_is_not_exported(self):
        self.expect(self.ROW, "1: error: cuInit is not exported", ())


class Golden(unittest.TestCase):
    maxDiff = None

    def test_small_description_gives_the_golden_files(self):
        made = golden()
        committed = {p.stem: p.read_text(encoding="utf-8")
                     for p in (HERE / "golden").glob("*.txt")}
        self.assertEqual(sorted(made), sorted(committed))
        for name, text in made.items():
            with self.subTest(name):
                self.assertEqual(text, committed[name])

    def test_unchanged_output_is_not_touched(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "file"
            main.write_changed(path, "text")
            before = path.stat().st_mtime_ns
            main.write_changed(path, "text")
            self.assertEqual(path.stat().st_mtime_ns, before)
            main.write_changed(path, "other")
            self.assertEqual(path.read_text(encoding="utf-8"), "other")


class CudaApi(unittest.TestCase):
    """The description that is built, against everything it must agree with."""

    @classmethod
    def setUpClass(cls):
        cls.api = main.load(PROTO / "cuda.api")
        cls.graphics = main.names_of(PROTO / "exports-gl-13.0.txt")
        cls.exports = main.names_of(PROTO / "exports-13.0.txt")
        cls.rows = procaddr.read_tsv(PROTO / "procaddr-13.0.tsv")

    def test_counts_balance(self):
        entries = self.api.entries
        self.assertEqual(len(entries), 540)
        self.assertEqual(sum(bool(e.twin) for e in entries), 97)
        self.assertEqual(len(self.api.exports()), 637)
        self.assertEqual(sum(emit_coverage.count(entries, kind)
                             for kind in emit_coverage.KINDS), 540)

    def test_exports_are_the_committed_ones(self):
        self.assertEqual(sorted(self.api.exports()), self.exports)
        self.assertEqual(len(self.graphics), 34)

    def test_version_script_names_every_export_and_nothing_else(self):
        text = main.emit_shim.shim_map(self.api, self.graphics)
        names = [line.strip("\t;") for line in text.splitlines()
                 if line.startswith("\tcu")]
        self.assertEqual(names, sorted(self.exports + self.graphics))

    def test_coverage_is_fresh(self):
        self.assertEqual(
            (PROTO / "COVERAGE.md").read_text(encoding="utf-8"),
            emit_coverage.coverage_md(self.api, self.graphics),
            "run apigen --coverage proto/COVERAGE.md")

    def test_every_op_has_an_id_beyond_the_functions(self):
        self.assertLess(max(e.id for e in self.api.entries),
                        min(e.id for e in self.api.ops))

    def test_ids_are_the_ones_that_were_first_committed(self):
        """Ids are the wire: ids.txt only grows."""
        lines = (HERE / "ids.txt").read_text(encoding="utf-8").splitlines()
        ids = {e.name: e.id for e in self.api.all}
        for line in lines:
            number, name = line.split()
            self.assertEqual(ids.get(name), int(number), name)
        self.assertEqual(len(lines), len(self.api.entries))

    def test_handle_kinds_are_those_of_handle_h(self):
        text = (PROTO / "handle.h").read_text(encoding="utf-8")
        for kind in cudatypes.HANDLE_KINDS:
            self.assertIn(f"HANDLE_{kind.upper()},", text)

    def test_look_up_table_equals_what_a_driver_answered(self):
        """tests/api/procaddr_table.tsv: a CUDA 13.0 driver, asked for every
        name, version and flag."""
        answered = procaddr.read_tsv(ROOT / "tests/api/procaddr_table.tsv")
        self.assertEqual(len(answered), 477)
        self.assertEqual(self.rows, answered)

    def test_every_look_up_symbol_is_exported(self):
        known = set(self.exports + self.graphics)
        for legacy, per_thread in self.rows.values():
            for _, symbol in legacy + per_thread:
                self.assertIn(symbol, known)

    def test_every_export_can_be_looked_up(self):
        found = {symbol for legacy, per_thread in self.rows.values()
                 for _, symbol in legacy + per_thread}
        self.assertEqual(set(self.exports + self.graphics) - found, set())

    def test_every_function_can_be_served(self):
        """No refusal hides an entry that could not be generated."""
        text = (PROTO / "cuda.api").read_text(encoding="utf-8")
        lines = ["\tcover full"
                 if line.startswith(("\tcover refused", "\tcover partial"))
                 else line for line in text.splitlines()]
        with tempfile.NamedTemporaryFile("w", suffix=".api") as file:
            file.write("\n".join(lines))
            file.flush()
            api = main.load(file.name)
        self.assertEqual(emit_coverage.count(api.entries, "full"), 540)


@unittest.skipUnless(CUDA, "no CUDA headers")
class Headers(unittest.TestCase):
    """--check-headers and --check-stub, and that each difference shows."""

    @classmethod
    def setUpClass(cls):
        cls.include = str(CUDA / "include")
        cls.text = headers.preprocess(cls.include)
        cls.api = main.load(PROTO / "cuda.api")

    def test_description_equals_the_headers(self):
        rows = procaddr.read_tsv(PROTO / "procaddr-13.0.tsv")
        self.assertEqual(list(headers.check_headers(self.api, self.include,
                                                    rows)), [])

    def test_stub_exports_what_we_export(self):
        stub = CUDA / "lib64/stubs/libcuda.so"
        if not stub.exists():
            self.skipTest("no stub library")
        exports = main.names_of(PROTO / "exports-13.0.txt")
        self.assertEqual(list(headers.compare_stub(self.api, stub, exports)),
                         [])
        self.assertEqual(list(headers.compare_stub(self.api, stub,
                                                   exports[1:])),
                         [f"{exports[0]}: not in exports-13.0.txt"])

    def compare(self, change):
        found = headers.header_prototypes(self.text)
        change(found)
        return list(headers.compare_prototypes(self.api, found))

    def test_changed_parameter_shows(self):
        def change(found):
            found["cuInit"] = [("unsigned long long", "Flags")]
        self.assertEqual(len(self.compare(change)), 1)

    def test_missing_twin_shows(self):
        self.assertEqual(
            self.compare(lambda found: found.pop("cuMemcpy_ptds")),
            ["cuMemcpy_ptds: not in cuda.h"])

    def test_new_function_shows(self):
        self.assertEqual(
            self.compare(lambda found: found.update(cuMemNew=[])),
            ["cuMemNew: in cuda.h, not here"])

    def test_changed_error_code_shows(self):
        text = self.text.replace("CUDA_ERROR_INVALID_VALUE = 1,",
                                 "CUDA_ERROR_INVALID_VALUE = 1111,")
        self.assertEqual(list(headers.compare_codes(text)),
                         ["CUDA_ERROR_INVALID_VALUE: cuda.h has 1111, we "
                          "have 1"])

    def test_wrong_size_of_a_type_shows(self):
        cudatypes.SCALARS["CUdevice"] = (8, True)
        try:
            lines = list(headers.compare_types(self.text, self.include))
        finally:
            cudatypes.SCALARS["CUdevice"] = (4, True)
        self.assertEqual(len(lines), 1)
        self.assertIn("CUdevice", lines[0])

    def test_changed_look_up_row_shows(self):
        rows = procaddr.read_tsv(PROTO / "procaddr-13.0.tsv")
        del rows["cuInit"]
        self.assertEqual(list(headers.compare_procaddr(self.include, rows)),
                         ["cuInit: cuGetProcAddress rows differ from the "
                          "headers"])


def update():
    for name, text in golden().items():
        path = HERE / "golden" / (name + ".txt")
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--update" in sys.argv:
        update()
    else:
        unittest.main()
