# SPDX-License-Identifier: Apache-2.0
"""Rules across entries: ids, aliases, classes, waits. Run after parsing."""

from apigen.cudatypes import CODES
from apigen.model import ApiError, Cover

# proto/marshal.h WIRE_MAX_PARAMS.
MAX_PARAMS = 24
MAX_ID = 65535


class Rules:
    def __init__(self, api):
        self.api = api

    def fail(self, line, text):
        raise ApiError(self.api.path, line, text)

    def run(self):
        self.unique("id", lambda e: e.id)
        self.unique("name", lambda e: e.name)
        self.unique_exports()
        by_name = {e.name: e for e in self.api.entries}
        for entry in self.api.all:
            self.limits(entry)
            if entry.alias:
                self.alias(entry, by_name)
            elif entry.is_op:
                self.op(entry)
            else:
                self.function(entry)
        for entry in self.api.all:
            if not entry.alias:
                self.waits(entry)

    def unique(self, what, key):
        seen = {}
        for entry in sorted(self.api.all, key=lambda e: e.line):
            first = seen.setdefault(key(entry), entry)
            if first is not entry:
                self.fail(entry.line, f"{what} {key(entry)} is taken by "
                                      f"{first.name} in line {first.line}")

    def unique_exports(self):
        names = {e.name for e in self.api.entries}
        for entry in self.api.entries:
            if entry.twin and entry.twin_name in names:
                self.fail(entry.line, f"{entry.twin_name} is an entry and a "
                                      f"twin of {entry.name}")

    def limits(self, entry):
        if not 0 < entry.id <= MAX_ID:
            self.fail(entry.line, f"id {entry.id} is not in 1…{MAX_ID}")
        if len(entry.params) > MAX_PARAMS:
            self.fail(entry.line, f"{entry.name} has more than {MAX_PARAMS} "
                                  "parameters")

    def alias(self, entry, by_name):
        line = entry.seen["alias"]
        target = by_name.get(entry.alias)
        if target is None:
            self.fail(line, f"alias of {entry.alias}, which is not here")
        if target.alias:
            self.fail(line, f"alias of {entry.alias}, itself an alias")
        for word, at in entry.seen.items():
            if word not in ("alias", "twin"):
                self.fail(at, f"{entry.name} is an alias; '{word}' belongs "
                              f"to {entry.alias}")
        types = [p.ctype for p in entry.params]
        if types != [p.ctype for p in target.params]:
            self.fail(line, f"{entry.name} and {entry.alias} have different "
                            "parameters")
        if entry.twin and entry.twin != target.twin:
            self.fail(line, f"{entry.name} has a {entry.twin} twin, "
                            f"{entry.alias} has not")
        if target.cover is None:
            self.fail(target.line, f"{target.name} has no cover")
        entry.target, entry.cover = target, target.cover
        entry.needs, entry.clears = target.needs, target.clears
        entry.checks = target.checks
        entry.checks_before = target.checks_before

    def op(self, entry):
        for word in ("twin", "needs", "alias", "cover", "handler", "arg",
                     "clears", "checks", "quiet"):
            if word in entry.seen:
                self.fail(entry.seen[word], f"an operation takes no '{word}'")
        if entry.answer not in ("sync", "post"):
            self.fail(entry.seen.get("class", entry.line),
                      f"operation {entry.name} needs class sync ordered, "
                      "sync unordered or post")
        if entry.answer == "post":
            self.post_returns_nothing(entry)
        entry.cover = Cover("full")

    def function(self, entry):
        if not entry.answer:
            self.fail(entry.line, f"{entry.name} has no class")
        if entry.cover is None:
            self.fail(entry.line, f"{entry.name} has no cover")
        if entry.is_refused and entry.cover.code not in CODES:
            self.fail(entry.seen["cover"],
                      f"{entry.cover.code} is no CUresult of cuda.h")
        if entry.is_refused and entry.cover.code == "CUDA_SUCCESS":
            self.fail(entry.seen["cover"], "a refusal cannot be a success")
        self.early(entry)
        if entry.answer in ("sync", "post") and entry.takes_stream:
            self.fail(entry.seen["twin"],
                      f"{entry.name} has a twin and no stream parameter: "
                      "class must be local, custom or cached")
        if entry.handler and not entry.wire:
            self.fail(entry.seen["handler"],
                      f"{entry.name} never reaches the worker")
        if entry.wire == "post":
            self.post_returns_nothing(entry)

    def early(self, entry):
        if not entry.checks:
            return
        line = entry.seen["checks"]
        for check in entry.checks:
            if check.code not in CODES:
                self.fail(line, f"{check.code} is no CUresult of cuda.h")
        after = {"init": ("init", "context"), "context": ("context",)}
        if entry.needs not in after[entry.checks_before]:
            self.fail(line, f"{entry.name} needs {entry.needs}, which comes "
                            f"before no {entry.checks_before}")

    def post_returns_nothing(self, entry):
        for param in entry.params:
            if param.kind in ("OUT_VALUE", "OUT_BYTES", "INOUT_BYTES"):
                self.fail(entry.seen["class"],
                          f"{entry.name} is posted, but {param.name} comes "
                          "back")

    def waits(self, entry):
        if entry.waits and entry.wire and entry.on == "lane":
            self.fail(entry.seen["waits"],
                      f"{entry.name} waits, so no lane may run it: say "
                      "'on reaper' or 'on gate'")
        if "on" in entry.seen and not entry.wire:
            self.fail(entry.seen["on"],
                      f"{entry.name} never reaches the worker")


def check(api):
    Rules(api).run()
