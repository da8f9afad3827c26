# SPDX-License-Identifier: Apache-2.0
"""python3 -m apigen"""

import sys

from apigen.main import main

sys.exit(main(sys.argv[1:]))
