#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes forms.tsv and inputs.tsv: one row per PTX instruction form.

The text of each row is made here; its result is recorded on a GPU by
"forms record". A row whose text did not change keeps its recorded result
and its "accepted" word, so this script can be run at any time. Tables named
as arguments (what "forms missing" printed) give their results to rows that
have none.

Registers of a row: inputs %a %b %c %x and outputs %d %e %f %g, of the types
its third column gives in that order. Also %t (u32, thread 0..63), %gp (u64,
global address of 32 scratch bytes of the thread), %gs (u64, of thread 0's).
Arrays that exist where a row mentions them: sbuf (.shared, 4096 bytes), lbuf
(.local, 64), cbuf (.const, 64 bytes of a pattern), blob (.param, 32 bytes
of it). What stands before "::" goes to the module.
"""
import os
import sys

from form_inputs import build

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = []
NAMES = set()
SIZE = {"s8": 8, "u8": 8, "b8": 8, "s16": 16, "u16": 16, "b16": 16, "f16": 16,
        "bf16": 16, "s32": 32, "u32": 32, "b32": 32, "f32": 32, "f16x2": 32,
        "bf16x2": 32, "u16x2": 32, "s16x2": 32, "s64": 64, "u64": 64,
        "b64": 64, "f64": 64, "tf32": 32, "pred": 1}
ROUND = ("rn", "rz", "rm", "rp")


def form(ptx, types, sets, cls="exact", tag=None, name=None):
    """Append a row; its name is the first opcode, made unique by a tag."""
    ptx = " ".join(ptx.split())
    if not ptx.rstrip().endswith((";", "}", ":")):
        ptx += ";"
    if name is None:
        words = [w for w in ptx.split("::")[-1].split() if w != "{"]
        name = words[0]
    if tag:
        name += "#" + tag
    assert name not in NAMES, name
    NAMES.add(name)
    ROWS.append((name, ptx, types, sets or "-", cls))


def reg(t):
    """The register type that holds a value of type t."""
    if t in ("pred", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        return t
    return "b%d" % max(16, SIZE[t])


def iset(t, ops):
    return " ".join("i%d.%s" % (max(16, SIZE[t]), o) for o in ops)


def fset(t, ops):
    return " ".join("%s.%s" % (t, o) for o in ops)


def simple(op, t, ops, sets, cls="exact", tag=None, out=None):
    """op d, a, b, c with every operand of type t."""
    regs = "".join(", %" + r for r in "abcx"[:ops])
    types = " ".join([reg(t)] * ops) + " > " + (out or reg(t))
    form("%s %%d%s;" % (op, regs), types, sets, cls, tag)


# ---------------------------------------------------------------- integers
def integers():
    for t in ("s16", "u16", "s32", "u32", "s64", "u64"):
        for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
            simple("%s.%s" % (op, t), t, 2, iset(t, "ab"))
        for op in ("mad.lo", "mad.hi", "sad"):
            simple("%s.%s" % (op, t), t, 3, iset(t, "abc"))
        for op in ("div", "rem"):
            regs = reg(t)
            form("%s.%s %%d, %%a, %%b;" % (op, t), "%s %s > %s" % (regs, regs, regs),
                 "i%d.a i%d.nz" % (SIZE[t], SIZE[t]))
        if t[0] == "s":
            simple("abs." + t, t, 1, iset(t, "u"))
            simple("neg." + t, t, 1, iset(t, "u"))
    for t in ("s32", "u32", "s64"):
        for op in ("div", "rem"):
            simple("%s.%s" % (op, t), t, 2, iset(t, "ab"), tag="zero")
    for t in ("s16", "u16", "s32", "u32"):
        wide = "b%d" % (2 * SIZE[t])
        form("mul.wide.%s %%d, %%a, %%b" % t, "%s %s > %s" % (reg(t), reg(t), wide), iset(t, "ab"))
        form("mad.wide.%s %%d, %%a, %%b, %%c" % t,
             "%s %s %s > %s" % (reg(t), reg(t), wide, wide),
             iset(t, "ab") + " i%d.c" % (2 * SIZE[t]))
    for op in ("add.sat.s32", "sub.sat.s32"):
        simple(op, "s32", 2, iset("s32", "ab"))
    simple("mad.hi.sat.s32", "s32", 3, iset("s32", "abc"))
    for t in ("s32", "u32"):
        for part in ("lo", "hi"):
            simple("mul24.%s.%s" % (part, t), t, 2, iset(t, "ab"))
            simple("mad24.%s.%s" % (part, t), t, 3, iset(t, "abc"))
    simple("mad24.hi.sat.s32", "s32", 3, iset("s32", "abc"))
    for t in ("u16x2", "s16x2"):
        for op in ("add", "min", "max"):
            simple("%s.%s" % (op, t), "b32", 2, iset("b32", "ab"))
    for op in ("min.relu.s16x2", "max.relu.s16x2", "min.relu.s32", "max.relu.s32"):
        simple(op, "b32", 2, iset("b32", "ab"))
    for op, imm in (("add.s32", "-7"), ("add.u32", "0x80000001"), ("mul.lo.s32", "12345"),
                    ("sub.s32", "100"), ("and.b32", "0xff00ff"), ("shl.b32", "5"),
                    ("shr.s32", "7"), ("shr.u32", "31"), ("max.s32", "0"), ("div.s32", "10"),
                    ("div.u32", "7"), ("rem.u32", "1000"), ("rem.s32", "-3")):
        form("%s %%d, %%a, %s" % (op, imm), "b32 > b32", "i32.u", tag="imm")
    for op, imm in (("add.s64", "-1"), ("mul.lo.s64", "-4294967297"), ("shl.b64", "40"),
                    ("div.u64", "1000000007"), ("rem.s64", "10")):
        form("%s %%d, %%a, %s" % (op, imm), "b64 > b64", "i64.u", tag="imm")
    form("mul.wide.u32 %d, %a, 4", "b32 > b64", "i32.u", tag="imm")
    form("mul.wide.s32 %d, %a, 8", "b32 > b64", "i32.u", tag="imm")


def carries():
    for t in ("u32", "s32", "u64", "s64"):
        r = reg(t)
        typ, sets = "%s %s %s > %s %s" % (r, r, r, r, r), iset(t, "abc")
        form("add.cc.%s %%d, %%a, %%b; addc.%s %%e, %%c, 0;" % (t, t), typ, sets)
        form("add.cc.%s %%d, %%a, %%b; addc.cc.%s %%e, %%c, %%a; addc.%s %%f, 0, 0;" % (t, t, t),
             typ + " " + r, sets, tag="three")
        form("sub.cc.%s %%d, %%a, %%b; subc.%s %%e, %%c, 0;" % (t, t), typ, sets)
        form("sub.cc.%s %%d, %%a, %%b; subc.cc.%s %%e, %%c, %%a; subc.%s %%f, 0, 0;" % (t, t, t),
             typ + " " + r, sets, tag="three")
        form("mad.lo.cc.%s %%d, %%a, %%b, %%c; madc.hi.%s %%e, %%a, %%b, %%c;" % (t, t), typ, sets)
        form("mad.hi.cc.%s %%d, %%a, %%b, %%c; madc.lo.cc.%s %%e, %%a, %%c, %%b; "
             "addc.%s %%f, 0, 0;" % (t, t, t), typ + " " + r, sets)


def bits():
    for t in ("b32", "b64"):
        for op in ("popc", "clz"):
            form("%s.%s %%d, %%a" % (op, t), "%s > b32" % t, iset(t, "u"))
        simple("brev." + t, t, 1, iset(t, "u"))
        form("bfi.%s %%d, %%a, %%b, %%c, %%x" % t, "%s %s b32 b32 > %s" % (t, t, t),
             iset(t, "ab") + " pos len")
    for t in ("u32", "s32", "u64", "s64"):
        for mod in ("", ".shiftamt"):
            form("bfind%s.%s %%d, %%a" % (mod, t), "%s > b32" % reg(t), iset(t, "u"))
        form("bfe.%s %%d, %%a, %%b, %%c" % t, "%s b32 b32 > %s" % (reg(t), reg(t)),
             iset(t, "u") + " pos len")
    for mode in ("clamp", "wrap"):
        form("bmsk.%s.b32 %%d, %%a, %%b" % mode, "b32 b32 > b32", "pos len")
        for t in ("u32", "s32"):
            form("szext.%s.%s %%d, %%a, %%b" % (mode, t), "b32 b32 > b32", "i32.u len")
        for side in ("l", "r"):
            form("shf.%s.%s.b32 %%d, %%a, %%b, %%c" % (side, mode), "b32 b32 b32 > b32",
                 "i32.a i32.u shift")
    for ta in ("u32", "s32"):
        for tb in ("u32", "s32"):
            simple("dp4a.%s.%s" % (ta, tb), "b32", 3, "i32.u i32.b i32.c")
            for part in ("lo", "hi"):
                simple("dp2a.%s.%s.%s" % (part, ta, tb), "b32", 3, "i32.u i32.b i32.c")
    form("fns.b32 %d, %a, %b, %c", "b32 b32 b32 > b32", "i32.u lane four")
    for t in ("b16", "b32", "b64"):
        form("shl.%s %%d, %%a, %%b" % t, "%s b32 > %s" % (t, t), iset(t, "u") + " shift")
        for op in ("and", "or", "xor"):
            simple("%s.%s" % (op, t), t, 2, iset(t, "ab"))
        simple("not." + t, t, 1, iset(t, "u"))
        simple("cnot." + t, t, 1, iset(t, "u"))
        for kind in "ubs":
            form("shr.%s%s %%d, %%a, %%b" % (kind, t[1:]), "%s b32 > %s" % (t, t),
                 iset(t, "u") + " shift")
    for lut in (0x00, 0x01, 0x0E, 0x1B, 0x3C, 0x80, 0x96, 0xCA, 0xD8, 0xE8, 0xEA, 0xF8, 0xFE,
                0xFF):
        form("lop3.b32 %%d, %%a, %%b, %%c, 0x%02x" % lut, "b32 b32 b32 > b32",
             "i32.a i32.b i32.u", tag="%02x" % lut)
    for op in ("and", "or"):
        form("{ .reg .pred q; setp.ne.u32 q, %%t, 5; lop3.%s.b32 %%d|%%e, %%a, %%b, %%c, "
             "0x80, q; }" % op, "b32 b32 b32 > b32 pred", "i32.a i32.b i32.u",
             name="lop3.%s.b32" % op)
    form("prmt.b32 %d, %a, %b, %c", "b32 b32 b32 > b32", "i32.a i32.u i32.u")
    for sel in ("0x3210", "0x0123", "0x7654", "0x5410", "0x8888", "0xfb73"):
        form("prmt.b32 %%d, %%a, %%b, %s" % sel, "b32 b32 > b32", "i32.u i32.b", tag=sel)
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        form("prmt.b32.%s %%d, %%a, %%b, %%c" % mode, "b32 b32 b32 > b32",
             "i32.u i32.b shift")
    for op in ("and", "or", "xor"):
        form("%s.pred %%d, %%a, %%b" % op, "pred pred > pred", "bool.a bool.b")
    form("not.pred %d, %a", "pred > pred", "bool.a")


def video():
    for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        form("%s.s32.s32.s32 %%d, %%a, %%b" % op, "b32 b32 > b32", "i32.a i32.b")
        form("%s.s32.s32.s32.sat %%d, %%a.b1, %%b.h1" % op, "b32 b32 > b32", "i32.u i32.b",
             tag="sel")
    form("vadd.u32.u32.u32.add %d, %a, %b, %c", "b32 b32 b32 > b32", "i32.a i32.b i32.c")
    form("vshl.u32.u32.u32.clamp %d, %a, %b", "b32 b32 > b32", "i32.u shift")
    form("vshr.s32.u32.u32.wrap %d, %a, %b", "b32 b32 > b32", "i32.u shift")
    form("vmad.s32.s32.s32 %d, %a.h0, %b.h1, %c", "b32 b32 b32 > b32", "i32.a i32.b i32.c")
    form("vset.u32.u32.lt %d, %a.b0, %b.b1", "b32 b32 > b32", "i32.u i32.b")
    for op in ("vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2",
               "vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4"):
        form("%s.u32.u32.u32 %%d, %%a, %%b, %%c" % op, "b32 b32 b32 > b32",
             "i32.u i32.b i32.c")
    form("vabsdiff4.u32.u32.u32.add %d, %a, %b, %c", "b32 b32 b32 > b32", "i32.u i32.b i32.c")
    form("vadd4.s32.s32.s32.sat %d, %a, %b, %c", "b32 b32 b32 > b32", "i32.u i32.b i32.c")


# ------------------------------------------------------------ f32 and f64
APPROX = {
    "div.approx": "ulp 2", "div.full": "ulp 2", "rcp.approx": "ulp 1", "sqrt.approx": "ulp 2",
    "rsqrt.approx": "ulp 2", "sin.approx": "abs 6e-7", "cos.approx": "abs 6e-7",
    "lg2.approx": "ulp 4 abs 3e-7", "ex2.approx": "ulp 4", "tanh.approx": "ulp 8192",
}


def floats32():
    for op in ("add", "sub", "mul"):
        for rnd in ("",) + tuple("." + r for r in ROUND):
            for ftz in ("", ".ftz"):
                for sat in ("", ".sat"):
                    simple(op + rnd + ftz + sat + ".f32", "f32", 2, fset("f32", "ab"))
    for rnd in ROUND:
        for ftz in ("", ".ftz"):
            for sat in ("", ".sat"):
                simple("fma." + rnd + ftz + sat + ".f32", "f32", 3, fset("f32", "abc"))
            simple("div." + rnd + ftz + ".f32", "f32", 2, fset("f32", "ab"))
            simple("rcp." + rnd + ftz + ".f32", "f32", 1, fset("f32", "u"))
            simple("sqrt." + rnd + ftz + ".f32", "f32", 1, fset("f32", "u"))
    simple("mad.rn.f32", "f32", 3, fset("f32", "abc"))
    simple("mad.rz.ftz.sat.f32", "f32", 3, fset("f32", "abc"))
    for ftz in ("", ".ftz"):
        for op in ("div.approx", "div.full"):
            simple(op + ftz + ".f32", "f32", 2, fset("f32", "ab"), APPROX[op])
        for op in ("rcp.approx", "sqrt.approx", "rsqrt.approx"):
            simple(op + ftz + ".f32", "f32", 1, fset("f32", "u"), APPROX[op])
        for op in ("sin.approx", "cos.approx"):
            simple(op + ftz + ".f32", "f32", 1, "trig", APPROX[op])
        simple("lg2.approx" + ftz + ".f32", "f32", 1, fset("f32", "u"), APPROX["lg2.approx"])
        simple("ex2.approx" + ftz + ".f32", "f32", 1, "expo", APPROX["ex2.approx"])
        simple("abs" + ftz + ".f32", "f32", 1, fset("f32", "u"))
        simple("neg" + ftz + ".f32", "f32", 1, fset("f32", "u"))
        for op in ("min", "max"):
            for mod in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                simple(op + ftz + mod + ".f32", "f32", 2, fset("f32", "ab"))
    simple("tanh.approx.f32", "f32", 1, "expo", APPROX["tanh.approx"])
    form("add.f32 %d, %a, 0f3FC00000", "f32 > f32", "f32.u", tag="imm")
    form("fma.rn.f32 %d, %a, 0f40000000, 0fBF800000", "f32 > f32", "f32.u", tag="imm")


def floats64():
    for rnd in ROUND:
        for op in ("add", "sub", "mul", "div"):
            simple("%s.%s.f64" % (op, rnd), "f64", 2, fset("f64", "ab"))
        simple("fma.%s.f64" % rnd, "f64", 3, fset("f64", "abc"))
        for op in ("rcp", "sqrt"):
            simple("%s.%s.f64" % (op, rnd), "f64", 1, fset("f64", "u"))
    for op in ("add", "sub", "mul", "min", "max"):
        simple(op + ".f64", "f64", 2, fset("f64", "ab"))
    simple("mad.rn.f64", "f64", 3, fset("f64", "abc"))
    for op in ("abs", "neg"):
        simple(op + ".f64", "f64", 1, fset("f64", "u"))
    # About 20 good bits, the low word is zero.
    simple("rcp.approx.ftz.f64", "f64", 1, fset("f64", "u"), "ulp 8589934592")
    simple("rsqrt.approx.f64", "f64", 1, fset("f64", "u"), "ulp 8589934592")
    simple("rsqrt.approx.ftz.f64", "f64", 1, fset("f64", "u"), "ulp 8589934592")
    form("add.f64 %d, %a, 0d3FF8000000000000", "f64 > f64", "f64.u", tag="imm")
    for t in ("f32", "f64"):
        simple("copysign." + t, t, 2, fset(t, "ab"))
        for cls in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            simple("testp.%s.%s" % (cls, t), t, 1, fset(t, "u"), out="pred")


# ------------------------------------------------------------- comparisons
S_OPS = ("eq", "ne", "lt", "le", "gt", "ge")
U_OPS = S_OPS + ("lo", "ls", "hi", "hs")
F_OPS = S_OPS + ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def compares():
    for size in (16, 32, 64):
        for kind, ops in (("s", S_OPS), ("u", U_OPS), ("b", ("eq", "ne"))):
            t = "%s%d" % (kind, size)
            for op in ops:
                simple("setp.%s.%s" % (op, t), t, 2, iset(t, "ab"), out="pred")
    for t in ("f32", "f64"):
        for op in F_OPS:
            simple("setp.%s.%s" % (op, t), t, 2, fset(t, "ab"), out="pred")
    for op in F_OPS:
        simple("setp.%s.ftz.f32" % op, "f32", 2, fset("f32", "ab"), out="pred")
    for comb in ("and", "or", "xor"):
        form("setp.lt.%s.s32 %%d|%%e, %%a, %%b, %%c" % comb, "b32 b32 pred > pred pred",
             "i32.a i32.b bool.a")
        form("setp.ge.%s.f32 %%d|%%e, %%a, %%b, !%%c" % comb, "f32 f32 pred > pred pred",
             "f32.a f32.b bool.a")
    form("setp.gt.u64 %d|%e, %a, %b", "b64 b64 > pred pred", "i64.a i64.b", tag="both")
    for op in ("lt", "ge", "eq", "ne"):
        for t in ("s32", "u32"):
            form("set.%s.u32.%s %%d, %%a, %%b" % (op, t), "b32 b32 > b32", iset(t, "ab"))
    for op in ("lt", "ls", "hi", "hs"):
        form("set.%s.s32.u64 %%d, %%a, %%b" % op, "b64 b64 > b32", "i64.a i64.b")
    for op in ("lt", "geu", "num", "nan", "equ", "ne"):
        form("set.%s.u32.f32 %%d, %%a, %%b" % op, "f32 f32 > b32", fset("f32", "ab"))
        form("set.%s.f32.f64 %%d, %%a, %%b" % op, "f64 f64 > f32", fset("f64", "ab"))
    form("set.gt.f32.s32 %d, %a, %b", "b32 b32 > f32", "i32.a i32.b")
    form("set.le.and.u32.s16 %d, %a, %b, %c", "b16 b16 pred > b32", "i16.a i16.b bool.a")
    form("set.ltu.xor.s32.f32 %d, %a, %b, !%c", "f32 f32 pred > b32", "f32.a f32.b bool.a")
    for t in ("b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"):
        form("selp.%s %%d, %%a, %%b, %%c" % t, "%s %s pred > %s" % (reg(t), reg(t), reg(t)),
             iset(t, "ab") + " bool.a")
    for t in ("f32", "f64"):
        form("selp.%s %%d, %%a, %%b, %%c" % t, "%s %s pred > %s" % (t, t, t),
             fset(t, "ab") + " bool.a")
    for t in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"):
        form("slct.%s.s32 %%d, %%a, %%b, %%c" % t, "%s %s b32 > %s" % (reg(t), reg(t), reg(t)),
             iset(t, "ab") + " i32.u")
        form("slct.%s.f32 %%d, %%a, %%b, %%c" % t, "%s %s f32 > %s" % (reg(t), reg(t), reg(t)),
             iset(t, "ab") + " f32.u")
    for t in ("f32", "f64"):
        form("slct.%s.s32 %%d, %%a, %%b, %%c" % t, "%s %s b32 > %s" % (t, t, t),
             fset(t, "ab") + " i32.u")
        form("slct.ftz.%s.f32 %%d, %%a, %%b, %%c" % t, "%s %s f32 > %s" % (t, t, t),
             fset(t, "ab") + " f32.u")


# --------------------------------------------------------- f16, bf16, packed
def halves():
    for t in ("f16", "f16x2"):
        for op in ("add", "sub", "mul"):
            for rnd in ("", ".rn"):
                for ftz in ("", ".ftz"):
                    for sat in ("", ".sat"):
                        simple(op + rnd + ftz + sat + "." + t, t, 2, fset(t, "ab"))
        for ftz in ("", ".ftz"):
            for mod in ("", ".sat", ".relu"):
                simple("fma.rn" + ftz + mod + "." + t, t, 3, fset(t, "abc"))
            for op in ("neg", "abs"):
                simple(op + ftz + "." + t, t, 1, fset(t, "u"))
            for op in ("min", "max"):
                for mod in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                    simple(op + ftz + mod + "." + t, t, 2, fset(t, "ab"))
        simple("ex2.approx." + t, t, 1, fset(t, "u"), "ulp 2")
        simple("tanh.approx." + t, t, 1, fset(t, "u"), "ulp 2 abs 5e-4")
    for t in ("bf16", "bf16x2"):
        for op in ("add", "sub", "mul"):
            for rnd in ("", ".rn"):
                simple(op + rnd + "." + t, t, 2, fset(t, "ab"))
        for mod in ("", ".relu"):
            simple("fma.rn" + mod + "." + t, t, 3, fset(t, "abc"))
        for op in ("neg", "abs"):
            simple(op + "." + t, t, 1, fset(t, "u"))
        for op in ("min", "max"):
            for mod in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                simple(op + mod + "." + t, t, 2, fset(t, "ab"))
        simple("ex2.approx.ftz." + t, t, 1, fset(t, "u"), "ulp 2")
        simple("tanh.approx." + t, t, 1, fset(t, "u"), "ulp 2 abs 4e-3")
    for t in ("f16", "bf16"):
        for op in F_OPS:
            simple("setp.%s.%s" % (op, t), t, 2, fset(t, "ab"), out="pred")
            form("setp.%s.%sx2 %%d|%%e, %%a, %%b" % (op, t), "b32 b32 > pred pred",
                 fset(t + "x2", "ab"))
        for op in ("lt", "neu", "nan"):
            form("set.%s.%s.%s %%d, %%a, %%b" % (op, t, t), "b16 b16 > b16", fset(t, "ab"))
            form("set.%s.u32.%s %%d, %%a, %%b" % (op, t), "b16 b16 > b32", fset(t, "ab"))
            form("set.%s.%sx2.%sx2 %%d, %%a, %%b" % (op, t, t), "b32 b32 > b32",
                 fset(t + "x2", "ab"))
            form("set.%s.u32.%sx2 %%d, %%a, %%b" % (op, t), "b32 b32 > b32",
                 fset(t + "x2", "ab"))
    form("setp.lt.ftz.f16 %d, %a, %b", "b16 b16 > pred", "f16.a f16.b")


# -------------------------------------------------------------- conversions
INTS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


def wide_reg(t):
    """Registers of narrow values in cvt are 32 bits wide here."""
    return "b32" if SIZE[t] == 8 else reg(t)


def src_set(t):
    if t in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        return t + ".u"
    return "i%d.u" % (32 if SIZE[t] == 8 else SIZE[t])


def cvt(mods, dst, src, cls="exact"):
    form("cvt%s.%s.%s %%d, %%a" % (mods, dst, src), "%s > %s" % (wide_reg(src), wide_reg(dst)),
         src_set(src), cls)


def needs_sat(dst, src):
    """Whether dst cannot hold every value of src."""
    if dst[0] == src[0]:
        return SIZE[dst] < SIZE[src]
    if dst[0] == "u":
        return True
    return SIZE[dst] <= SIZE[src]


def conversions():
    for dst in INTS:
        for src in INTS:
            cvt("", dst, src)
            if needs_sat(dst, src):
                cvt(".sat", dst, src)
    for src in INTS:
        for rnd in ROUND:
            cvt("." + rnd, "f32", src)
            cvt("." + rnd, "f64", src)
            cvt("." + rnd, "f16", src)
        if SIZE[src] > 8:
            cvt(".rn", "bf16", src)
    cvt(".rz", "bf16", "s32")
    cvt(".rn.sat", "f32", "s32")
    for src in ("f32", "f64", "f16"):
        for dst in INTS:
            for rnd in ("rni", "rzi", "rmi", "rpi"):
                cvt("." + rnd, dst, src)
    for dst in INTS:
        if SIZE[dst] > 8:
            cvt(".rzi", dst, "bf16")
        cvt(".rzi.ftz", dst, "f32")
    for dst in ("s32", "u32"):
        cvt(".rni", dst, "bf16")
        cvt(".rzi.sat", dst, "f32")
        cvt(".rni.ftz.sat", dst, "f32")
    for rnd in ROUND:
        cvt("." + rnd, "f32", "f64")
        cvt("." + rnd, "f16", "f32")
        cvt("." + rnd, "f16", "f64")
        cvt("." + rnd, "bf16", "f64")
        cvt("." + rnd + ".ftz", "f32", "f64")
    cvt(".rn.sat", "f32", "f64")
    for mods in ("", ".ftz", ".sat", ".ftz.sat"):
        cvt(mods, "f32", "f16")
        cvt(mods, "f64", "f32")
    cvt("", "f32", "bf16")
    cvt("", "f64", "f16")
    cvt("", "f64", "bf16")
    cvt(".rn", "bf16", "f16")
    cvt(".rn", "f16", "bf16")
    cvt(".rn.sat", "f16", "f32")
    cvt(".rn.ftz", "f16", "f32")
    for rnd in ("rni", "rzi", "rmi", "rpi"):
        for t in ("f32", "f64", "f16", "bf16"):
            cvt("." + rnd, t, t)
        cvt("." + rnd + ".ftz", "f32", "f32")
    cvt(".sat", "f32", "f32")
    cvt(".sat", "f64", "f64")
    cvt(".sat", "f16", "f16")
    for mods in (".rn", ".rz", ".rn.relu", ".rz.relu"):
        cvt(mods, "bf16", "f32")
        if mods[-4:] == "relu":
            cvt(mods, "f16", "f32")
        for t in ("f16x2", "bf16x2"):
            form("cvt%s.%s.f32 %%d, %%a, %%b" % (mods, t), "f32 f32 > b32", "f32.u f32.b")
    for mods in (".rna", ".rn", ".rz", ".rn.relu", ".rz.relu"):
        form("cvt%s.tf32.f32 %%d, %%a" % mods, "f32 > b32", "f32.u")
    for t in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            form("cvt.rn.satfinite%s.%s.f32 %%d, %%a, %%b" % (relu, t), "f32 f32 > b16",
                 "f32.u f32.b")
            form("cvt.rn.satfinite%s.%s.f16x2 %%d, %%a" % (relu, t), "b32 > b16", "f16x2.u")
            form("cvt.rn%s.f16x2.%s %%d, %%a" % (relu, t), "b16 > b32", "i16.u")
    for t in ("u16", "s16"):
        form("cvt.pack.sat.%s.s32 %%d, %%a, %%b" % t, "b32 b32 > b32", "i32.u i32.b")
    for t in ("u8", "s8", "u4", "s4", "u2", "s2"):
        form("cvt.pack.sat.%s.s32.b32 %%d, %%a, %%b, %%c" % t, "b32 b32 b32 > b32",
             "i32.u i32.b i32.c")


# ------------------------------------------------------------------- moves
def moves():
    for t in ("b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"):
        simple("mov." + t, t, 1, iset(t, "u"))
    for t in ("f32", "f64"):
        simple("mov." + t, t, 1, fset(t, "u"))
    form("mov.pred %d, %a", "pred > pred", "bool.a")
    form("mov.b32 %d, {%a, %b};", "b16 b16 > b32", "i16.a i16.b", tag="pack2")
    form("mov.b32 {%d, %e}, %a", "b32 > b16 b16", "i32.u", tag="unpack2")
    form("{ .reg .b8 p, q, r, s; mov.b32 {p, q, r, s}, %a; mov.b32 %d, {s, r, q, p}; }",
         "b32 > b32", "i32.u", tag="bytes", name="mov.b32")
    form("mov.b64 %d, {%a, %b};", "b32 b32 > b64", "i32.a i32.b", tag="pack2")
    form("mov.b64 {%d, %e}, %a", "b64 > b32 b32", "i64.u", tag="unpack2")
    form("mov.b64 {_, %d}, %a", "b64 > b32", "i64.u", tag="sink")
    form("mov.b64 {%d, %e, %f, %g}, %a", "b64 > b16 b16 b16 b16", "i64.u", tag="unpack4")
    form("{ .reg .b16 h; cvt.u16.u32 h, %t; mov.b64 %d, {h, %a, %b, h}; }", "b16 b16 > b64",
         "i16.a i16.b", tag="pack4", name="mov.b64")
    form("{ .reg .b128 w; mov.b128 w, {%a, %b}; mov.b128 {%d, %e}, w; }", "b64 b64 > b64 b64",
         "i64.a i64.b", name="mov.b128")
    for t, imm in (("u32", "0xdeadbeef"), ("s32", "-5"), ("u64", "0x123456789abcdef0"),
                   ("s64", "-9223372036854775807"), ("u16", "65535"), ("f32", "0f3DCCCCCD"),
                   ("f32", "1.5"), ("f64", "0dC000000000000001"), ("f64", "-0.25"),
                   ("b32", "0b1011"), ("s32", "017"), ("u32", "(1 << 4) | 3"),
                   ("s32", "-(7 * 3) / 2"), ("u32", "10 > 3 ? 8 : 9")):
        form("mov.%s %%d, %s" % (t, imm), "> " + reg(t), None, tag="imm " + imm)
    # Not %warpid, %smid and the like: where a warp runs is nobody's promise.
    for sreg in ("tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z", "ctaid.x", "ctaid.y",
                 "nctaid.x", "nctaid.z", "laneid", "lanemask_eq", "lanemask_le",
                 "lanemask_lt", "lanemask_ge", "lanemask_gt", "dynamic_smem_size",
                 "cluster_ctaid.x", "cluster_nctaid.x", "cluster_ctarank", "cluster_nctarank",
                 "clusterid.x", "nclusterid.x"):
        form("mov.u32 %%d, %%%s" % sreg, "> b32", None, tag=sreg)
    form("mov.pred %d, %is_explicit_cluster", "> pred", None, tag="is_explicit_cluster")
    form("{ .reg .v4 .u32 v; mov.v4.u32 v, %tid; add.u32 %d, v.x, v.y; }", "> b32", None,
         name="mov.v4.u32", tag="tid")
    form("{ .reg .u64 p, q; mov.u64 p, %clock64; mov.u64 q, %clock64; setp.ge.u64 %d, q, p; }",
         "> pred", None, name="mov.u64", tag="clock64 grows")
    form("{ .reg .u64 p, q; mov.u64 p, %globaltimer; mov.u64 q, %globaltimer; "
         "setp.ge.u64 %d, q, p; }", "> pred", None, name="mov.u64", tag="globaltimer grows")
    form("{ .reg .u32 p, q; mov.u32 p, %clock; mov.u32 q, %clock; sub.u32 p, q, p; "
         "setp.lt.u32 %d, p, 100000; }", "> pred", None, name="mov.u32", tag="clock grows")
    form("{ .reg .u32 p, q; mov.u32 p, %smid; mov.u32 q, %nsmid; setp.lt.u32 %d, p, q; }",
         "> pred", None, name="mov.u32", tag="smid below nsmid")


# ------------------------------------------------------------------- memory
LD_TYPES = ("u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64",
            "f32", "f64")
FILL = {  # how a space's 16 bytes at `addr` get values that differ by thread
    "shared": ("sa", "{ .reg .u32 sa; mov.u32 sa, sbuf; mad.lo.u32 sa, %t, 32, sa; "
               "st.shared.v2.b64 [sa], {%a, %b}; ", "b64 b64", "i64.u i64.b"),
    "local": ("lbuf", "{ st.local.v2.b64 [lbuf], {%a, %b}; ", "b64 b64", "i64.u i64.b"),
    "global": ("%gp", "{ ", "", None),
    "const": ("ca", "{ .reg .u32 ca; mov.u32 ca, cbuf; and.b32 %t, %t, 15; "
              "shl.b32 %t, %t, 4; and.b32 %t, %t, 48; add.u32 ca, ca, %t; ", "", None),
    "param": ("blob", "{ ", "", None),
}


def ld_reg(t):
    return {"u8": "b32", "s8": "b32", "b8": "b32"}.get(t, reg(t))


def loads():
    for space, (addr, head, types, sets) in FILL.items():
        for t in LD_TYPES:
            form("%sld.%s.%s %%d, [%s]; }" % (head, space, t, addr),
                 (types + " > " + ld_reg(t)).strip(), sets, name="ld.%s.%s" % (space, t))
        for t, n in (("u8", 4), ("s8", 2), ("u16", 2), ("s16", 4), ("b32", 2), ("u32", 4),
                     ("f32", 4), ("u64", 2), ("f64", 2)):
            regs = ", ".join("%" + r for r in "defg"[:n])
            form("%sld.%s.v%d.%s {%s}, [%s]; }" % (head, space, n, t, regs, addr),
                 (types + " > " + " ".join([ld_reg(t)] * n)).strip(), sets,
                 name="ld.%s.v%d.%s" % (space, n, t))
    for t in ("u8", "s16", "f32", "u64"):
        form("ld.%s %%d, [%%gp+8];" % t, "> " + ld_reg(t), None, tag="generic global")
    head = "{ .reg .u64 ad; "
    store = "st.v2.b64 [ad], {%a, %b}; "
    for name, space in (("sbuf", "shared"), ("lbuf", "local")):
        mul = "mad.wide.u32 ad, %t, 32, ad; " if space == "shared" else ""
        form(head + "cvta.%s.u64 ad, %s; %s%sld.s8 %%d, [ad+3]; ld.v4.u32 {_, %%e, %%f, _}, [ad]; }"
             % (space, name, mul, store), "b64 b64 > b32 b32 b32", "i64.u i64.b", name="ld.s8",
             tag="generic " + space)
    form("{ .reg .u64 ad; mov.u64 ad, cbuf; cvta.const.u64 ad, ad; ld.u32 %d, [ad+4]; }", "> b32",
         None, name="ld.u32", tag="generic const")
    for op in ("ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu", "ld.global.cv",
               "ld.global.nc", "ld.global.nc.L1::no_allocate", "ld.global.L1::evict_last",
               "ld.global.L2::128B", "ld.volatile.global", "ld.weak.global",
               "ld.relaxed.cta.global", "ld.relaxed.gpu.global", "ld.relaxed.sys.global",
               "ld.relaxed.cluster.global", "ld.acquire.cta.global", "ld.acquire.gpu.global",
               "ld.acquire.sys.global", "ld.relaxed.gpu", "ld.acquire.gpu", "ld.volatile",
               "ldu.global", "ld.mmio.relaxed.sys.global"):
        form(op + ".u32 %d, [%gp]", "> b32", None)
    form("ld.global.nc.v4.f32 {%d, %e, %f, %g}, [%gp]", "> f32 f32 f32 f32", None)
    form("ld.global.nc.u8 %d, [%gp]", "> b32", None)
    form("{ .reg .b128 w; ld.global.b128 w, [%gp]; mov.b128 {%d, %e}, w; }", "> b64 b64", None,
         name="ld.global.b128")
    form("{ .reg .u64 p; cvta.to.global.u64 p, %gp; sub.u64 p, p, 64; ld.global.u32 %d, [p+64]; }",
         "> b32", None, name="ld.global.u32", tag="negative base")
    form("ld.global.u32 %d, [%gp+-0]", "> b32", None, tag="offset")
    form("{ .reg .u64 p; add.u64 p, %gp, 12; ld.global.u32 %d, [p+-12]; }", "> b32", None,
         name="ld.global.u32", tag="negative offset")


def stores():
    back = "ld.global.v2.b64 {%d, %e}, [%gp]; "
    for t in LD_TYPES:
        r = ld_reg(t)
        sets = fset(t, "u") if t in ("f32", "f64") else "i%d.u" % max(SIZE[r], 16)
        form("st.global.%s [%%gp+8], %%a; %s" % (t, back), r + " > b64 b64", sets)
    for t, n in (("u8", 4), ("b16", 2), ("b16", 4), ("b32", 2), ("u32", 4), ("f32", 4),
                 ("b64", 2), ("f64", 2)):
        r = ld_reg(t)
        if t in ("f32", "f64"):
            names = ["%s.%s" % (t, o) for o in "abcu"[:n]]
        else:
            names = ["i%d.%s" % (SIZE[r], o) for o in "abcu"[:n]]
        regs = ", ".join("%" + x for x in "abcx"[:n])
        form("st.global.v%d.%s [%%gp], {%s}; %s" % (n, t, regs, back),
             " ".join([r] * n) + " > b64 b64", " ".join(names))
    for space, addr, head in (("shared", "sa", "{ .reg .u32 sa; mov.u32 sa, sbuf; "
                               "mad.lo.u32 sa, %t, 32, sa; "), ("local", "lbuf", "{ ")):
        for t in ("u8", "s16", "u32", "b64", "f32", "f64"):
            r = ld_reg(t)
            sets = fset(t, "u") if t in ("f32", "f64") else "i%d.u" % SIZE[r]
            form("%sst.%s.v2.b64 [%s], {0, -1}; st.%s.%s [%s+8], %%a; ld.%s.v2.b64 {%%d, %%e}, "
                 "[%s]; }" % (head, space, addr, space, t, addr, space, addr),
                 r + " > b64 b64", sets, name="st.%s.%s" % (space, t))
        form("%sst.%s.v4.f32 [%s], {%%a, %%b, %%c, %%a}; ld.%s.v2.b64 {%%d, %%e}, [%s]; }"
             % (head, space, addr, space, addr), "f32 f32 f32 > b64 b64", "f32.a f32.b f32.c",
             name="st.%s.v4.f32" % space)
    for op in ("st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt", "st.volatile.global",
               "st.weak.global", "st.relaxed.cta.global", "st.relaxed.gpu.global",
               "st.relaxed.sys.global", "st.release.cta.global", "st.release.gpu.global",
               "st.release.sys.global", "st.release.gpu", "st.global.L1::evict_first", "st",
               "st.volatile"):
        form(op + ".u32 [%gp], %a; " + back, "b32 > b64 b64", "i32.u")
    form("{ .reg .b128 w; mov.b128 w, {%a, %b}; st.global.b128 [%gp], w; " + back + "}",
         "b64 b64 > b64 b64", "i64.u i64.b", name="st.global.b128")
    form("st.u8 [%gp+1], %a; " + back, "b32 > b64 b64", "i32.u", tag="generic global")
    form("prefetch.global.L1 [%gp]; ld.global.u32 %d, [%gp];", "> b32", None)
    form("prefetch.L2 [%gp]; ld.global.u32 %d, [%gp];", "> b32", None)
    form("prefetchu.L1 [%gp]; ld.global.u32 %d, [%gp];", "> b32", None)
    shared = "{ .reg .u32 sa; mov.u32 sa, sbuf; mad.lo.u32 sa, %t, 32, sa; "
    for n in (4, 8, 16):
        form(shared + "st.shared.v2.b64 [sa], {0, 0}; cp.async.ca.shared.global [sa], [%%gp], %d; "
             "cp.async.commit_group; cp.async.wait_group 0; ld.shared.v2.b64 {%%d, %%e}, [sa]; }" % n,
             "> b64 b64", None, name="cp.async.ca.shared.global", tag=str(n))
    form(shared + "st.shared.v2.b64 [sa], {-1, -1}; cp.async.cg.shared.global [sa], [%gp], 16; "
         "cp.async.wait_all; ld.shared.v2.b64 {%d, %e}, [sa]; }", "> b64 b64", None,
         name="cp.async.cg.shared.global", tag="16")
    form(shared + "st.shared.v2.b64 [sa], {-1, -1}; cp.async.ca.shared.global [sa], [%gp], 8, 4; "
         "cp.async.wait_all; ld.shared.v2.b64 {%d, %e}, [sa]; }", "> b64 b64", None,
         name="cp.async.ca.shared.global", tag="zero fill")


# ------------------------------------------------------------------ atomics
def atom_sets(t):
    """A finite start value for memory and operand values."""
    if t in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        return t + ".int", t + ".int2"
    size = SIZE[t]
    return "i%d.u" % size, "i%d.b" % size


def atom_own(op, t, space="global"):
    """Every thread on memory of its own: old value and result are exact."""
    r = reg(t)
    bits = SIZE[t]
    raw = "b%d" % bits if t not in ("f32", "f64") else t
    old, arg = atom_sets(t)
    if space == "shared":
        head = "{ .reg .u32 sa; mov.u32 sa, sbuf; mad.lo.u32 sa, %t, 32, sa; "
        addr, tail, st = "[sa]", " }", ".shared"
    else:
        head, addr, tail, st = "", "[%gp]", "", ".global"
    where = "" if space == "generic" else "." + space
    parts = op.split("|")
    name = "atom" + parts[0].replace("@", where)
    extra = ", %c" if ".cas" in name else ""
    types = "%s %s%s > %s %s" % (r, r, " " + r if extra else "", r, r)
    sets = "%s %s" % (old, arg)
    if extra:  # every other thread's compare value matches
        sets = "i%d.u i%d.u i%d.b" % (bits, bits, bits)
    form("%sst%s.%s %s, %%a; %s.%s %%d, %s, %%b%s; ld%s.%s %%e, %s;%s"
         % (head, st, raw, addr, name, t, addr, extra, st, raw, addr, tail),
         types, sets, name="%s.%s%s" % (name, t, "#generic" if space == "generic" else ""))


def atomics():
    for space in ("global", "shared"):
        for t in ("u32", "s32", "u64", "f32", "f64"):
            atom_own("@.add", t, space)
        for t in ("u32", "s32", "u64", "s64"):
            atom_own("@.min", t, space)
            atom_own("@.max", t, space)
        for t in ("b32", "b64"):
            for op in ("and", "or", "xor", "exch", "cas"):
                atom_own("@.%s" % op, t, space)
        for op in ("inc", "dec"):
            atom_own("@.%s" % op, "u32", space)
        atom_own("@.cas", "b16", space)
        for t in ("f16", "f16x2", "bf16", "bf16x2"):
            atom_own("@.add.noftz", t, space)
    for op in (".relaxed.cta@.add", ".relaxed.gpu@.add", ".relaxed.sys@.add", ".relaxed.cluster@.add",
               ".acquire.gpu@.add", ".release.gpu@.add", ".acq_rel.gpu@.add", ".acq_rel.cta@.add",
               ".acq_rel.sys@.add", "@.cta.add", "@.sys.add", "@.gpu.add"):
        atom_own(op, "u32")
    for op in (".relaxed.gpu@.cas", ".acquire.gpu@.cas", ".acq_rel.sys@.cas"):
        atom_own(op, "b32")
    atom_own(".acquire.gpu@.exch", "b32")
    atom_own(".release.gpu@.exch", "b32")
    for op, t in (("@.add", "u32"), ("@.add", "f32"), ("@.add", "f64"), ("@.cas", "b32"),
                  ("@.cas", "b64"), ("@.max", "s32"), ("@.exch", "b32"), ("@.and", "b32")):
        atom_own(op, t, "generic")
    form("{ .reg .b128 w, o; mov.b128 w, {%a, %b}; atom.global.exch.b128 o, [%gp], w; "
         "mov.b128 {%d, %e}, o; ld.global.v2.b64 {%f, %g}, [%gp]; }", "b64 b64 > b64 b64 b64 b64",
         "i64.u i64.b", name="atom.global.exch.b128")
    form("{ .reg .b128 w, c, o; ld.global.v2.b64 {%d, %e}, [%gp]; mov.b128 c, {%d, %e}; "
         "mov.b128 w, {%a, %b}; atom.global.cas.b128 o, [%gp], c, w; mov.b128 {%d, %e}, o; "
         "ld.global.v2.b64 {%f, %g}, [%gp]; }", "b64 b64 > b64 b64 b64 b64", "i64.u i64.b",
         name="atom.global.cas.b128")
    for t in ("u32", "s32", "u64", "f32", "f64"):
        red_all("add", t)
    for t in ("u32", "s32", "u64", "s64"):
        red_all("min", t)
        red_all("max", t)
    for t in ("b32", "b64"):
        for op in ("and", "or", "xor"):
            red_all(op, t)
    # With a limit of its own for each thread the order would decide.
    for op in ("inc", "dec"):
        form("st.global.b32 [%%gp], %%a; red.global.%s.u32 [%%gp], %%b; "
             "ld.global.b32 %%d, [%%gp];" % op, "b32 b32 > b32", "i32.u i32.b",
             name="red.global.%s.u32" % op)
    for t in ("f16x2", "bf16x2", "f16", "bf16"):
        red_all("add.noftz", t)
    red_all("add", "u32", "shared")
    red_all("add", "f32", "shared")
    red_all("max", "s32", "shared")
    red_all("or", "b32", "shared")
    for op in ("red.relaxed.gpu.global.add.u32", "red.release.gpu.global.add.u32",
               "red.relaxed.cta.global.add.u32", "red.release.sys.global.add.u32", "red.add.u32"):
        form("%s [%%gp], %%a; ld.global.u32 %%d, [%%gp];" % op, "b32 > b32", "i32.u")
    form("st.global.v4.f32 [%gp], {%a, %b, %a, %b}; red.global.v4.f32.add [%gp], {%b, %b, %a, %a}; "
         "ld.global.v4.f32 {%d, %e, %f, %g}, [%gp];", "f32 f32 > f32 f32 f32 f32",
         "f32.int f32.int2", name="red.global.v4.f32.add")
    form("st.global.v2.f32 [%gp], {%a, %b}; atom.global.v2.f32.add {%d, %e}, [%gp], {%b, %b}; "
         "ld.global.v2.f32 {%f, %g}, [%gp];", "f32 f32 > f32 f32 f32 f32",
         "f32.int f32.int2", name="atom.global.v2.f32.add")
    form("{ .reg .pred p; .reg .u32 o; setp.eq.u32 p, %t, 0; @p st.global.u32 [%gs], 0; "
         "bar.sync 0; atom.global.inc.u32 o, [%gs], 9; bar.sync 0; ld.global.u32 %d, [%gs]; }",
         "> b32", None, name="atom.global.inc.u32", tag="contended")
    form("{ .reg .pred p; .reg .u32 o, n; setp.eq.u32 p, %t, 0; @p st.global.u32 [%gs], 0; "
         "bar.sync 0; ld.volatile.global.u32 o, [%gs]; CASLOOP: add.u32 n, o, %a; "
         "atom.global.cas.b32 n, [%gs], o, n; setp.ne.u32 p, n, o; mov.u32 o, n; @p bra CASLOOP; "
         "bar.sync 0; ld.global.u32 %d, [%gs]; }", "b32 > b32", "i32.u",
         name="atom.global.cas.b32", tag="loop")


def red_all(op, t, space="global"):
    """All threads on one word: only the end value is compared."""
    r = reg(t)
    raw = "b%d" % SIZE[t] if t not in ("f32", "f64") else t
    sets = t + ".int" if t[0] == "f" or t[:2] == "bf" else "i%d.u" % SIZE[t]
    addr = "[%gs]" if space == "global" else "[sbuf]"
    zero = {"f32": "0f00000000", "f64": "0d0000000000000000"}.get(t, "5")
    if t in ("f16", "bf16", "f16x2", "bf16x2"):
        zero = "0"
    if SIZE[t] == 16:
        init = ".reg .b16 z; mov.b16 z, 0; "
        zero = "z"
    else:
        init = ""
    form("{ .reg .pred p; %ssetp.eq.u32 p, %%t, 0; @p st.%s.%s %s, %s; bar.sync 0; "
         "red.%s.%s.%s %s, %%a; bar.sync 0; ld.%s.%s %%d, %s; }"
         % (init, space, raw, addr, zero, space, op, t, addr, space, raw, addr),
         r + " > " + r, sets, name="red.%s.%s.%s" % (space, op, t))


# --------------------------------------------------------------- warp forms
def warps():
    for mode, c in (("up", "0"), ("down", "31"), ("bfly", "31"), ("idx", "31")):
        form("shfl.sync.%s.b32 %%d|%%e, %%a, %%b, %s, -1;" % (mode, c), "b32 b32 > b32 pred",
             "i32.u lane", tag="lane in register")
        for delta in (1, 4, 16):
            form("shfl.sync.%s.b32 %%d|%%e, %%a, %d, %s, -1;" % (mode, delta, c),
                 "b32 > b32 pred", "i32.u", tag=str(delta))
        seg = "0x1800" if mode == "up" else "0x181f"
        form("shfl.sync.%s.b32 %%d|%%e, %%a, 3, %s, -1;" % (mode, seg), "b32 > b32 pred",
             "i32.u", tag="width 8")
    form("shfl.sync.idx.b32 %d, %a, %b, 0x1c03, -1;", "b32 b32 > b32", "i32.u lane",
         tag="width 4")
    form("{ .reg .pred p; mov.u32 %d, 0; and.b32 %t, %t, 31; setp.lt.u32 p, %t, 16; "
         "@p shfl.sync.bfly.b32 %d, %a, 5, 31, 0xffff; }", "b32 > b32", "i32.u",
         name="shfl.sync.bfly.b32", tag="half warp")
    for mode in ("all", "any", "uni"):
        form("{ .reg .pred p; setp.ne.u32 p, %%a, 0; vote.sync.%s.pred %%d, p, -1; }" % mode,
             "b32 > pred", "bool.a", name="vote.sync.%s.pred" % mode)
        form("{ .reg .pred p; setp.lt.u32 p, %%t, 32; vote.sync.%s.pred %%d, !p, -1; }" % mode,
             "> pred", None, name="vote.sync.%s.pred" % mode, tag="uniform")
    form("vote.sync.ballot.b32 %d, %a, -1;", "pred > b32", "bool.a")
    form("{ .reg .pred p; .reg .u32 l; mov.u32 %d, 0; mov.u32 l, %laneid; setp.ge.u32 p, l, 20; "
         "@p vote.sync.ballot.b32 %d, %a, 0xfff00000; }", "pred > b32", "bool.a",
         name="vote.sync.ballot.b32", tag="part of warp")
    form("match.any.sync.b32 %d, %a, -1;", "b32 > b32", "four")
    form("{ .reg .u64 w; cvt.u64.u32 w, %a; shl.b64 w, w, 33; match.any.sync.b64 %d, w, -1; }",
         "b32 > b32", "four", name="match.any.sync.b64")
    form("match.all.sync.b32 %d|%e, %a, -1;", "b32 > b32 pred", "four")
    form("{ shr.u32 %t, %t, 5; match.all.sync.b32 %d|%e, %t, -1; }", "> b32 pred", None,
         name="match.all.sync.b32", tag="equal")
    form("{ .reg .u64 w; cvt.u64.u32 w, %a; match.all.sync.b64 %d|%e, w, -1; }",
         "b32 > b32 pred", "four", name="match.all.sync.b64")
    for op in ("add", "min", "max"):
        for t in ("u32", "s32"):
            form("redux.sync.%s.%s %%d, %%a, -1;" % (op, t), "b32 > b32", "i32.u")
    for op in ("and", "or", "xor"):
        form("redux.sync.%s.b32 %%d, %%a, -1;" % op, "b32 > b32", "i32.u")
    form("activemask.b32 %d;", "> b32", None)
    form("{ .reg .pred p; and.b32 %t, %t, 31; setp.lt.u32 p, %t, 7; mov.u32 %d, 99; "
         "@!p bra AMEND; activemask.b32 %d; AMEND: bar.warp.sync -1; }", "> b32", None,
         name="activemask.b32", tag="diverged")
    form("{ .reg .u32 l; elect.sync l|%d, -1; }", "> pred", None, name="elect.sync")
    form("{ .reg .u32 sa; mov.u32 sa, sbuf; mad.lo.u32 sa, %t, 4, sa; st.shared.u32 [sa], %a; "
         "bar.warp.sync 0xffffffff; xor.b32 %t, %t, 1; mov.u32 sa, sbuf; mad.lo.u32 sa, %t, 4, sa; "
         "ld.shared.u32 %d, [sa]; }", "b32 > b32", "i32.u", name="bar.warp.sync")


def barriers():
    swap = ("{ .reg .u32 sa; mov.u32 sa, sbuf; mad.lo.u32 sa, %%t, 4, sa; st.shared.u32 [sa], %%a; "
            "%s sub.u32 %%t, 63, %%t; mov.u32 sa, sbuf; mad.lo.u32 sa, %%t, 4, sa; "
            "ld.shared.u32 %%d, [sa]; }")
    for op in ("bar.sync 0;", "bar.sync 3;", "bar.sync 2, 64;", "barrier.sync 0;",
               "barrier.sync.aligned 1, 64;", "bar.cta.sync 0;", "barrier.cta.sync 5;",
               "barrier.cluster.arrive; barrier.cluster.wait;"):
        form(swap % op, "b32 > b32", "i32.u", name=op.split(";")[0])
    form("{ .reg .pred p; .reg .u32 sa; mov.u32 sa, sbuf; mad.lo.u32 sa, %t, 4, sa; "
         "setp.lt.u32 p, %t, 32; mov.u32 %d, 0; @!p bra CONSUME; st.shared.u32 [sa], %a; "
         "bar.arrive 1, 64; bra OVER; CONSUME: bar.sync 1, 64; ld.shared.u32 %d, [sa+-128]; "
         "OVER: bar.sync 0; }", "b32 > b32", "i32.u", name="bar.arrive")
    for op in ("and", "or"):
        form("bar.red.%s.pred %%d, 0, %%a;" % op, "pred > pred", "bool.a")
        form("{ .reg .pred p; setp.lt.u32 p, %%t, 64; bar.red.%s.pred %%d, 0, !p; }" % op,
             "> pred", None, name="bar.red.%s.pred" % op, tag="uniform")
    form("bar.red.popc.u32 %d, 0, %a;", "pred > b32", "bool.a")
    form("barrier.red.popc.u32 %d, 1, 64, %a;", "pred > b32", "bool.a")
    for op in ("membar.cta", "membar.gl", "membar.sys", "fence.sc.cta", "fence.sc.gpu",
               "fence.sc.sys", "fence.acq_rel.cta", "fence.acq_rel.gpu", "fence.acq_rel.sys",
               "fence.acq_rel.cluster", "fence.proxy.alias", "fence.proxy.async",
               "nanosleep.u32 100", "griddepcontrol.launch_dependents", "griddepcontrol.wait",
               "fence.mbarrier_init.release.cluster"):
        form("st.global.u32 [%%gp], %%a; %s; ld.global.u32 %%d, [%%gp];" % op, "b32 > b32",
             "i32.u", name=op)
    bar = "{ .reg .u64 st; .reg .pred p; .shared .align 8 .b64 mb; setp.eq.u32 p, %t, 0; "
    form(bar + "@p mbarrier.init.shared.b64 [mb], 64; bar.sync 0; "
         "mbarrier.arrive.shared.b64 st, [mb]; MBWAIT: mbarrier.test_wait.shared.b64 p, [mb], st; "
         "@!p bra MBWAIT; selp.u32 %d, 1, 0, p; }", "> b32", None, name="mbarrier.test_wait.shared.b64")
    form(bar + "@p mbarrier.init.shared::cta.b64 [mb], 64; bar.sync 0; "
         "mbarrier.arrive.shared::cta.b64 st, [mb]; "
         "MBTRY: mbarrier.try_wait.parity.shared::cta.b64 p, [mb], 0; @!p bra MBTRY; "
         "bar.sync 0; setp.eq.u32 p, %t, 0; @p mbarrier.inval.shared::cta.b64 [mb]; mov.u32 %d, 7; }",
         "> b32", None, name="mbarrier.try_wait.parity.shared::cta.b64")


def addresses():
    spaces = (("%gp", ""), ("sg", "cvta.shared.u64 sg, sbuf; "), ("sg", "cvta.local.u64 sg, lbuf; "),
              ("sg", "mov.u64 sg, cbuf; cvta.const.u64 sg, sg; "))
    for test in ("global", "shared", "local", "const", "param", "shared::cta", "shared::cluster"):
        text = "{ .reg .u64 sg; .reg .pred p; mov.u32 %d, 0; "
        for i, (addr, make) in enumerate(spaces):
            text += ("%sisspacep.%s p, %s; @p or.b32 %%d, %%d, %d; " % (make, test, addr, 1 << i))
        form(text + "}", "> b32", None, name="isspacep." + test)
    for space, arr in (("shared", "sbuf"), ("local", "lbuf"), ("const", "cbuf"), ("global", "gbuf")):
        form("{ .reg .u64 p, q, r; mov.u64 r, %s; cvta.%s.u64 p, r; cvta.to.%s.u64 q, p; "
             "setp.eq.u64 %%d, q, r; }" % (arr, space, space), "> pred", None,
             name="cvta.to.%s.u64" % space)
    form("{ .reg .u64 p; cvta.param.u64 p, blob; ld.u32 %d, [p+4]; }", "> b32", None,
         name="cvta.param.u64")
    form("{ .reg .u64 p, q; mov.u64 p, sbuf; mov.u64 q, sbuf+16; sub.u64 %d, q, p; }", "> b64", None,
         name="mov.u64", tag="address plus offset")
    form("{ .reg .u32 r; mapa.shared::cluster.u32 r, sbuf, 0; st.shared.u32 [sbuf], 0x1234; "
         "bar.sync 0; ld.shared::cluster.u32 %d, [r]; getctarank.shared::cluster.u32 %e, r; }",
         "> b32 b32", None, name="mapa.shared::cluster.u32")


# ----------------------------------------------------------------- control
def control():
    form("{ .reg .pred p; setp.lt.s32 p, %a, %b; mov.u32 %d, 1; @p bra BRA1; mov.u32 %d, 2; BRA1: }",
         "b32 b32 > b32", "i32.a i32.b", name="bra")
    form("{ .reg .pred p; setp.lt.s32 p, %a, %b; mov.u32 %d, 1; @!p mov.u32 %d, 2; "
         "@p add.u32 %d, %d, 6; }", "b32 b32 > b32", "i32.a i32.b", name="guard")
    form("{ .reg .pred p; .reg .u32 i; mov.u32 i, 0; mov.u32 %d, 0; LOOP1: setp.ge.u32 p, i, %a; "
         "@p bra DONE1; mad.lo.u32 %d, %d, 3, i; add.u32 i, i, 1; bra.uni LOOP1; DONE1: }",
         "b32 > b32", "count", name="bra", tag="loop")
    form("{ .reg .pred p; .reg .b32 q; mov.u32 %d, 0; NEST0: setp.eq.u32 p, %a, 0; @p bra NEST3; "
         "and.b32 q, %a, 1; setp.eq.u32 p, q, 0; @p bra NEST1; add.u32 %d, %d, 10; bra NEST2; "
         "NEST1: add.u32 %d, %d, 1; NEST2: sub.u32 %a, %a, 1; bra NEST0; NEST3: }",
         "b32 > b32", "count", name="bra", tag="nested")
    form("{ BT: .branchtargets B0, B1, B2, B3; brx.idx %a, BT; B0: mov.u32 %d, 100; bra BE; "
         "B1: mov.u32 %d, 200; bra BE; B2: mov.u32 %d, 300; bra BE; B3: mov.u32 %d, 400; BE: }",
         "b32 > b32", "four", name="brx.idx")
    form(".func (.reg .u32 r) call_twice (.reg .u32 x) { add.u32 r, x, x; ret; } :: "
         "call (%d), call_twice, (%a);", "b32 > b32", "i32.u", name="call", tag="registers")
    form(".func (.param .b32 r) call_param (.param .b32 x, .param .b64 y) { .reg .u32 a; .reg .u64 b; "
         "ld.param.u32 a, [x]; ld.param.u64 b, [y]; cvt.u32.u64 a, b; st.param.b32 [r], a; ret; } :: "
         "{ .param .b32 pr; .param .b32 px; .param .b64 py; st.param.b32 [px], %a; "
         "st.param.b64 [py], %b; call.uni (pr), call_param, (px, py); ld.param.b32 %d, [pr]; }",
         "b32 b64 > b32", "i32.u i64.u", name="call.uni", tag="params")
    form(".func (.param .align 16 .b8 r[16]) call_struct (.param .align 16 .b8 x[16]) { "
         ".reg .b64 a<3>; ld.param.v2.b64 {a0, a1}, [x]; add.u64 a0, a0, 1; "
         "st.param.v2.b64 [r], {a1, a0}; ret; } :: { .param .align 16 .b8 pr[16]; "
         ".param .align 16 .b8 px[16]; st.param.v2.b64 [px], {%a, %b}; "
         "call.uni (pr), call_struct, (px); ld.param.v2.b64 {%d, %e}, [pr]; }",
         "b64 b64 > b64 b64", "i64.u i64.b", name="call.uni", tag="struct")
    form(".func (.reg .u32 r) call_fact (.reg .u32 x) { .reg .pred p; .reg .u32 y, z; "
         "setp.le.u32 p, x, 1; @p bra FACTBASE; sub.u32 y, x, 1; call (z), call_fact, (y); "
         "mul.lo.u32 r, z, x; ret; FACTBASE: mov.u32 r, 1; ret; } :: call (%d), call_fact, (%a);",
         "b32 > b32", "count", name="call", tag="recursion")
    form(".func (.reg .u32 r) call_ind1 (.reg .u32 x) { add.u32 r, x, 11; ret; } "
         ".func (.reg .u32 r) call_ind2 (.reg .u32 x) { mul.lo.u32 r, x, 5; ret; } :: "
         "{ .reg .u64 p, q; .reg .pred c; CPROTO: .callprototype (.reg .u32 _) _ (.reg .u32 _); "
         "mov.u64 p, call_ind1; mov.u64 q, call_ind2; and.b32 %t, %t, 1; setp.eq.u32 c, %t, 0; "
         "@c mov.u64 p, q; call (%d), p, (%a), CPROTO; }", "b32 > b32", "i32.u",
         name="call", tag="indirect")
    form(".func (.reg .u32 r) call_ret (.reg .u32 x) { .reg .pred p; mov.u32 r, 5; "
         "setp.gt.u32 p, x, 3; @p ret; mov.u32 r, 6; ret.uni; } :: call (%d), call_ret, (%a);",
         "b32 > b32", "count", name="ret", tag="guarded")
    form("{ .reg .pred p; st.global.u32 [%gp], 1; setp.gt.u32 p, %a, 4; @p bra GOON; "
         "GOON: ld.global.u32 %d, [%gp]; }", "b32 > b32", "count", name="bra", tag="empty")
    form(".global .align 4 .u32 init_arr[4] = {1, 0x22, 333}; .global .align 8 .u64 "
         "init_ptr[2] = {generic(init_arr), generic(init_arr)+8}; .global .align 4 .f32 init_f[2] = "
         "{0f3F800000, 2.5}; .const .align 2 .u16 init_c[3] = {1, 2, 65535}; :: "
         "{ .reg .u64 p; .reg .u16 h; ld.global.u64 p, [init_ptr+8]; ld.u32 %d, [p]; "
         "ld.global.u32 %e, [init_arr+12]; ld.global.u32 %f, [init_f+4]; "
         "ld.const.u16 h, [init_c+4]; cvt.u32.u16 %g, h; }", "> b32 b32 b32 b32", None,
         name=".global", tag="initialised")
    form("{ .reg .u32 v<4>; mov.u32 v3, %a; add.u32 v0, v3, 1; mov.u32 %d, v0; }", "b32 > b32",
         "i32.u", name=".reg", tag="range")
    form("{ .pragma \"nounroll\"; mov.u32 %d, %a; }", "b32 > b32", "i32.u", name=".pragma")
    form("{ .reg .u64 s, p; stacksave.u64 s; alloca.u64 p, 32; cvta.local.u64 p, p; "
         "st.u32 [p], %a; ld.u32 %d, [p]; stackrestore.u64 s; }", "b32 > b32", "i32.u",
         name="alloca.u64")


# ----------------------------------------------------------------- matrices
def matrices():
    ones = "{ .reg .b32 h<4>; .reg .f32 z; mov.f32 z, 0f00000000; "
    form(ones + "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d, %e, %f, %g}, "
         "{%a, %b, %a, %b}, {%b, %a}, {z, z, z, z}; }", "b32 b32 > f32 f32 f32 f32",
         "f16x2.int f16x2.int2", name="mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    form(ones + "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%d, %e, %f, %g}, "
         "{%a, %b, %a, %b}, {%b, %a}, {z, z, z, z}; }", "b32 b32 > f32 f32 f32 f32",
         "bf16x2.int bf16x2.int2", name="mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    form(ones + "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%d, %e, %f, %g}, "
         "{%a, %b, %a, %b}, {%b, %a}, {z, z, z, z}; }", "b32 b32 > f32 f32 f32 f32",
         "f32.int f32.int2", name="mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
    form("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%d, %e, %f, %g}, {%a, %b, %a, %b}, "
         "{%b, %a}, {%a, %b, %a, %b};", "b32 b32 > b32 b32 b32 b32", "i32.u i32.b")
    form("{ .reg .f64 z; mov.f64 z, 0d0000000000000000; "
         "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d, %e}, {%a}, {%b}, {z, z}; }",
         "f64 f64 > f64 f64", "f64.int f64.int2",
         name="mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64")
    lds = ("{ .reg .u32 sa; mov.u32 sa, sbuf; mad.lo.u32 sa, %t, 16, sa; "
           "st.shared.v2.b64 [sa], {%a, %b}; bar.sync 0; ")
    form(lds + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%d, %e, %f, %g}, [sa]; }",
         "b64 b64 > b32 b32 b32 b32", "i64.u i64.b", name="ldmatrix.sync.aligned.m8n8.x4.shared.b16")
    form(lds + "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%d}, [sa]; }", "b64 b64 > b32",
         "i64.u i64.b", name="ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16")
    form("movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;", "b32 > b32", "i32.u")
    matrix_shapes()
    matrix_sums()
    matrix_moves()
    wmma()


def regs(count, kind):
    words = ["%a", "%b"] if kind == "a" else ["%b", "%a"]
    return "{" + ", ".join(words[k % 2] for k in range(count)) + "}"


def mma(shape, types, na, nb, nd, sets, tag=None, mods="", tail="", acc=None, cls="exact"):
    """d = a * b + c, c being the inputs again (or registers `acc`)."""
    out = "f64" if types[0] == "f64" else "f32" if types[0] == "f32" else "b32"
    src = "f64" if types[1] == "f64" else "b32"
    op = "mma.sync.aligned.%s.row.col%s.%s%s" % (shape, mods, ".".join(types), tail)
    dst = "{" + ", ".join("%" + r for r in "defg"[:nd]) + "}"
    add = acc or "{" + ", ".join(["%a", "%b", "%b", "%a"][:nd]) + "}"
    form("%s %s, %s, %s, %s;" % (op, dst, regs(na, "a"), regs(nb, "b"), add),
         "%s %s > %s" % (src, src, " ".join([out] * nd)), sets, cls, tag=tag, name=op)


def matrix_shapes():
    """Every shape and type, on small integers: where each element is."""
    half, bf, single = "f16x2.int f16x2.int2", "bf16x2.int bf16x2.int2", "f32.int f32.int2"
    zero = "{0f00000000, 0f3F800000, 0fC0000000, 0f00000000}"
    mma("m16n8k8", ("f32", "f16", "f16", "f32"), 2, 1, 4, half, acc=zero)
    mma("m16n8k8", ("f16", "f16", "f16", "f16"), 2, 1, 2, half)
    mma("m16n8k16", ("f16", "f16", "f16", "f16"), 4, 2, 2, half)
    mma("m16n8k8", ("f32", "bf16", "bf16", "f32"), 2, 1, 4, bf, acc=zero)
    mma("m16n8k4", ("f32", "tf32", "tf32", "f32"), 2, 1, 4, single, acc=zero)
    for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3")):
        mma("m16n8k32", ("f32", a, b, "f32"), 4, 2, 4, "i32.u i32.b", acc=zero)
    for shape, na, nb, nd in (("m8n8k16", 1, 1, 2), ("m16n8k16", 2, 1, 4), ("m16n8k32", 4, 2, 4)):
        for a, b, mods in (("s8", "u8", ""), ("u8", "u8", ".satfinite")):
            mma(shape, ("s32", a, b, "s32"), na, nb, nd, "i32.u i32.b", mods=mods)
    for shape, na, nb, nd in (("m8n8k32", 1, 1, 2), ("m16n8k32", 2, 1, 4), ("m16n8k64", 4, 2, 4)):
        for a, b in (("s4", "s4"), ("u4", "s4")):
            mma(shape, ("s32", a, b, "s32"), na, nb, nd, "i32.u i32.b")
    for shape, na, nb, nd in (("m8n8k128", 1, 1, 2), ("m16n8k128", 2, 1, 4), ("m16n8k256", 4, 2, 4)):
        for op in (".xor.popc", ".and.popc"):
            mma(shape, ("s32", "b1", "b1", "s32"), na, nb, nd, "i32.u i32.b", tail=op)
    for shape, na, nb in (("m16n8k4", 2, 1), ("m16n8k8", 4, 2), ("m16n8k16", 8, 4)):
        mma(shape, ("f64",) * 4, na, nb, 4, "f64.int f64.int2")


def matrix_sums():
    """Sums that are not exact, and values that are no numbers."""
    zero, tenth = "{0f00000000, 0f00000000, 0f00000000, 0f00000000}", "{0f3DCCCCCD, 0fBDCCCCCD, 0f42C80001, 0f4B000001}"
    for t, bits in (("f16", "f16x2"), ("bf16", "bf16x2")):
        for sets, tag in (("sum", "sums"), ("u", "specials")):
            pair = "%s.%s %s.%s" % (bits, sets, bits, "sum2" if sets == "sum" else "b")
            types = ("f32", t, t, "f32")
            mma("m16n8k16", types, 4, 2, 4, pair, tag, acc=zero)
            mma("m16n8k16", types, 4, 2, 4, pair, tag + " added", acc=tenth)
            mma("m16n8k8", types, 2, 1, 4, pair, tag, acc=tenth)
    for sets, tag in (("f16x2.sum f16x2.sum2", "sums"), ("f16x2.u f16x2.b", "specials")):
        mma("m16n8k16", ("f16",) * 4, 4, 2, 2, sets, tag)
        mma("m16n8k8", ("f16",) * 4, 2, 1, 2, sets, tag)
    for sets, tag in (("f32.sum f32.sum2", "sums"), ("f32.u f32.b", "specials")):
        mma("m16n8k8", ("f32", "tf32", "tf32", "f32"), 4, 2, 4, sets, tag, acc=tenth)
        mma("m16n8k4", ("f32", "tf32", "tf32", "f32"), 2, 1, 4, sets, tag, acc=tenth)
    # Which of several NaNs is passed on, the ISA leaves open.
    for sets, tag, cls in (("f64.sum f64.sum2", "sums", "exact"), ("f64.u f64.b", "specials", "ulp 0")):
        mma("m8n8k4", ("f64",) * 4, 1, 1, 2, sets, tag, cls=cls)
        mma("m16n8k16", ("f64",) * 4, 8, 4, 4, sets, tag, cls=cls)
    for a in ("e4m3", "e5m2"):
        mma("m16n8k32", ("f32", a, a, "f32"), 4, 2, 4, "i32.a i32.c", "sums", acc=tenth)


def matrix_moves():
    put = ("{ .reg .u32 sa; mov.u32 sa, sbuf; mad.lo.u32 sa, %t, 16, sa; "
           "st.shared.v2.b64 [sa], {%a, %b}; bar.sync 0; ")
    names = ("%d", "%e", "%f", "%g")
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            op = "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16" % (count, trans)
            if op not in NAMES:
                form("%s%s {%s}, [sa]; }" % (put, op, ", ".join(names[:count])),
                     "b64 b64 > " + " ".join(["b32"] * count), "i64.u i64.b", name=op)
            op = "stmatrix.sync.aligned.m8n8.x%d%s.shared.b16" % (count, trans)
            form("%s%s [sa], {%s}; bar.sync 0; ld.shared.v2.b64 {%%d, %%e}, [sa]; }" %
                 (put.replace("{ ", "{ .reg .u32 l, m, n, o; cvt.u32.u64 l, %a; cvt.u32.u64 m, %b; "
                              "add.u32 n, l, 1; xor.b32 o, l, m; ", 1), op,
                  ", ".join("lmno"[:count])), "b64 b64 > b64 b64", "i64.u i64.b", name=op)
    form("{ .reg .u64 ga; cvta.shared.u64 ga, sbuf; mad.wide.u32 ga, %t, 16, ga; "
         "st.v2.b64 [ga], {%a, %b}; bar.sync 0; "
         "ldmatrix.sync.aligned.m8n8.x2.b16 {%d, %e}, [ga+0]; }", "b64 b64 > b32 b32",
         "i64.u i64.b", name="ldmatrix.sync.aligned.m8n8.x2.b16")


def wmma_row(shape, kind, layouts, count, sets, out="f32", op="", tag=None):
    """Loads, multiplies, stores; each warp in a half of sbuf."""
    a, b, c, stride = count
    al, bl = layouts
    types = "f32.f32" if kind == "f16" else "%s.%s.%s.%s" % (out, kind, kind, out)
    if kind == "f16" and out == "f16":
        types = "f16.f16"
    word = {"f64": "b64"}.get(kind, "b32")
    cword = {"f64": "b64", "f32": "f32"}.get(out, "b32")

    def frag(r, n):
        return "{" + ", ".join("%s%d" % (r, k) for k in range(n)) + "}"
    fill = "st.shared.v2.b64 [la], {%a, %b}; st.shared.v2.b64 [la+512], {%b, %a};" \
        if word == "b64" else \
        "st.shared.v4.b32 [la], {%a, %b, %b, %a}; st.shared.v4.b32 [la+512], {%b, %a, %b, %b};"
    setup = "".join("mov.%s C%d, %s; " % (cword, k, {"f32": "0f3F800000", "f64": "0"}.get(out, "0"))
                    for k in range(c))
    body = (
        "{ .reg .u32 sa, la, l; .reg .%s A<%d>, B<%d>; .reg .%s C<%d>, D<%d>; "
        "mov.u32 sa, sbuf; and.b32 l, %%t, 32; mad.lo.u32 sa, l, 64, sa; and.b32 l, %%t, 31; "
        "mad.lo.u32 la, l, 16, sa; %s bar.sync 0; %s"
        "wmma.load.a.sync.aligned.%s.%s.shared.%s %s, [sa], %d; "
        "wmma.load.b.sync.aligned.%s.%s.shared.%s %s, [sa+512], %d; "
        "wmma.mma%s.sync.aligned.%s.%s.%s.%s %s, %s, %s, %s; bar.sync 0; "
        "wmma.store.d.sync.aligned.row.%s.shared.%s [sa], %s, %d; bar.sync 0; "
        "mad.lo.u32 la, l, 16, la; ld.shared.v2.b64 {%%d, %%e}, [la]; "
        "ld.shared.v2.b64 {%%f, %%g}, [la+16]; }" %
        (word, a, b, cword, c, c, fill, setup,
         al, shape, kind, frag("A", a), stride[0], bl, shape, kind, frag("B", b), stride[1],
         op, al, bl, shape, types, frag("D", c), frag("A", a), frag("B", b), frag("C", c),
         shape, out, frag("D", c), stride[2]))
    source = "f64 f64" if kind == "f64" else "b32 b32"
    form(body, source + " > b64 b64 b64 b64", sets, tag=tag,
         name="wmma%s.%s.%s.%s.%s" % (op, al, bl, shape, types))


def wmma():
    half, bf, single = "f16x2.int f16x2.int2", "bf16x2.int bf16x2.int2", "f32.int f32.int2"
    for al, bl in (("row", "col"), ("col", "row")):
        lay = (al, bl)
        wmma_row("m16n16k16", "f16", lay, (8, 8, 8, (16, 16, 16)), half)
        wmma_row("m16n16k16", "bf16", lay, (4, 4, 8, (16, 16, 16)), bf)
        wmma_row("m16n16k8", "tf32", lay, (4, 4, 8, (16, 16, 16)), single)
        wmma_row("m16n16k16", "s8", lay, (2, 2, 8, (16, 16, 16)), "i32.u i32.b", "s32")
    wmma_row("m16n16k16", "f16", ("row", "row"), (8, 8, 4, (16, 16, 16)), half, "f16")
    wmma_row("m32n8k16", "f16", ("row", "col"), (8, 8, 8, (16, 16, 8)), half)
    wmma_row("m8n32k16", "f16", ("row", "row"), (8, 8, 8, (16, 32, 32)), half)
    wmma_row("m32n8k16", "u8", ("row", "col"), (4, 1, 8, (16, 16, 8)), "i32.u i32.b", "s32")
    wmma_row("m8n32k16", "s8", ("row", "col"), (1, 4, 8, (16, 16, 32)), "i32.u i32.b", "s32")
    wmma_row("m8n8k4", "f64", ("row", "col"), (1, 1, 2, (4, 4, 8)), "f64.int f64.int2", "f64")
    wmma_row("m8n8k32", "s4", ("row", "col"), (1, 1, 2, (32, 32, 8)), "i32.u i32.b", "s32")
    wmma_row("m8n8k32", "u4", ("row", "col"), (1, 1, 2, (32, 32, 8)), "i32.u i32.b", "s32")
    wmma_row("m8n8k128", "b1", ("row", "col"), (1, 1, 2, (128, 128, 8)), "i32.u i32.b", "s32",
             ".xor.popc")
    wmma_row("m16n16k16", "f16", ("row", "col"), (8, 8, 8, (16, 16, 16)), "f16x2.sum f16x2.sum2",
             tag="sums")
    wmma_row("m16n16k16", "bf16", ("row", "col"), (4, 4, 8, (16, 16, 16)),
             "bf16x2.sum bf16x2.sum2", tag="sums")


def read_recorded(path):
    """(name, ptx, types, sets) -> (accepted, result) of an earlier table."""
    old = {}
    if os.path.exists(path):
        with open(path, encoding="ascii") as f:
            for line in f:
                if line.startswith("#"):
                    continue
                cols = line.rstrip("\n").split("\t")
                old[tuple(cols[:4])] = (cols[5], cols[6])
    return old


def main():
    for part in (integers, carries, bits, video, floats32, floats64, compares, halves, conversions,
                 moves, loads, stores, atomics, warps, barriers, addresses, control, matrices):
        part()
    sets = build()
    for name, _, types, used, _ in ROWS:
        want = [] if used == "-" else used.split()
        assert len(want) == len(types.split(">")[0].split()), name
        for s in want:
            assert s in sets, (name, s)
    with open(os.path.join(HERE, "inputs.tsv"), "w", encoding="ascii") as f:
        f.write("# name\tbits\t64 words, one a thread (written by make_forms.py)\n")
        for name, (width, words) in sorted(sets.items()):
            f.write("%s\t%d\t%s\n" % (name, width,
                                      " ".join("%0*x" % (width // 4, w) for w in words)))
    path = os.path.join(HERE, "forms.tsv")
    old = read_recorded(path)
    # Tables recorded elsewhere fill in what is not recorded yet.
    for extra in sys.argv[1:]:
        for key, (_, result) in read_recorded(extra).items():
            if result != "-" and old.get(key, ("?", "-"))[1] == "-":
                old[key] = (old.get(key, ("?",))[0], result)
    with open(path, "w", encoding="ascii") as f:
        f.write("# name\tptx\ttypes\tinputs\tclass\taccepted\tresult\n")
        for row in ROWS:
            accepted, result = old.get(row[:4], ("?", "-"))
            f.write("\t".join(row + (accepted, result)) + "\n")
    sys.stderr.write("%d rows, %d input sets\n" % (len(ROWS), len(sets)))


if __name__ == "__main__":
    main()
