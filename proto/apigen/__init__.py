# SPDX-License-Identifier: Apache-2.0
"""Generator of everything that follows from proto/cuda.api.

Standard library only. `python3 -m apigen --help` with proto/ on the path, or
`python3 proto/apigen/apigen.py --help`.
"""
