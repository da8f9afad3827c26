# SPDX-License-Identifier: Apache-2.0
"""A bar chart, as SVG: each figure against the native one."""
import statistics
from xml.sax.saxutils import escape

import report

# What a newcomer asks first; those that a run has are drawn.
DRAWN = (
    ("launch_4_p50", 1), ("get_current", 1), ("launch_sync", 1),
    ("alloc_free", 1), ("dtoh_pageable_4B", 1), ("htod_pageable_1MiB", 1),
    ("dtoh_pageable_1MiB", 1), ("htod_pinned_256MiB", 1),
    ("start_next", 1), ("empty_rate", 1), ("empty_rate", 8), ("spin_rate", 8),
    ("step_rate", 1), ("step_rate", 8), ("resnet_rate", 1), ("bert_rate", 1),
    ("tiny_rate", 1), ("mix_rate", 4), ("mix_rate", 8), ("tiny_rate", 8),
    ("memory_further", 8),
)
COLOURS = {"native": "#9aa0a6", "mps": "#76b900", "mpsrun": "#1a73e8"}
LABEL_W, BARS_W, VALUE_W = 300, 400, 130
BAR_H, GROUP_GAP, TOP = 13, 11, 64
# A bar this many times as long as the native one is cut.
LONGEST = 8.0


def gain(unit, value, native):
    """How many times better than native."""
    if not value or not native:
        return 0.0
    return value / native if report.more_is_better(unit) else native / value


def text(x, y, what, extra=""):
    return '<text x="%g" y="%g"%s>%s</text>' % (x, y, extra, escape(what))


def bar(y, mode, unit, value, times):
    length = max(1.0, min(times, LONGEST) / LONGEST * BARS_W)
    out = ['<rect x="%d" y="%g" width="%.1f" height="%d" fill="%s"/>' % (
        LABEL_W, y, length, BAR_H - 1, COLOURS[mode])]
    shown = "%s %s" % (report.number(value), unit)
    if times > LONGEST:
        shown += " (%s times)" % report.number(times)
    out.append(text(LABEL_W + length + 4, y + BAR_H - 3, shown))
    return out


def svg(rows, device):
    groups = {k: g for k, g in report.grouped(rows).items()
              if k in DRAWN and g[1].get("native")}
    y, body = TOP, []
    for (figure, clients), (unit, by_mode) in groups.items():
        medians = {m: statistics.median(v) for m, v in by_mode.items()}
        present = [m for m in report.MODES if m in medians]
        label = report.LABELS[figure].strip()
        if clients > 1:
            label += ", %d clients" % clients
        body.append(text(LABEL_W - 8, y + len(present) * BAR_H / 2 + 4, label,
                         ' text-anchor="end"'))
        for m in present:
            body += bar(y, m, unit, medians[m],
                        gain(unit, medians[m], medians["native"]))
            y += BAR_H
        y += GROUP_GAP
    at = LABEL_W + BARS_W / LONGEST
    width = LABEL_W + BARS_W + VALUE_W
    head = [text(12, 20, "Times better than native (line); longer is better. "
                 + device)]
    for i, m in enumerate(report.MODES):
        x = 12 + 150 * i
        head.append('<rect x="%d" y="32" width="12" height="12" fill="%s"/>' %
                    (x, COLOURS[m]))
        head.append(text(x + 18, 42, report.HEADS[m].rstrip(" *")))
    line = '<path d="M%g %d V%g" stroke="#5f6368" stroke-dasharray="3 3"/>' % (
        at, TOP - 8, y)
    return "\n".join(
        ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
         'font-family="sans-serif" font-size="11">' % (width, y + 8),
         '<rect width="100%" height="100%" fill="white"/>',
         *head, line, *body, "</svg>", ""])
