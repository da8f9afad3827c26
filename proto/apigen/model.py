# SPDX-License-Identifier: Apache-2.0
"""What proto/cuda.api says, as objects. Filled by parse.py and infer.py."""

from dataclasses import dataclass, field
from typing import Optional


class ApiError(Exception):
    """One fault in an input file; str() is the line a compiler would print."""

    def __init__(self, path, line, text):
        super().__init__(f"{path}:{line}: error: {text}")


@dataclass
class Param:
    """One C parameter and, once inferred, how it travels."""
    name: str
    ctype: str                      # "const CUuuid *", blanks normalised
    line: int
    words: list = field(default_factory=list)   # of `arg NAME …`
    # Set by infer.py; None as long as the parameter cannot travel.
    kind: Optional[str] = None      # a WIRE_ name without its prefix
    size: str = "0"                 # C expression: bytes of one element
    handle: str = "none"
    count: Optional[int] = None     # index of the count parameter
    nullable: bool = False
    signed: bool = False
    why_not: str = ""               # why it cannot travel


@dataclass
class Check:
    """Parameters of which one must be there, and the answer without."""
    params: list
    code: str


@dataclass
class Cover:
    kind: str                       # full, partial, refused
    text: str = ""
    code: str = "CUDA_SUCCESS"


@dataclass
class Entry:
    """A driver function, or an internal operation when is_op."""
    id: int
    name: str
    params: list
    line: int
    group: str
    is_op: bool = False
    answer: str = ""                # local, custom, cached, sync, post
    wire: str = ""                  # "", sync ordered, sync unordered, post
    cover: Optional[Cover] = None
    twin: str = ""
    needs: str = "context"
    clears: list = field(default_factory=list)  # Param
    checks: list = field(default_factory=list)  # Check
    checks_before: str = ""         # init, context
    alias: str = ""
    target: Optional["Entry"] = None
    waits: str = ""
    quiet: str = ""                 # why a refusal is worth no line
    on: str = "lane"
    handler: str = ""               # custom, or empty
    seen: dict = field(default_factory=dict)    # word -> line

    @property
    def is_refused(self):
        return self.cover.kind == "refused"

    @property
    def is_handwritten(self):
        """The shim answers with a handwritten shim_<name>()."""
        return self.answer in ("local", "custom", "cached")

    @property
    def is_served(self):
        """Has code of its own: neither refused nor served by another."""
        return not self.alias and not self.is_refused

    @property
    def on_wire(self):
        """Its id travels, so the worker has a handler for it."""
        return bool(self.wire) and self.is_served

    @property
    def has_custom_handler(self):
        return self.on_wire and (self.is_op or self.handler == "custom")

    def stream_params(self):
        return [p for p in self.params if p.ctype == "CUstream"]

    @property
    def takes_stream(self):
        """shim_<name>() is told the default stream of its caller."""
        return bool(self.twin) and not self.stream_params()

    @property
    def twin_name(self):
        return f"{self.name}_{self.twin}"


@dataclass
class Api:
    path: str
    groups: dict                    # name -> title, in order
    entries: list                   # driver functions by id
    ops: list

    @property
    def all(self):
        return self.entries + self.ops

    def exports(self):
        names = [e.name for e in self.entries]
        return names + [e.twin_name for e in self.entries if e.twin]
