# SPDX-License-Identifier: Apache-2.0
"""The input vectors of the PTX forms table: 64 words each, one a thread.

make_forms.py writes them to inputs.tsv; forms.tsv names them. A set called
X.a, X.b, X.c pairs edge values of a type with each other, thread by thread;
X.u holds as many different values as possible for one-operand forms.
"""
import random
import struct

COUNT = 64
EDGE = 6  # edge values that are all paired with each other: 36 threads


def f32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def f64(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def f16(x):
    return struct.unpack("<H", struct.pack("<e", x))[0]


def bf16(x):
    return f32(x) >> 16


def pairs(edge, rest_a, rest_b, rest_c):
    """a, b: every edge value with every other, then the rest side by side."""
    e = edge[:EDGE]
    a = [x for x in e for _ in e] + rest_a
    b = [x for _ in e for x in e] + rest_b
    c = [e[(i // 5 + i) % EDGE] for i in range(EDGE * EDGE)] + rest_c
    return a[:COUNT], b[:COUNT], c[:COUNT]


def int_sets(bits):
    rnd = random.Random(bits)
    top = 1 << (bits - 1)
    mask = (1 << bits) - 1
    edge = [0, 1, mask, top, top - 1, 0x5A & mask]

    def rest():
        out = []
        for i in range(COUNT - EDGE * EDGE):
            v = rnd.getrandbits(bits)
            if i % 4 == 1:
                v >>= bits // 2
            elif i % 4 == 2:
                v = (-(v >> (bits // 2 + 1))) & mask
            elif i % 4 == 3:
                v >>= bits * 3 // 4
            out.append(v)
        return out
    a, b, c = pairs(edge, rest(), rest(), rest())
    uni = [0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, mask, mask - 1, mask - 0x7F,
           mask - 0x80, top, top - 1, top + 1, 0xFF80 & mask, 0x5555 & mask]
    for k in range(8, bits, 8):
        uni += [(1 << k) & mask, ((1 << k) - 1) & mask, (-(1 << (k - 1))) & mask]
    while len(uni) < COUNT:
        uni.append(rnd.getrandbits(bits) >> rnd.randrange(bits))
    # Divisors: no zero, and no -1 against the most negative number.
    nz = [v if v not in (0, mask) else 3 + i for i, v in enumerate(b)]
    name = "i%d" % bits
    return {name + ".a": a, name + ".b": b, name + ".c": c,
            name + ".u": uni[:COUNT], name + ".nz": nz}, bits


def float_bits(bits, exp, man, seed):
    """Edge and random patterns of a binary format, as integers."""
    rnd = random.Random(seed)
    bias = (1 << (exp - 1)) - 1
    sign = 1 << (bits - 1)
    inf = ((1 << exp) - 1) << man
    nan = inf | 1 << (man - 1)
    one = bias << man
    edge = [0, sign, inf, nan | 1, (1 << (man - 1)) | 1, sign | (inf - 1)]

    def near(e, k):
        return (k & 1) << (bits - 1) | (bias + e) << man | rnd.getrandbits(man)

    def rest(shift):
        out = [sign | inf, sign | nan | 2, inf | 1, 1, inf - 1, 1 << man,
               sign | 1 << man, one, sign | one]
        while len(out) < COUNT - EDGE * EDGE:
            k = len(out)
            big = bias - 1 if k % 5 == 0 else 2
            e = rnd.randrange(-big, big)
            out.append(near(max(-bias + 1, min(bias, e)), k >> shift))
        # Each operand meets the special values at other threads.
        return out[shift * 3:] + out[:shift * 3]
    a, b, c = pairs(edge, rest(0), rest(1), rest(2))
    half = (bias - 1) << man
    uni = [0, sign, one, sign | one, inf, sign | inf, nan, inf | 1,
           sign | nan | 5, 1, sign | 3, (1 << man) - 1, 1 << man, inf - 1,
           sign | (inf - 1), half, sign | half, half + 1, half - 1]
    for e in (1, 2, 6, 7, 8, 14, 15, 16, 22, 23, 24, 30, 31, 32, 51, 52, 53,
              62, 63, 64, 127):
        if e < bias:
            uni.append((bias + e) << man)
    for e in (0, 1, 7, 15, 31, 63):
        if e < bias:
            uni.append(sign | ((bias + e) << man) + (1 << (man - 1)))
    # x.5 and its neighbours decide every rounding mode.
    for e in (0, 1, 2, 3):
        if man > e:
            uni.append((bias + e) << man | 1 << (man - 1 - e))
            uni.append(sign | (bias + e) << man | 1 << (man - 1 - e))
    while len(uni) < COUNT:
        uni.append(near(rnd.randrange(-6, min(bias, 34)), len(uni)))
    return {"a": a, "b": b, "c": c, "u": uni[:COUNT]}


def small_ints(conv, seed):
    rnd = random.Random(seed)
    return [conv(float(rnd.randrange(-8, 9))) for _ in range(COUNT)]


def pack2(lo, hi):
    return [l | h << 16 for l, h in zip(lo, hi)]


def build():
    """name -> (width in bits, words)"""
    sets = {}
    for bits in (16, 32, 64):
        group, width = int_sets(bits)
        for name, words in group.items():
            sets[name] = (width, words)
    for name, bits, exp, man in (("f32", 32, 8, 23), ("f64", 64, 11, 52),
                                 ("f16", 16, 5, 10), ("bf16", 16, 8, 7)):
        for op, words in float_bits(bits, exp, man, name).items():
            sets["%s.%s" % (name, op)] = (bits, words)
    for name in ("f16", "bf16"):
        for op in "abcu":
            lo = sets["%s.%s" % (name, op)][1]
            hi = lo[23:] + lo[:23]
            sets["%sx2.%s" % (name, op)] = (32, pack2(lo, hi))
    # Finite values only: the approximate functions are specified on them.
    rnd = random.Random("finite")
    trig = [0, 0x80000000, f32(3.1415925), f32(-3.1415925), f32(1.5707964),
            f32(0.78539819), f32(1e-3), f32(-1e-6), 1, 0x7F800000, 0xFF800000,
            0x7FC00001]
    while len(trig) < COUNT:
        trig.append(f32(rnd.uniform(-3.14159, 3.14159)))
    sets["trig"] = (32, trig)
    expo = [0, 0x80000000, f32(1.0), f32(-1.0), f32(127.5), f32(128.0),
            f32(-126.0), f32(-126.5), f32(-149.0), f32(-149.5), f32(-151.0),
            f32(0.5), f32(1e-20), 1, 0x7F800000, 0xFF800000, 0x7FC00001]
    while len(expo) < COUNT:
        expo.append(f32(rnd.uniform(-130.0, 130.0) / (1 << len(expo) % 6)))
    sets["expo"] = (32, expo)
    shift = [0, 1, 2, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 127,
             128, 255, 256, 257, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF]
    while len(shift) < COUNT:
        shift.append(rnd.randrange(40))
    rnd.shuffle(shift)
    sets["shift"] = (32, shift)
    sets["pos"] = (32, [rnd.choice((0, 1, 5, 8, 15, 16, 24, 30, 31, 32, 40,
                                    63, 64, 255, 256 + 3)) for _ in shift])
    sets["len"] = (32, [rnd.choice((0, 1, 2, 4, 8, 16, 31, 32, 33, 63, 64,
                                    255, 256 + 8)) for _ in shift])
    sets["bool.a"] = (32, [rnd.getrandbits(1) for _ in shift])
    sets["bool.b"] = (32, [rnd.getrandbits(1) for _ in shift])
    sets["lane"] = (32, [rnd.randrange(32) for _ in shift])
    sets["four"] = (32, [rnd.randrange(4) for _ in shift])
    sets["index"] = (32, list(range(COUNT)))
    sets["count"] = (32, [rnd.randrange(9) for _ in shift])
    for name, bits, conv in (("f32", 32, f32), ("f64", 64, f64),
                             ("f16", 16, f16), ("bf16", 16, bf16)):
        sets[name + ".int"] = (bits, small_ints(conv, name + "i"))
        sets[name + ".int2"] = (bits, small_ints(conv, name + "j"))
    for name in ("f16", "bf16"):
        sets[name + "x2.int"] = (32, pack2(sets[name + ".int"][1],
                                           sets[name + ".int2"][1]))
        sets[name + "x2.int2"] = (32, pack2(sets[name + ".int2"][1],
                                            sets[name + ".int"][1]))
    # Sums of products that do not fit: every bit of a term may matter.
    for name, bits, conv in (("f32", 32, f32), ("f64", 64, f64),
                             ("f16", 16, f16), ("bf16", 16, bf16)):
        for op in ("sum", "sum2"):
            rnd = random.Random(name + op)
            sets["%s.%s" % (name, op)] = (bits, [
                conv(rnd.uniform(-1, 1) * 2.0 ** rnd.randrange(-4, 5))
                for _ in range(COUNT)])
    for name in ("f16", "bf16"):
        one, two = sets[name + ".sum"][1], sets[name + ".sum2"][1]
        sets[name + "x2.sum"] = (32, pack2(one, two))
        sets[name + "x2.sum2"] = (32, pack2(two[7:] + two[:7], one))
    for name, (width, words) in sets.items():
        assert len(words) == COUNT, name
        assert all(0 <= w < 1 << width for w in words), name
    return sets
