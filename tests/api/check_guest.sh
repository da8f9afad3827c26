#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# The shim is a guest: a program that does not use CUDA runs under mpsrun as
# it runs without, and one that does may do to its process what programs do.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"

shim=$(cd "$build/lib" && pwd -P)/libmpsshim.so
guest=$T/guest_cuda
# The log of a guest would be a descriptor of its own.
unset MPSSHIM_LOG

# Same output, errors and status with mpsrun and without.
same() {
	"$@" >"$work/plain" 2>"$work/plain.err" </dev/null
	plain=$?
	timeout 20 "$mpsrun" "$@" >"$work/under" 2>"$work/under.err" </dev/null
	under=$?
	[ "$under" -eq "$plain" ] || {
		echo "status $under, without mpsrun $plain"
		cat "$work/under.err"
		return 1
	}
	diff "$work/plain" "$work/under" &&
		diff "$work/plain.err" "$work/under.err" &&
		echo "status $plain, $(wc -l <"$work/plain") lines"
}

# A command whose exit status must be 0 or that of an error that CUDA gave
# and the program printed (3); never a signal, never a hang.
works_or_refuses() {
	"$@"
	rc=$?
	[ "$rc" -eq 3 ] || return "$rc"
}

# ---- programs that do not use CUDA ------------------------------------------

row 'preloading costs /bin/true no more than it may' \
	"$T/guest_cost" "$shim" 200

nothing_printed() {
	"$mpsrun" true >"$work/out" 2>"$work/err" || return 1
	cat "$work/out" "$work/err"
	[ ! -s "$work/out" ] && [ ! -s "$work/err" ]
}
row 'mpsrun true prints nothing' nothing_printed

# With a broker that starts meanwhile: it must not hold the pipe.
pipe_ends() {
	start=$(date +%s%N)
	set -o pipefail
	"$mpsrun" true | cat || return 1
	took=$((($(date +%s%N) - start) / 1000000))
	echo "$took ms"
	[ "$took" -lt 5000 ]
}
fresh
row 'mpsrun true | cat returns at once, broker started' pipe_ends
row 'mpsrun true | cat returns at once, broker there' pipe_ends

no_descriptor_more() {
	same ls /proc/self/fd
}
row 'no descriptor more' no_descriptor_more
one_thread() {
	n=$("$mpsrun" ls /proc/self/task | wc -l)
	echo "$n thread"
	[ "$n" -eq 1 ]
}
row 'one thread' one_thread
row 'signal mask and dispositions' same grep -E '^Sig(Blk|Ign|Cgt)' \
	/proc/self/status
ignored_kept() {
	trap '' USR1 PIPE
	same grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status
}
row 'ignored signals stay ignored' ignored_kept
row 'working directory, umask, limits' same sh -c 'pwd; umask; ulimit -a'

all_statuses() {
	i=0
	while [ "$i" -lt 256 ]; do
		"$mpsrun" sh -c "exit $i"
		got=$?
		[ "$got" -eq "$i" ] || {
			echo "exit $i became $got"
			return 1
		}
		i=$((i + 1))
	done
	echo "256 right"
}
row 'exit statuses 0 to 255' all_statuses

all_signals() {
	for signal in HUP INT QUIT ILL ABRT FPE KILL USR1 SEGV USR2 PIPE \
		ALRM TERM; do
		sh -c "ulimit -c 0; kill -$signal \$\$" 2>/dev/null
		plain=$?
		"$mpsrun" sh -c "ulimit -c 0; kill -$signal \$\$" 2>/dev/null
		under=$?
		[ "$plain" -gt 128 ] && [ "$under" -eq "$plain" ] || {
			echo "$signal: $under, without mpsrun $plain"
			return 1
		}
	done
	echo "13 right"
}
row 'death by signal' all_signals

status_is() {
	want=$1
	shift
	"$@"
	got=$?
	[ "$got" -eq "$want" ] || {
		echo "status $got, not $want"
		return 1
	}
}
row '127 for a command that is not there' \
	status_is 127 "$mpsrun" /nowhere/nothing
row '126 for one that cannot be executed' \
	status_is 126 "$mpsrun" /etc/passwd
row '125 for no command' status_is 125 "$mpsrun"

same_pid() {
	# shellcheck disable=SC2016
	sh -c 'echo $$; exec "$0" sh -c "echo \$\$"' "$mpsrun" >"$work/pids" ||
		return 1
	[ "$(wc -l <"$work/pids")" -eq 2 ] &&
		[ "$(sort -u "$work/pids" | wc -l)" -eq 1 ] &&
		head -n 1 "$work/pids"
}
row 'same process id' same_pid

other=$(sed -n 's|.* \(/.*\)/libc\.so\.6$|\1/libm.so.6|p' /proc/self/maps |
	head -n 1)
preload_kept() {
	LD_PRELOAD=$other "$mpsrun" sh -c \
		'echo "$LD_PRELOAD"; cat /proc/self/maps' >"$work/maps" || return 1
	head -n 1 "$work/maps"
	grep -q "/libm\.so" "$work/maps" &&
		grep -q '/libmpsshim\.so' "$work/maps"
}
row 'LD_PRELOAD that is set already is kept' preload_kept
nested() {
	"$mpsrun" "$mpsrun" sh -c 'echo "$LD_PRELOAD"' >"$work/nested" &&
		[ "$(cat "$work/nested")" = "$shim" ] &&
		"$mpsrun" "$mpsrun" "$guest" run
}
row 'mpsrun under mpsrun' nested

# The loader trusts root's own environment, so root does this as another user.
as_user() {
	if [ "$(id -u)" -eq 0 ]; then
		set -- setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
	fi
	same "$@"
}
if [ -u "$(command -v su)" ] && command -v setpriv >/dev/null; then
	row 'a setuid program runs as without' as_user su --help
else
	skip 'a setuid program runs as without' 'no setuid su, or no setpriv'
fi

# ---- programs that do --------------------------------------------------------

row 'a CUDA program' "$mpsrun" "$guest" run
row 'LD_PRELOAD alone is enough' env LD_PRELOAD="$shim" "$guest" run
small_stack() {
	"$build/bin/mpsctl" quit --force >/dev/null 2>&1
	LD_PRELOAD=$shim "$guest" small-stack &&
		LD_PRELOAD=$shim "$guest" small-stack
}
row 'the first call from a thread with the least stack' small_stack
row 'through sh' "$mpsrun" sh -c "'$guest' run && '$guest' run"
row 'through env' "$mpsrun" env NAME=1 "$guest" run
row 'through Python' "$mpsrun" python3 -c "
import ctypes, subprocess, sys
cuda = ctypes.CDLL('libcuda.so.1')
n = ctypes.c_int()
r = [cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(n))]
child = subprocess.run([sys.argv[1], 'run']).returncode
print(r, n.value, 'devices, child', child)
sys.exit(r != [0, 0] or n.value < 1 or child != 0)" "$guest"
row 'libcuda.so without .1 in Python' "$mpsrun" python3 -c "
import ctypes, sys
sys.exit(ctypes.CDLL('libcuda.so').cuInit(0))"
row 'env -i leaves no trace' same env -i sh -c 'env; echo end'

row 'descriptors and threads of a CUDA program' "$mpsrun" "$guest" count
row 'fork before CUDA' "$mpsrun" "$guest" fork-before
row 'fork after CUDA' "$mpsrun" "$guest" fork-after
row 'exec and system() after CUDA' "$mpsrun" "$guest" exec
row 'all descriptors closed and reused' "$mpsrun" "$guest" close-all
row 'the same, the log among them' env MPSSHIM_LOG="debug:$work/debug" \
	"$mpsrun" "$guest" close-all
fresh
row 'a broker started by the preload is no child of the program' \
	env LD_PRELOAD="$shim" "$guest" no-child

relative_refused() {
	cd "$work" || return 1
	CUDA_MPS_PIPE_DIRECTORY=here LD_PRELOAD=$shim "$guest" run \
		>"$work/out" 2>"$work/err"
	rc=$?
	cat "$work/err"
	[ "$rc" -eq 3 ] && [ ! -e here ] && [ ! -e "$work/here" ] &&
		[ "$(grep -c '^mpsshim.*CUDA_MPS_PIPE_DIRECTORY' "$work/err")" \
			-eq 1 ]
}
row 'the preload alone refuses a relative directory' relative_refused

# One broker, wherever the program goes.
relative_settled() {
	cd "$work" || return 1
	export CUDA_MPS_PIPE_DIRECTORY=./there
	"$mpsrun" sh -c "mkdir -p sub && cd sub && '$guest' run &&
		echo \"\$CUDA_MPS_PIPE_DIRECTORY\"" >"$work/out" || return 1
	cat "$work/out"
	served=$("$bin/mpsctl" status --json |
		python3 -c 'import json, sys
print(json.load(sys.stdin)["total_clients"])')
	(cd sub && "$bin/mpsctl" --socket-dir=../there quit --force) &&
		[ "$(tail -n 1 "$work/out")" = "$work/./there" ] &&
		[ "$served" -eq 1 ] && [ ! -e sub/there ]
}
row 'mpsrun makes it absolute for the program' relative_settled

closed() {
	for how in '<&-' '>&-' '2>&-' '<&- >&- 2>&-' '<&- 2>&-' '>&- 2>&-'; do
		[ "$1" = there ] || fresh
		eval "\"\$mpsrun\" \"\$guest\" twice $how" ||
			{ echo "$how: $?"; return 1; }
	done
}
row 'standard descriptors closed, broker there' closed there
row 'standard descriptors closed, broker started' closed fresh

# As in a container: nothing of the host but files, the socket among them.
contained() {
	unshare --pid --ipc --net --uts --fork --mount-proc \
		"$mpsrun" "$guest" run
}
if unshare --pid --ipc --net --uts --fork --mount-proc true 2>/dev/null; then
	"$mpsrun" true
	row 'in PID, IPC and network namespaces of its own' contained
else
	skip 'in PID, IPC and network namespaces of its own' \
		'none may be made here'
fi

at_once() {
	n=0 pids='' bad=0
	while [ "$n" -lt 32 ]; do
		"$mpsrun" "$guest" run >"$work/at_once.$n" 2>&1 &
		pids="$pids $!"
		n=$((n + 1))
	done
	for pid in $pids; do
		wait "$pid" || bad=$((bad + 1))
	done
	served=$("$bin/mpsctl" status --json |
		python3 -c 'import json, sys
print(json.load(sys.stdin)["total_clients"])')
	echo "$bad of 32 failed, one broker served $served"
	[ "$bad" -eq 0 ] && [ "$served" -eq 32 ]
}
fresh
row '32 start at the same time, one broker' at_once

# With a worker that takes its time, as a real driver does.
printf '#!/bin/sh\nsleep 2\nexec "%s" "$@"\n' "$(readlink -f "$bin/mpsd-worker")" \
	>"$work/slow-worker"
chmod +x "$work/slow-worker"
in_alarms() {
	"$mpsrun" "$guest" alarms
}
fresh
export MPSSHIM_WORKER=$work/slow-worker
row 'interrupted 10000 times a second' in_alarms
unset MPSSHIM_WORKER

# ---- limits -----------------------------------------------------------------

limited() {
	(ulimit "$1" "$2" && works_or_refuses "$mpsrun" "$guest" run)
}
limited_guest() {
	(ulimit "$1" "$2" &&
		LD_PRELOAD=$shim works_or_refuses "$guest" run)
}
row 'RLIMIT_NOFILE 16' limited -n 16
row 'RLIMIT_NOFILE 8' limited -n 8
row 'RLIMIT_NOFILE 4, preloaded' limited_guest -n 4
row 'RLIMIT_AS 100 MB, preloaded' limited_guest -v 100000
row 'RLIMIT_AS 8 GB' limited -v 8000000
# What it prints must not go to a file itself.
file_size() {
	set -o pipefail
	(ulimit -f 0 && works_or_refuses "$mpsrun" "$guest" twice 2>&1) | cat
}
file_size_works() {
	set -o pipefail
	(ulimit -f 0 && "$mpsrun" "$guest" twice 2>&1) | cat
}
row 'RLIMIT_FSIZE 0, broker there' file_size_works
fresh
row 'RLIMIT_FSIZE 0, broker started' file_size
fresh
row 'RLIMIT_NOFILE 20, broker started' limited -n 20
row 'the broker still serves' "$mpsrun" "$guest" run
finish_rows
