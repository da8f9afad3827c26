#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That the bench measures what it says: its table, CSV and chart from
recorded input, each of its programs with few rounds, its tenants with a
torch.py of ours, its daemon with one of ours. No figure is judged."""
import contextlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

sys.dont_write_bytecode = True
import asked
import bench
import chart
import modes
import report
import tenants
from report import Row, Target

HERE = pathlib.Path(__file__).resolve().parent
RECORDED = HERE / "recorded.csv"
TORCH = '''
import contextlib, os, types
class Tensor:
    values = iter(range(10**9))
    def __matmul__(self, other): return self
    def __getitem__(self, at): return self
    def item(self):
        return next(self.values) if os.environ.get("FAKE") == "wrong" else 1
def randn(*size, device):
    if os.environ.get("FAKE") == "dies":
        raise SystemExit("no memory left")
    return Tensor()
tanh = lambda x: x
no_grad = contextlib.nullcontext
manual_seed = lambda seed: None
def reserved():
    if os.environ.get("FAKE") == "asks":
        import allocate
    return 2 << 20
cuda = types.SimpleNamespace(memory_reserved=reserved)
'''
# Leaves 3 MiB allocated, by each of the ways in which libraries call.
ALLOCATE = '''
import ctypes
lib = ctypes.CDLL("libcuda.so.1")
kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * 5)
word, name = ctypes.c_uint64(), ctypes.create_string_buffer(64)
out = ctypes.addressof(word)
def call(function, *arguments):
    code = function(*arguments, *[0] * (5 - len(arguments)))
    assert code == 0, code
    return word.value
def export(symbol):
    return kind(ctypes.cast(getattr(lib, symbol), ctypes.c_void_p).value)
def entry(get, symbol, flags=0):
    name.value = symbol
    return kind(call(get, ctypes.addressof(name), out, 13000, flags))
call(export("cuInit"))
context = call(export("cuDevicePrimaryCtxRetain"), out)
call(export("cuCtxSetCurrent"), context)
call(export("cuMemAlloc_v2"), out, 1 << 20)
call(export("cuMemFree_v2"), call(export("cuMemAlloc_v2"), out, 1 << 30))
get = entry(export("cuGetProcAddress_v2"), b"cuGetProcAddress")
call(entry(get, b"cuMemAlloc"), out, 1 << 19)
old = export("cuGetProcAddress")
call(entry(old, b"cuMemAllocAsync"), out, 1 << 19)
call(entry(old, b"cuMemAllocAsync", 2), out, 1 << 19)
call(export("cuMemAllocPitch_v2"), out, ctypes.addressof(name), 512, 1024, 4)
'''
# 100 MiB more at each question.
SMI = '''#!/bin/sh
n=$(cat "$0.n" 2>/dev/null || echo 0)
echo $((n + 100)) | tee "$0.n"
'''
# Stays until it is told to quit, as the real one.
CONTROL = '''#!/bin/sh
pid=$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid
if [ "$1" = -d ]; then
	sleep 100 >/dev/null 2>&1 &
	printf %s $! >"$pid"
	exit
fi
read -r command
echo "$command" >>"$0.log"
[ "$command" = quit ] && kill "$(cat "$pid")"
[ "$command" = get_server_list ] && cat "$pid"
exit 0
'''

folder = None
TESTS = []


def test(f):
    TESTS.append(f)
    return f


def equal(got, wanted):
    assert got == wanted, "got %r, wanted %r" % (got, wanted)


def close(got, wanted):
    assert abs(got - wanted) < 1e-9, "got %r, wanted %r" % (got, wanted)


# ---- the report -------------------------------------------------------------

@test
def table_of_recorded_input():
    rows, device = report.read_csv(RECORDED)
    equal(device, "some GPU")
    lines = report.table(rows, True)
    cells = [tuple(c.strip() for c in line.split("  ") if c.strip())
             for line in lines]
    equal(cells[0], ("figure", "clients", "unit", "native *", "NVIDIA MPS",
                     "mpsrun", "target"))
    equal(cells[2:-1], [
        ("cuLaunchKernel, 4 parameters, p50", "1", "us", "4.06 ±1%", "4.2",
         "0.3 ±5%", "≤ 0.5", "met"),
        ("launch + cuStreamSynchronize", "1", "us", "9.1", "-", "10",
         "≤ 1.05 native", "not met"),
        ("copy DtoH, pageable, 4 B", "1", "us", "-", "-", "9",
         "≤ native + 1", "-"),
        ("empty kernels", "8", "/s", "720000", "990000", "900000",
         "≥ 0.85 MPS", "met"),
        ("PyTorch ResNet-18 and BERT-like, steps", "2", "/s", "-", "-",
         "1400 ±4%")])
    # Columns stand under their heads.
    for name in ("clients", "target"):
        at = lines[0].index(name)
        assert all(line[at - 2:at] == "  " for line in lines[2:-1]
                   if len(line) > at), name


@test
def no_targets_without_a_gpu():
    rows, _ = report.read_csv(RECORDED)
    text = "\n".join(report.table(rows, False))
    assert "not met" not in text and "≤" not in text, text


@test
def verdicts():
    le, ge = "us", "/s"
    for target, unit, by_mode, wanted in (
            (Target(0, None, 2), le, {"mpsrun": [2]}, "met"),
            (Target(0, None, 2), le, {"mpsrun": [2.01]}, "not met"),
            (Target(0, None, 2), le, {"native": [1]}, "-"),
            (Target(1, "native", 1), le, {"mpsrun": [9], "native": [8]},
             "met"),
            (Target(1, "native", 1), le, {"mpsrun": [9.1], "native": [8]},
             "not met"),
            (Target(1, "mps", 0), le, {"mpsrun": [9], "native": [8]}, "-"),
            (Target(0.9, "native", 0), ge, {"mpsrun": [90], "native": [100]},
             "met"),
            (Target(0.9, "native", 0), ge, {"mpsrun": [89], "native": [100]},
             "not met"),
            # The median counts, not the best.
            (Target(0, None, 2), le, {"mpsrun": [1, 3, 3]}, "not met")):
        equal(report.verdict(target, unit, by_mode), wanted)


@test
def every_target_has_a_label():
    for figure, _ in report.TARGETS:
        assert figure in report.LABELS, figure


@test
def csv_comes_back():
    rows = [Row("a", 1, "native", "us", [1.5, 2.5]),
            Row("b", 8, "mpsrun", "/s", [3.0])]
    path = folder / "rows.csv"
    report.write_csv(path, rows, "a device, of 2 cores")
    equal(report.read_csv(path), (rows, "a device, of 2 cores"))
    equal(path.read_text().splitlines()[1],
          'a,1,native,us,"a device, of 2 cores",2,1.5,2.5,1.5 2.5')


@test
def runs_are_merged():
    rows = [Row("launch_sync", 1, "native", "us", [1.0]),
            Row("launch_sync", 1, "native", "us", [3.0])]
    equal(list(report.grouped(rows).values()),
          [("us", {"native": [1.0, 3.0]})])


@test
def chart_of_recorded_input():
    rows, device = report.read_csv(RECORDED)
    rows.append(Row("launch_sync", 1, "mps", "us", [18.2]))
    svg = ET.fromstring(chart.svg(rows, device + " <&>"))
    rects = [r for r in svg.iter("{http://www.w3.org/2000/svg}rect")
             if r.get("x") == str(chart.LABEL_W)]
    lengths = [float(r.get("width")) for r in rects]
    one = chart.BARS_W / chart.LONGEST
    # Launch: native, MPS, ours (13.5 times, so cut); launch and wait; rates.
    # 4.06 / 4.2 and 9.1 / 18.2 of native; no native figure, no bars.
    wanted = [one, one * 4.06 / 4.2, one * chart.LONGEST,
              one, one / 2, one * 0.91,
              one, one * 990 / 720, one * 900 / 720]
    equal(len(lengths), len(wanted))
    for got, want in zip(lengths, wanted):
        assert abs(got - want) < 0.06, (lengths, wanted)
    text = " ".join(t.text for t in svg.iter(
        "{http://www.w3.org/2000/svg}text"))
    assert "0.3 us (13.5 times)" in text and "<&>" in text, text
    assert "empty kernels, 8 clients" in text, text


# ---- the tenants ------------------------------------------------------------

def quiet_bench():
    os.environ.update(SET="tenants", DRIVER="soft")
    return bench.Bench()


def tenant_rows(fake, mode, count=3):
    """Rows and notes of tenants with our torch."""
    b = quiet_bench()
    mode.env.update(PYTHONPATH=str(folder), FAKE=fake,
                    PYTHONDONTWRITEBYTECODE="1")
    with contextlib.redirect_stdout(io.StringIO()):
        tenants.rates(b, [mode], "tiny", count, 0.4)
    return {r.figure: r for r in b.rows}, b.notes


def one_mode(kind, work):
    return modes.MODES[kind](str(bench.BUILD), "soft", str(folder / work))


@test
def tenants_are_measured_natively():
    rows, notes = tenant_rows("", one_mode("native", "t1"))
    equal(notes, [])
    equal(sorted(rows), ["tiny_cpu", "tiny_first", "tiny_memory", "tiny_p50",
                         "tiny_p99", "tiny_rate"])
    equal(len(rows["tiny_rate"].values), tenants.WINDOWS)
    equal({r.clients for r in rows.values()}, {3})
    equal(rows["tiny_memory"].values, [100])
    assert min(rows["tiny_rate"].values) > 0, rows


@test
def tenants_are_measured_under_mpsrun():
    mode = one_mode("mpsrun", "t2")
    rows, notes = tenant_rows("", mode, 2)
    equal(notes, [])
    assert min(rows["tiny_rate"].values) > 0, rows
    equal(mode.helpers(), [])  # the broker has ended


@test
def a_wrong_result_is_noted():
    _, notes = tenant_rows("wrong", one_mode("native", "t3"), 1)
    assert len(notes) == 1 and "WRONG" in notes[0], notes


@test
def a_tenant_that_dies_is_noted():
    rows, notes = tenant_rows("dies", one_mode("native", "t4"))
    equal(rows, {})
    assert len(notes) == 1 and "no memory left" in notes[0], notes


def measured(name):
    """(what would be measured for a set, the bench)"""
    os.environ.update(SET=name, DRIVER="cuda")
    b, asked, was = bench.Bench(), [], (tenants.rates, tenants.memory,
                                        tenants.missing)
    os.environ["DRIVER"] = "soft"
    b.micro = lambda modes: asked.append("micro")
    b.c_tenants = lambda modes, n: asked.append("step %d" % n)
    tenants.missing = lambda: None
    tenants.rates = lambda b, modes, kind, n, s: asked.append(
        "%s %d" % (kind, n))
    tenants.memory = lambda b, modes, kind, counts: asked.append(
        "memory %s of %s" % (counts[-1], " ".join(m.name for m in modes)))
    try:
        b.run_set([one_mode("native", "s1"), one_mode("mpsrun", "s2")])
    finally:
        tenants.rates, tenants.memory, tenants.missing = was
    return asked, b


@test
def sets_measure_what_has_a_target():
    asked, _ = measured("targets")
    equal(asked, ["micro", *2 * ["mix 1"], *2 * ["bert 1"], *2 * ["mix 8"],
                  "memory 8 of mpsrun"])
    asked, _ = measured("small")
    equal(asked, ["micro", *2 * ["mix 1"], *2 * ["bert 1"], "mix 4",
                  *2 * ["mix 8"], "tiny 1", "tiny 4", "tiny 8", "step 1",
                  "step 4", "step 8", "memory 8 of native mpsrun"])


@test
def a_target_without_a_verdict_is_named():
    _, b = measured("small")
    everything = b.unjudged()
    equal(len(everything), sum("1GiB" not in f for f, _ in report.TARGETS))
    b.rows = [Row("bert_rate", 1, m, "/s", [1.0]) for m in ("native",
                                                           "mpsrun")]
    b.rows.append(Row("mix_bert_p99", 8, "mpsrun", "ms", [1.0]))
    equal([w for w in everything if w not in b.unjudged()],
          ["PyTorch BERT-like, steps, 1"])


def memory_rows(kind, work):
    b, mode = quiet_bench(), one_mode(kind, work)
    mode.env.update(PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1",
                    FAKE="asks")
    with contextlib.redirect_stdout(io.StringIO()):
        tenants.memory(b, [mode], "tiny", [1, 2, 4])
    equal(b.notes, [])
    found = {(r.figure, r.clients): r.values for r in b.rows}
    # 100 MiB more at each question, 3 of them asked for by each tenant.
    equal(found["memory_used", 4], [300])
    equal(found["memory_asked", 4], [3])
    equal(found["memory_reserved", 4], [2])
    equal(found["memory_further", 2], [97])
    close(found["memory_further", 4][0], (200 - 9) / 3)


@test
def memory_is_what_further_tenants_take_natively():
    memory_rows("native", "t5")


@test
def memory_is_what_further_tenants_take_under_mpsrun():
    memory_rows("mpsrun", "t6")


@test
def asked_is_what_has_not_been_freed():
    equal(asked.read(["- m 0 0", "+ m 512 100", "+ h 512 2000", "- m 512 0",
                      "+ m 512 30", "- m 77 0"]), 2030)
    try:
        asked.read(["+ m 512 100", "! array 0 0"])
    except asked.Uncounted:
        return
    assert False, "an array was counted"


@test
def windows_of_steps():
    sys.path.insert(0, str(folder))
    import tenant
    samples = [(10.5, 0.1), (10.9, 0.3), (10.95, 0.2), (11.5, 0.4),
               (12.1, 9.0)]
    (r1, m1, w1), (r2, m2, w2) = tenant.cut(samples, 10, 2, 2)
    equal((r1, r2), (3, 1))
    close(m1, 200)
    close(w1, 300)
    close(m2, 400)
    close(w2, 400)
    equal(tenant.cut([], 0, 2, 1), [(0, 2000, 2000)])


@test
def kinds_of_a_mix_are_told_apart():
    said = [{"kind": k, "first_result_s": s} for k, s in (
        ("resnet", 1.0), ("bert", 2.0))]
    results = [{"rate": [10, 20], "p50": [1, 2], "p99": [3, 4], "steps": 60,
                "cpu_s": 0.5},
               {"rate": [30, 40], "p50": [5, 6], "p99": [7, 8], "steps": 140,
                "cpu_s": 0.25}]
    rows = {r.figure: r.values for r in tenants.rows_of(
        "mix", "mps", said, results, 0.25, 77)}
    equal(rows["mix_rate"], [40, 60])
    equal(rows["mix_resnet_rate"], [10, 20])
    equal(rows["mix_bert_p99"], [7, 8])
    equal(rows["mix_first"], [2.0])
    close(rows["mix_cpu"][0], 5.0)


# ---- NVIDIA's daemon --------------------------------------------------------

def told():
    log = folder / (modes.MPS_CONTROL + ".log")
    lines = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


@test
def the_daemon_is_told_to_quit():
    mode = modes.Mps(str(bench.BUILD), "cuda", str(folder / "m1"))
    equal(mode.missing(), None)
    mode.stop()
    equal(told(), [])
    mode.start()
    pid = mode.pid()
    assert modes.is_alive(pid)
    equal(mode.helpers(), [pid])
    mode.stop()
    equal(told(), ["get_server_list", "quit"])
    assert not modes.is_alive(pid)


@test
def a_signal_ends_the_daemon_too():
    code = ("import sys, signal, time, bench, modes\n"
            "signal.signal(signal.SIGTERM, bench.leave)\n"
            "m = modes.Mps('.', 'cuda', %r)\n"
            "b = bench.Bench()\n"
            "with b.running(m):\n"
            "    print(m.pid(), flush=True)\n"
            "    time.sleep(50)\n" % str(folder / "m2"))
    p = subprocess.Popen([sys.executable, "-B", "-c", code], cwd=HERE,
                         stdout=subprocess.PIPE, text=True)
    pid = int(p.stdout.readline())
    p.send_signal(signal.SIGTERM)
    equal(p.wait(timeout=30), 128 + signal.SIGTERM)
    p.stdout.close()
    equal(told(), ["quit"])
    assert not modes.is_alive(pid)


# ---- the programs, on the software device -----------------------------------

def program_rows(mode, clients, *command):
    b = quiet_bench()
    try:
        b.run(mode, clients, *command)
    finally:
        mode.stop()
    equal(b.notes, [])
    for r in b.rows:
        assert r.figure in report.LABELS, r.figure
        assert r.values and min(r.values) >= 0, r
    return {r.figure: r for r in b.rows}


def micro_figures():
    """Those of LABELS before the programs that start clients."""
    names = list(report.LABELS)
    return [n for n in names[:names.index("start_first")]
            if not n.endswith(("256MiB", "1GiB"))]


def programs(kind):
    mode = one_mode(kind, "p-" + kind)
    rows = program_rows(mode, 1, "micro", "-r", 2, "-s", 100000, "-m", 1)
    equal(sorted(rows), sorted(micro_figures()))
    equal({len(r.values) for r in rows.values()}, {2})
    rows = program_rows(mode, 3, "clients", "-r", 1, "-t", 5, 3, "empty",
                        "spin", "step")
    equal(sorted(rows), ["empty_rate", "spin_rate", "step_p50", "step_p99",
                         "step_rate"])
    assert min(rows["step_rate"].values) > 0, rows
    rows = program_rows(mode, 1, "start", 2)
    equal([(r.figure, len(r.values)) for r in rows.values()],
          [("start_first", 1), ("start_next", 2)])
    assert min(rows["start_next"].values) > 0, rows


@test
def programs_run_natively():
    programs("native")


@test
def programs_run_under_mpsrun():
    programs("mpsrun")


@test
def a_program_that_fails_is_noted():
    b = quiet_bench()
    with contextlib.redirect_stdout(io.StringIO()):
        b.run(one_mode("native", "f"), 1, "micro", "no_such_group")
    equal(b.rows, [])
    assert len(b.notes) == 1 and "no_such_group" in b.notes[0], b.notes


NEED_PROGRAMS = ("programs_run_natively", "programs_run_under_mpsrun",
                 "a_program_that_fails_is_noted",
                 "tenants_are_measured_under_mpsrun",
                 "memory_is_what_further_tenants_take_natively",
                 "memory_is_what_further_tenants_take_under_mpsrun")


def main():
    global folder
    passed, failed, skipped = 0, [], 0
    with tempfile.TemporaryDirectory(prefix="mpsshim-check-bench.") as name:
        folder = pathlib.Path(name)
        os.environ["PATH"] = name + ":" + os.environ["PATH"]
        (folder / "torch.py").write_text(TORCH)
        (folder / "torchvision.py").write_text("")
        (folder / "allocate.py").write_text(ALLOCATE)
        for program, text in (("nvidia-smi", SMI),
                              (modes.MPS_CONTROL, CONTROL)):
            (folder / program).write_text(text)
            (folder / program).chmod(0o755)
        for f in TESTS:
            (folder / "nvidia-smi.n").unlink(missing_ok=True)
            # Plain programs do not run with a library for sanitizers.
            if os.environ.get("MPSSHIM_SAN") and f.__name__ in NEED_PROGRAMS:
                skipped += 1
                continue
            start = time.monotonic()
            try:
                f()
                passed += 1
                print("ok   ", f.__name__, end="")
            except Exception as e:
                failed.append(f.__name__)
                print("FAIL  %s: %s: %s" % (f.__name__, type(e).__name__, e),
                      end="")
            print(" (%.1f s)" % (time.monotonic() - start), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, len(failed), skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
