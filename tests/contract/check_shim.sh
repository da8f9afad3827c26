#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Sentences about streams and handles that hold for a client of the broker as
# for the driver itself. What the driver makes others wait for is no such
# sentence: a client is better off.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
library=$build/lib/libmpsshim.so
if [ ! -r "$library" ] || [ ! -r "$build/lib/libsoftcuda.so" ]; then
	echo "libmpsshim.so or libsoftcuda.so is not built"
	exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset SOFTCUDA_DEVICES SOFTCUDA_RELAX SOFTCUDA_FAULT CUDA_VISIBLE_DEVICES
export CUDA_MPS_PIPE_DIRECTORY="$work" MPSSHIM_DRIVER=soft MPSSHIM_IDLE_S=1
passed=0 failed=0

for name in bad_launches_are_not_sticky copies_on_own_streams_do_not_wait \
	ctx_synchronize_waits_without_stalling events_query_and_measure \
	full_stream_blocks_only_its_owner kernel_handle_launches_as_function \
	launch_takes_its_parameters null_stream_orders_blocking_streams \
	pageable_copy_to_device_takes_its_source \
	pageable_copy_to_host_is_synchronous param_info_gives_the_layout \
	per_thread_streams_are_separate_and_blocking \
	printf_is_flushed_at_synchronise proc_address_follows_its_rules \
	queued_launches_block_neighbours_from_32_streams \
	stream_wait_event_takes_the_last_record \
	streams_and_events_do_not_wait; do
	"$build/bin/mpsrun" tests/contract/run.sh "$library" \
		"$build/tests/contract" "$name" >"$work/log" 2>&1
	status=$?
	[ "$status" -eq 0 ] || cat "$work/log"
	if [ "$status" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
