#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What proto/apigen makes compiles without a warning and does what it says.

Stand-in headers take the place of the shim's and the worker's own, so these
tests need nothing handwritten but proto/ and shim/procaddr.h.
"""

import ctypes.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "proto"))

from apigen import main, procaddr  # noqa: E402
from apigen.emit_shim import impl_params  # noqa: E402

CUDA = next((p for p in (pathlib.Path(os.environ.get("MPSSHIM_CUDA",
                                                     "/usr/local/cuda")),
                         ROOT / ".deps/cuda")
             if (p / "include/cuda.h").exists()), None)
FLAGS = ("-std=gnu11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -Wall -Wextra "
         "-Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla "
         "-Werror").split()
SOURCES = ("api_sigs.c", "shim_entry.c", "shim_procaddr.c", "wkr_driver.c",
           "wkr_dispatch.c", "test_zeros.c")
HEADERS = ("api_cuda.h", "api_ids.h", "api_sigs.h", "api_exports.h",
           "shim_impl.h", "shim_calls.h", "wkr_driver.h", "wkr_dispatch.h")

# Reasons to skip are printed by unittest with -v and counted without.
needs_cuda = unittest.skipUnless(CUDA, "no CUDA headers")


def write_outputs(folder, api, graphics, rows):
    for name, text in main.outputs(api, graphics, rows, "rows").items():
        (folder / name).write_text(text, encoding="utf-8")


def cc(folder, *args, compiler="gcc"):
    return subprocess.run(
        [compiler, *FLAGS, "-I", HERE / "standin", "-I", ROOT, "-I", folder,
         "-isystem", CUDA / "include", *args], cwd=folder, text=True,
        capture_output=True)


def answers(api):
    """Handwritten entry points that say with which stream they were called."""
    parts = ['#include "api_cuda.h"', '#include "api_ids.h"',
             '#include "shim/enter.h"', "int standin_initialized;",
             "enum api_id standin_last_id;",
             "CUstream standin_stream(void);",
             "static CUstream last_stream;",
             '__attribute__((visibility("default"))) CUstream\n'
             "standin_stream(void)\n{\n\treturn last_stream;\n}"]
    for verb, params in (("refuse", "enum api_id id, CUresult code"),
                         ("call", "enum api_id id, void *const argv[]"),
                         ("post", "enum api_id id, void *const argv[]")):
        result = "code" if verb == "refuse" else "CUDA_SUCCESS"
        use = "" if verb == "refuse" else "\t(void)argv;\n"
        parts.append(f"CUresult\nshim_{verb}({params})\n{{\n{use}"
                     f"\tstandin_last_id = id;\n\treturn {result};\n}}")
    for entry in api.entries:
        if not (entry.is_served and entry.is_handwritten):
            continue
        streams = [p.name for p in entry.stream_params()]
        if entry.takes_stream:
            streams = ["stream"]
        body = "".join(f"\t(void){p.name};\n" for p in entry.params)
        body += "".join(f"\tlast_stream = {s};\n" for s in streams)
        if entry.name == "cuInit":
            body += "\tstandin_initialized = 1;\n"
        params = ", ".join(impl_params(entry)) or "void"
        proto = f"CUresult shim_{entry.name}({params})"
        parts.append(f"{proto};\n{proto}\n{{\n{body}"
                     "\treturn CUDA_SUCCESS;\n}")
    return "\n\n".join(parts) + "\n"


@needs_cuda
class Compiled(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.api = main.load(ROOT / "proto/cuda.api")
        cls.graphics = main.names_of(ROOT / "proto/exports-gl-13.0.txt")
        cls.rows = procaddr.read_tsv(ROOT / "proto/procaddr-13.0.tsv")
        write_outputs(cls.folder, cls.api, cls.graphics, cls.rows)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def compiles(self, folder, name, compiler):
        run = cc(folder, "-fsyntax-only", name, compiler=compiler)
        self.assertEqual((run.returncode, run.stderr), (0, ""),
                         f"{compiler} {name}")

    def compilers(self):
        return [c for c in ("gcc", "clang") if shutil.which(c)]

    def test_every_output_compiles_without_a_warning(self):
        for compiler in self.compilers():
            for name in SOURCES:
                self.compiles(self.folder, name, compiler)

    def test_every_header_stands_alone(self):
        for name in HEADERS:
            source = self.folder / "alone.c"
            source.write_text(f'#include "{name}"\n#include "{name}"\n')
            self.compiles(self.folder, source.name, "gcc")

    def test_cuda_h_before_api_cuda_h_is_an_error(self):
        source = self.folder / "wrong.c"
        source.write_text('#include <cuda.h>\n#include "api_cuda.h"\n')
        run = cc(self.folder, "-fsyntax-only", source.name)
        self.assertIn("include api_cuda.h instead of cuda.h", run.stderr)

    def test_golden_description_compiles(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_outputs(folder, main.load(HERE / "small.api"), ["cuGLInit"],
                          procaddr.read_tsv(HERE / "small.tsv"))
            (folder / "headers.c").write_text("".join(
                f'#include "{h}"\n' for h in HEADERS))
            for compiler in self.compilers():
                for source in SOURCES + ("headers.c",):
                    self.compiles(folder, source, compiler)

    def test_everything_served_compiles(self):
        """As if no function were refused: the generated call of each."""
        text = re.sub(r"\tcover refused .*", "\tcover full",
                      (ROOT / "proto/cuda.api").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "all.api").write_text(text, encoding="utf-8")
            write_outputs(folder, main.load(folder / "all.api"),
                          self.graphics, self.rows)
            for source in SOURCES:
                self.compiles(folder, source, "gcc")


@needs_cuda
class Library(unittest.TestCase):
    """The entry points on top of stand-ins, as a library."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.api = main.load(ROOT / "proto/cuda.api")
        cls.graphics = main.names_of(ROOT / "proto/exports-gl-13.0.txt")
        write_outputs(cls.folder, cls.api, cls.graphics,
                      procaddr.read_tsv(ROOT / "proto/procaddr-13.0.tsv"))
        (cls.folder / "answers.c").write_text(answers(cls.api))
        cls.make("-shared", "-o", "lib.so", "shim_entry.c", "answers.c",
                 "-Wl,--no-undefined", "-Wl,--version-script=lib.map")
        cls.make("-o", "test_zeros", "test_zeros.c", "-ldl")

    @classmethod
    def make(cls, *args):
        script = cls.folder / "lib.map"
        # As shim.map, and the one symbol that these tests look at.
        script.write_text((cls.folder / "shim.map").read_text().replace(
            "global:", "global:\n\tstandin_stream;"))
        run = cc(cls.folder, *args)
        if run.returncode:
            raise RuntimeError(run.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def zeros(self, library):
        return subprocess.run([self.folder / "test_zeros",
                               self.folder / library], text=True,
                              capture_output=True, timeout=60)

    def run_c(self, body, *args):
        source = self.folder / "main.c"
        source.write_text(body)
        run = cc(self.folder, "-fvisibility=default", "-o", "main",
                 source.name, *args, "-ldl")
        self.assertEqual(run.stderr, "")
        run = subprocess.run([self.folder / "main", self.folder / "lib.so"],
                             text=True, capture_output=True, timeout=60)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return run.stdout.split()

    def test_library_exports_exactly_the_named_symbols(self):
        text = subprocess.run(["nm", "-D", "--defined-only",
                               self.folder / "lib.so"], check=True, text=True,
                              capture_output=True).stdout
        names = {line.split()[2] for line in text.splitlines()}
        self.assertEqual(names, set(self.api.exports() + self.graphics)
                         | {"standin_stream"})

    def test_every_function_survives_zeros_before_and_after_init(self):
        run = self.zeros("lib.so")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        count = 2 * (637 + len(self.graphics)) - 1
        self.assertEqual(run.stdout, f"{count} calls with zeros, 0 failed\n")

    def broken(self, old, new):
        text = (self.folder / "shim_entry.c").read_text(encoding="utf-8")
        self.assertIn(old, text)
        (self.folder / "broken.c").write_text(text.replace(old, new, 1))
        self.make("-shared", "-o", "broken.so", "broken.c", "answers.c",
                  "-Wno-error", "-Wl,--version-script=lib.map")
        return self.zeros("broken.so")

    def test_zeros_notice_a_missing_prologue(self):
        run = self.broken("r = shim_enter_context(API_cuMemAlloc_v2)",
                          "r = CUDA_SUCCESS")
        self.assertEqual(run.returncode, 1)
        self.assertIn("cuMemAlloc_v2: does not ask for cuInit", run.stderr)

    def test_zeros_notice_an_unknown_answer(self):
        run = self.broken("shim_cuDriverGetVersion(driverVersion)", "12345")
        self.assertEqual(run.returncode, 1)
        self.assertIn("cuDriverGetVersion: answers no CUresult", run.stderr)

    def test_zeros_notice_a_crash(self):
        run = self.broken("shim_cuDriverGetVersion(driverVersion)",
                          "*(volatile int *)driverVersion")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("cuDriverGetVersion: crashed", run.stderr)

    def test_twins_bring_the_per_thread_stream(self):
        out = self.run_c("""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "api_cuda.h"
static CUstream (*last)(void);
static void *lib;
static void show(const char *name, CUstream stream, int has_stream)
{
	void *f = dlsym(lib, name);
	CUresult (*sync)(CUstream);
	CUresult (*fill)(CUdeviceptr, unsigned char, size_t);

	memcpy(&sync, &f, sizeof(f));
	memcpy(&fill, &f, sizeof(f));
	if (has_stream)
		sync(stream);
	else
		fill(0, 0, 0);
	printf("%d\\n", (int)(size_t)last());
}
int main(int argc, char **argv)
{
	void *f;
	CUresult (*init)(unsigned int);

	lib = dlopen(argv[argc - 1], RTLD_NOW);
	f = dlsym(lib, "standin_stream");
	memcpy(&last, &f, sizeof(f));
	f = dlsym(lib, "cuInit");
	memcpy(&init, &f, sizeof(f));
	init(0);
	show("cuStreamSynchronize", NULL, 1);
	show("cuStreamSynchronize_ptsz", NULL, 1);
	show("cuStreamSynchronize_ptsz", CU_STREAM_LEGACY, 1);
	show("cuMemsetD8_v2", NULL, 0);
	show("cuMemsetD8_v2_ptds", NULL, 0);
	return 0;
}
""")
        self.assertEqual(out, ["0", "2", "1", "1", "2"])

    def test_driver_table_has_every_function_of_a_whole_library(self):
        self.assertEqual(self.driver_table("NULL"), ["0", "0", "1", "3", "1"])

    def test_functions_that_a_library_lacks_answer_not_supported(self):
        libm = ctypes.util.find_library("m")
        self.assertEqual(self.driver_table(f'"{libm}"'),
                         ["-38", "540", "0", "801", "0"])

    def driver_table(self, name):
        """Load result, absent functions, has cuMemAlloc_v2, its answer, and
        how many calls of it began and ended."""
        return self.run_c("""
#include <dlfcn.h>
#include <stdio.h>
#include "wkr_driver.h"
static int begun, ended;
void wkr_driver_begin(enum api_id id)
{
	begun += id == API_cuMemAlloc_v2 && begun == ended;
}
void wkr_driver_end(void)
{
	ended++;
}
int main(int argc, char **argv)
{
	static struct wkr_driver driver;
	const char *name = """ + name + """;
	void *lib = dlopen(name ? name : argv[argc - 1], RTLD_NOW);
	int r = lib ? wkr_driver_load(&driver, lib) : 1;
	int answer = (int)driver.cuMemAlloc_v2(NULL, 1);

	printf("%d %u %d %d %d\\n", r, driver.absent_count,
	       wkr_driver_has(&driver, API_cuMemAlloc_v2), answer,
	       begun == ended ? begun : -1);
	if (wkr_driver_function(&driver, API_mpsPing) ||
	    wkr_driver_function(&driver, API_COUNT) ||
	    (void *)wkr_driver_function(&driver, API_cuMemAlloc_v2) !=
	    (void *)driver.cuMemAlloc_v2)
		return 1;
	return 0;
}
""", "wkr_driver.c")


@needs_cuda
class Signatures(unittest.TestCase):
    """What the C compiler makes of the tables: signatures.txt, by hand."""

    maxDiff = None

    def test_signature_of_the_golden_description(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_outputs(folder, main.load(HERE / "small.api"), ["cuGLInit"],
                          procaddr.read_tsv(HERE / "small.tsv"))
            (folder / "main.c").write_text("""
#include <stdio.h>
#include "api_sigs.h"
int main(void)
{
	for (int id = 0; id < API_COUNT; id++) {
		const struct wire_sig *sig = &api_sigs[id];

		if (!sig->nparams)
			continue;
		printf("%s %d:", sig->name, sig->class_);
		for (int i = 0; i < sig->nparams; i++)
			printf(" %d/%d/%d/%d/%u", sig->params[i].kind,
			       sig->params[i].flags, sig->params[i].handle,
			       sig->params[i].count, sig->params[i].size);
		printf("\\n");
	}
	return 0;
}
""")
            run = cc(folder, "-o", "main", "main.c", "api_sigs.c")
            self.assertEqual(run.stderr, "")
            out = subprocess.run([folder / "main"], text=True, check=True,
                                 capture_output=True).stdout
        expected = (HERE / "signatures.txt").read_text(encoding="utf-8")
        self.assertEqual(out, expected)


if __name__ == "__main__":
    unittest.main()
