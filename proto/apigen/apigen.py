#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same as `python3 -m apigen`, for callers that do not set PYTHONPATH."""

import pathlib
import sys

# This file is named like its package: take its own folder off the path first.
sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
sys.modules.pop("apigen", None)

from apigen.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
