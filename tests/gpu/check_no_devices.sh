#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# What tests/gpu/no_devices.sh stands on: a client in another mount namespace,
# whose /dev has next to nothing, is a client of the broker outside as any
# other; so is one that looks like root in a user namespace and is not.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/../api/rows.sh"

without=$top/tests/gpu/without_devices.sh
"$without" true || exit 77
"$mpsrun" true

next_to_nothing() {
	"$without" ls -A /dev >"$work/dev"
	! grep -vE '^(null|zero|full|u?random|tty|shm|pts|ptmx|fd|std(in|out|err))$' \
		"$work/dev"
}
there() {
	"$without" "$mpsrun" "$build/examples/$1" &&
		"$bin/mpsctl" status --json | grep -q '"total_clients": *[1-9]'
}
in_user_namespace() {
	unshare -Urm "$without" "$mpsrun" "$build/examples/vecadd_driver"
}

# NVIDIA's NVML has nobody to ask there. Of two devices CUDA is shown one.
nvml_there() {
	"$mpsrun" true
	SOFTCUDA_DEVICES=2 CUDA_VISIBLE_DEVICES=1 "$without" "$mpsrun" "$T/nvml" ||
		return 1
	"$bin/mpsctl" status --json | grep -q '"total_clients": *2'
}
nvml_of_nvidia() {
	"$without" bash -c 'ln -s null /dev/nvidiactl && "$0" env' "$mpsrun" >"$work/env"
	grep '^LD_LIBRARY_PATH=' "$work/env" | grep -v mpsshim/nvml
}
nvml_of_a_file() {
	EMPTY_FILES=nvidiactl "$without" "$mpsrun" env >"$work/env"
	grep '^LD_LIBRARY_PATH=.*mpsshim/nvml' "$work/env"
}

row '/dev has next to nothing' next_to_nothing
row 'a client there' there vecadd_driver
if unshare -Urm true 2>/dev/null; then
	row 'and in a user namespace' in_user_namespace
else
	skip 'and in a user namespace' 'not permitted'
fi
export SOFTCUDA_DEVICES=2
fresh
row 'NVML there' nvml_there
row "NVIDIA's NVML where it has its file" nvml_of_nvidia
row 'and not where that is no device' nvml_of_a_file
finish_rows
