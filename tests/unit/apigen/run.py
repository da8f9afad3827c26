#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All generator tests; the last line is "N passed, N failed, N skipped"."""

import pathlib
import sys
import unittest


def main():
    here = str(pathlib.Path(__file__).resolve().parent)
    suite = unittest.defaultTestLoader.discover(here)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    for test, reason in result.skipped:
        print(f"skipped {test}: {reason}")
    passed = max(result.testsRun - failed - skipped, 0)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    # A run that found nothing to test has tested nothing.
    return 1 if failed or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
