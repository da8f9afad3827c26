# SPDX-License-Identifier: Apache-2.0
"""Text of cuda.api to model.Entry: syntax only, no meaning."""

import re
import shlex

from apigen.cudatypes import ANSWERED_AS_HANDLES
from apigen.model import Api, ApiError, Check, Cover, Entry, Param

FUNCTION = re.compile(r"(\d+)\s+CUresult\s+(cu[A-Za-z0-9_]+)\((.*)\);$")
OP = re.compile(r"op\s+(\d+)\s+(mps[A-Za-z0-9]+)\((.*)\);$")
GROUP = re.compile(r'group\s+([a-z]+)\s+"([^"]+)"$')
REASON = re.compile(r'reason\s+([a-z]\w*)\s+(CUDA_\w+)\s+"([^"]+)"$')
ONE_LINE = re.compile(r"(group|reason)\s")
PARAM = re.compile(r"(.*?[\s*])([A-Za-z_]\w*)$")
OP_PARAM = re.compile(
    r"(?:(u32|u64|i32|i64|f32|f64|string|bytes)"
    r"|(new )?id\(([a-z]+)\)"
    r"|out (u32|u64|i32|i64|f32|f64)"
    r"|out bytes\(([a-z]\w*)\))\s+([a-z]\w*)$")

CLASSES = ("local", "custom", "cached", "sync", "post")
WIRES = ("sync ordered", "sync unordered", "post")


def missing_code(param):
    """What the driver answers where that parameter is 0 or NULL."""
    if param.ctype in ANSWERED_AS_HANDLES:
        return "CUDA_ERROR_INVALID_HANDLE"
    return "CUDA_ERROR_INVALID_VALUE"


class Parser:
    def __init__(self, path, text):
        self.path = path
        self.lines = text.splitlines()
        self.groups = {}
        self.reasons = {}
        self.entries = []
        self.group = ""
        self.entry = None

    def fail(self, line, text):
        raise ApiError(self.path, line, text)

    def parse(self):
        at = 0
        while at < len(self.lines):
            number = at + 1
            text = self.lines[at]
            at += 1
            bare = text.strip()
            if not bare or bare.startswith("#"):
                continue
            if text[0].isspace():
                self.word(number, bare)
                continue
            # A prototype may run over several lines, up to its ");".
            while not ONE_LINE.match(text) and ");" not in text:
                if at == len(self.lines) or not self.lines[at][:1].isspace():
                    self.fail(number, "prototype does not end in ');'")
                text += " " + self.lines[at].strip()
                at += 1
            self.head(number, re.sub(r"\s+", " ", text).strip())
        return Api(self.path, self.groups,
                   [e for e in self.entries if not e.is_op],
                   [e for e in self.entries if e.is_op])

    def head(self, line, text):
        if match := GROUP.match(text):
            name, title = match.groups()
            if name in self.groups:
                self.fail(line, f"group {name} is already open")
            self.groups[name] = title
            self.group, self.entry = name, None
            return
        if match := REASON.match(text):
            name, code, reason = match.groups()
            if name in self.reasons:
                self.fail(line, f"reason {name} is there twice")
            self.reasons[name] = (code, reason)
            self.entry = None
            return
        if match := FUNCTION.match(text):
            params = self.c_params(line, match[3])
        elif match := OP.match(text):
            params = self.op_params(line, match[3])
        else:
            self.fail(line, "expected 'ID CUresult cuName(…);', "
                            "'op ID mpsName(…);', 'group NAME \"title\"' or "
                            "'reason NAME CODE \"text\"'")
        if not self.group:
            self.fail(line, f"{match[2]} stands before the first group")
        self.entry = Entry(int(match[1]), match[2], params, line, self.group,
                           is_op=text.startswith("op"))
        self.entries.append(self.entry)

    def c_params(self, line, text):
        text = text.strip()
        if text == "void":
            return []
        params = []
        for piece in text.split(","):
            match = PARAM.match(piece.strip())
            if not match:
                self.fail(line, f"not a parameter with a name: "
                                f"'{piece.strip()}'")
            ctype = re.sub(r"\s*\*", "*", match[1].strip())
            ctype = re.sub(r"(?<=[^*])\*", " *", ctype)
            params.append(Param(match[2], ctype, line))
        self.unique(line, params)
        return params

    def op_params(self, line, text):
        params = []
        for piece in filter(None, (p.strip() for p in text.split(","))):
            match = OP_PARAM.match(piece)
            if not match:
                self.fail(line, f"not an operation's parameter: '{piece}'")
            scalar, new, kind, out, capacity, name = match.groups()
            if kind:
                ctype = ("new id " if new else "id ") + kind
            elif out:
                ctype = "out " + out
            elif capacity:
                ctype = "out bytes " + capacity
            else:
                ctype = scalar
            params.append(Param(name, ctype, line))
            if ctype == "bytes":
                # Bytes travel with their length, a parameter of its own.
                params.append(Param(name + "_size", "u64", line))
        self.unique(line, params)
        return params

    def unique(self, line, params):
        names = [p.name for p in params]
        for name in names:
            if names.count(name) > 1:
                self.fail(line, f"parameter {name} is there twice")

    def word(self, line, text):
        entry = self.entry
        if entry is None:
            self.fail(line, "a word that belongs to no function")
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            self.fail(line, "unbalanced quotation mark")
        name, rest = words[0], words[1:]
        method = getattr(self, "word_" + name, None)
        if method is None:
            self.fail(line, f"unknown word '{name}'")
        if name != "arg" and name in entry.seen:
            self.fail(line, f"'{name}' is there twice for {entry.name}")
        entry.seen[name] = line
        method(line, entry, rest)

    def one_of(self, line, what, rest, allowed):
        if len(rest) != 1 or rest[0] not in allowed:
            self.fail(line, f"{what} takes one of {', '.join(allowed)}")
        return rest[0]

    def word_class(self, line, entry, rest):
        if not rest or rest[0] not in CLASSES:
            self.fail(line, f"class takes one of {', '.join(CLASSES)}")
        entry.answer, wire = rest[0], " ".join(rest[1:])
        if entry.answer in ("sync", "post"):
            wire = " ".join(rest)
        elif entry.answer == "cached" and not wire:
            wire = "sync unordered"
        if wire and (wire not in WIRES or entry.answer == "local"):
            self.fail(line, f"class {' '.join(rest)}: how it travels is "
                            f"one of {', '.join(WIRES)}")
        entry.wire = wire

    def word_cover(self, line, entry, rest):
        kind = rest[0] if rest else ""
        if kind == "full" and len(rest) == 1:
            entry.cover = Cover("full")
        elif kind == "partial" and len(rest) == 2 and rest[1]:
            entry.cover = Cover("partial", rest[1])
        elif kind == "refused" and len(rest) == 3 and rest[2]:
            entry.cover = Cover("refused", rest[2], rest[1])
        elif kind == "refused" and len(rest) == 2:
            if rest[1] not in self.reasons:
                self.fail(line, f"no reason '{rest[1]}' above this line")
            code, text = self.reasons[rest[1]]
            entry.cover = Cover("refused", text, code)
        else:
            self.fail(line, 'cover takes full, partial "what is missing", '
                            'refused REASON or refused CODE "text"')

    def word_twin(self, line, entry, rest):
        entry.twin = self.one_of(line, "twin", rest, ("ptsz", "ptds"))

    def word_needs(self, line, entry, rest):
        entry.needs = self.one_of(line, "needs", rest,
                                  ("nothing", "init", "context"))

    def word_clears(self, line, entry, rest):
        if not rest:
            self.fail(line, "clears takes names of parameters")
        entry.clears = [self.pointer(line, entry, name) for name in rest]

    def word_checks(self, line, entry, rest):
        if len(rest) < 3 or rest[-2] != "before" or \
                rest[-1] not in ("init", "context"):
            self.fail(line, "checks takes NAME… before init or NAME… before "
                            "context")
        entry.checks_before = rest[-1]
        for word in rest[:-2]:
            names, _, code = word.partition("=")
            params = [self.param(line, entry, name)
                      for name in names.split("|")]
            entry.checks.append(Check(params,
                                      code or missing_code(params[0])))

    def param(self, line, entry, name):
        for param in entry.params:
            if param.name == name:
                return param
        self.fail(line, f"{entry.name} has no parameter {name}")

    def pointer(self, line, entry, name):
        param = self.param(line, entry, name)
        if not param.ctype.endswith("*") or param.ctype.startswith("const"):
            self.fail(line, f"{name} is nothing that a call writes to")
        return param

    def word_alias(self, line, entry, rest):
        if len(rest) != 1:
            self.fail(line, "alias takes one function name")
        entry.alias = rest[0]

    def word_on(self, line, entry, rest):
        entry.on = self.one_of(line, "on", rest, ("lane", "reaper", "gate"))

    def word_handler(self, line, entry, rest):
        entry.handler = self.one_of(line, "handler", rest, ("custom",))

    def word_waits(self, line, entry, rest):
        if len(rest) != 1 or not rest[0]:
            self.fail(line, 'waits takes one text: "what it waits for"')
        entry.waits = rest[0]

    def word_quiet(self, line, entry, rest):
        if len(rest) != 1 or not rest[0]:
            self.fail(line, 'quiet takes one text: "why nobody need know"')
        entry.quiet = rest[0]

    def word_arg(self, line, entry, rest):
        if len(rest) < 2:
            self.fail(line, "arg takes a parameter name and what it is")
        param = self.param(line, entry, rest[0])
        if param.words:
            self.fail(line, f"arg {rest[0]} is there twice")
        param.words, param.line = rest[1:], line


def parse_file(path, shown_path=None):
    with open(path, encoding="utf-8") as file:
        return Parser(shown_path or path, file.read()).parse()
