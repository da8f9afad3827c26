#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The program table: real programs, most of them not ours, give under mpsrun
# what they give natively.
#
#	tests/gpu/programs.sh [-a] [-d] [-n] [-j N] [-s "SWITCH..."] [-t SECONDS]
#		[SET or NAME]...
#
# N (8) programs at once run natively and, beside them, N at once under mpsrun,
# the longest first; then those that are quick or differed (-a: each of them)
# under mpsrun alone. -t is how long all of it may take; what would not end by
# then is not started, and listed as not run. 16 cores are enough for N = 8. -n
# leaves the native runs out and checks the exit status only, which is what
# MPSSHIM_DRIVER=soft can do without a GPU. -d: under mpsrun where /dev has
# nothing of a GPU. -s: N at once under mpsrun once more for each SWITCH, with
# MPSSHIM_PERF=SWITCH and a broker of its own. Skips (77) where there is no GPU.
#
# programs.tsv, tab-separated:
#	name, set
#	origin   ours, or whose program it is
#	limit    seconds, after which a run is killed
#	usual    seconds that it took natively, as the row it prints says: in
#	         which order they start, and which of them there is time for
#	needs    files and Python modules without which it is skipped, or -
#	judge    same      stdout is equal byte for byte, after the filters named
#	                   behind the colon, and so is the exit status
#	         spread    text is equal, and numbers differ from three native
#	                   runs by no more than these do from each other
#	command  for bash, in an empty folder; $W is tests/gpu/workloads, $X
#	         has the examples and $E those that are built, $T
#	         holds our test programs, $S the third-party ones
#
# Third-party programs come from Debian's and PyPI's packages as they are, by
# way of samples.sh, and stay out of the tree: they are several times as big
# as all that is in it.
set -u
cd "$(dirname "$0")/../.." || exit 1
export MPSSHIM_BUILD="${MPSSHIM_BUILD:-$PWD/build}"
export MPSSHIM_DRIVER="${MPSSHIM_DRIVER:-cuda}"
export E="$MPSSHIM_BUILD/examples" X="$PWD/examples"
export W="$PWD/tests/gpu/workloads" T="$MPSSHIM_BUILD/tests"
export S="${SAMPLES:-$PWD/.carry/samples}"
if [ ! -d "$S" ] && [ -e "$S.tar.gz" ]; then
	tar -xzf "$S.tar.gz" --one-top-level="$S"
fi
# One broker for all of it, however long the native runs take.
export MPSSHIM_IDLE_S=900
# Where programs from elsewhere find the toolkit's libraries.
CUDA_LIBS=/usr/local/cuda/lib64:$(python3 -c '
import importlib.util
s = importlib.util.find_spec("nvidia")
print(":".join(p + "/cu13/lib" for p in s.submodule_search_locations)
      if s else "")' 2>/dev/null)
export CUDA_LIBS
# As many threads as make sense where several programs run at once, all of
# the GPU's memory for none of them, and no network.
export OMP_NUM_THREADS=2 XLA_PYTHON_CLIENT_PREALLOCATE=false
export HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1 PYTHONHASHSEED=0
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false

if [ "$MPSSHIM_DRIVER" = cuda ] && [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
exec python3 tests/gpu/programs.py "$@"
