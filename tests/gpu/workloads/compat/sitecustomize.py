# SPDX-License-Identifier: Apache-2.0
"""numba-cuda up to 0.30 asks for a name that NumPy dropped in 2.5."""
import numpy

if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
