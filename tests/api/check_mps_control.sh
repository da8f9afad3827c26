#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# Our nvidia-cuda-mps-control, driven as scripts drive NVIDIA's: what it
# prints, on which stream, and with which exit status was recorded from that
# of driver 580.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"
unset MPSSHIM_LOG
control=$build/mps/nvidia-cuda-mps-control
export CUDA_MPS_LOG_DIRECTORY=$work/logs
export SOFTCUDA_ACCOUNT=${SOFTCUDA_ACCOUNT-private}

# says STATUS TEXT COMMAND...: stdout is that text, stderr empty.
says() {
	status=$1
	text=$2
	shift 2
	"$@" >"$work/out" 2>"$work/err" </dev/null
	rc=$?
	cat "$work/out" "$work/err"
	[ "$rc" -eq "$status" ] && [ ! -s "$work/err" ] &&
		[ "$(cat "$work/out")" = "$text" ]
}
# answers TEXT COMMAND: the same by standard input, and status 0.
answers() {
	text=$1
	shift
	says 0 "$text" sh -c 'printf "%s" "$2" | "$1"' sh "$control" "$*"
}
# minds TEXT COMMAND: with a reason on stderr.
minds() {
	text=$1
	shift
	echo "$*" | "$control" >"$work/out" 2>"$work/err"
	rc=$?
	cat "$work/out" "$work/err"
	[ "$rc" -eq 0 ] && [ "$(wc -l <"$work/err")" -eq 1 ] &&
		[ "$(cat "$work/out")" = "$text" ]
}
server() {
	echo get_server_list | "$control"
}

# ---- no daemon ---------------------------------------------------------------

nobody() {
	for how in "$control get_server_list" "echo quit | $control"; do
		sh -c "$how" >"$work/out" 2>"$work/err"
		[ $? -eq 1 ] && [ ! -s "$work/out" ] && [ "$(cat "$work/err")" = \
			'Cannot find MPS control daemon process' ] || return 1
	done
}
row 'without a daemon it says so, status 1' nobody
version() {
	"$control" -v | grep -E 'Binary version: [0-9]+$'
}
row 'the version' version
wrong_option() {
	"$control" --zz >"$work/out" && head -n 1 "$work/out" &&
		head -n 1 "$work/out" | grep -qx 'Unrecognized option  '
}
row 'an option that is none, status 0' wrong_option

# ---- a daemon, as the Kubernetes plug-in starts it ---------------------------

start() {
	env -i MPSSHIM_DRIVER=soft SOFTCUDA_ACCOUNT="$SOFTCUDA_ACCOUNT" \
		CUDA_MPS_PIPE_DIRECTORY="$CUDA_MPS_PIPE_DIRECTORY" \
		CUDA_MPS_LOG_DIRECTORY="$CUDA_MPS_LOG_DIRECTORY" "$@" \
		"$control" -d
}
row 'a start in an empty environment' says 0 '' start
row 'control.log is there' grep -q listening "$work/logs/control.log"
pid_file=$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid
pid_there() {
	pid=$(cat "$pid_file")
	echo "pid $pid"
	[ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$bin/mpsd")" ] &&
		[ "$(wc -l <"$pid_file")" -eq 0 ]
}
row 'its pid is in a file, without a newline' pid_there
row 'a second start' says 1 'An instance of this daemon is already running' \
	start
row 'no server yet' answers '' get_server_list
row 'a command as arguments' says 0 '' "$control" get_server_list
row 'a server that is none' answers 'Server 1 not found' get_server_status 1
row 'no server named' answers 'Server 0 not found' get_client_list
row 'ps without a server' answers 'Server not found' ps
row 'an unknown command' answers 'Unknown command "lspart"' lspart
row 'an empty line' says 0 'Unknown command ""' sh -c "echo | $control"
row 'start_server without a user' answers \
	'A user id (UID) is required to start a new server' start_server
row 'start_server' says 0 '' "$control" start_server -uid "$(id -u)"
another_user() {
	minds '' start_server -uid 12345 && grep -q alone "$work/err"
}
row 'start_server for another user is refused' another_user
one_server() {
	pid=$(server)
	echo "server $pid"
	[ -d "/proc/$pid" ] && answers ACTIVE get_server_status "$pid" &&
		answers '' get_client_list "$pid"
}
row 'there is one server then, and it is active' one_server
several() {
	says 0 "$(server)
0" sh -c "printf 'get_server_list\nget_default_client_priority\n' | $control"
}
row 'two commands in a session' several

# ---- devices and clients -----------------------------------------------------

devices() {
	"$control" device_query >"$work/out" && cat "$work/out" || return 1
	grep -qE '^Device Ordinal  PCI IDs        UUID {38}Name {30}Attributes$' \
		"$work/out" &&
		grep -qE '^0 {15}[0-9a-f]{4}:[0-9a-f]{2}\.[0-9a-f]{2}\.00  GPU-[0-9a-f-]{36}  .* +N/A$' \
			"$work/out" && grep -qx "Server $(server)" "$work/out" &&
		[ "$("$control" device_query --csv | grep -c '^0,')" -eq 2 ]
}
row 'device_query' devices

# A program that has a context until a call of it fails: which says why.
cat >"$work/client.py" <<'PROGRAM'
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
ctx, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0)
assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0)
assert not cuda.cuCtxSetCurrent(ctx)
print("ready", cuda.cuMemAlloc_v2(ctypes.byref(memory),
                                  ctypes.c_size_t(int(sys.argv[1]) << 20)),
      flush=True)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
for i in range(600):
    # The first is between it and the worker, the others ask the broker.
    if len(sys.argv) < 3:
        r = cuda.cuCtxSynchronize()
    elif sys.argv[2] == "frees":
        r = os.path.exists(sys.argv[3]) and cuda.cuMemFree_v2(memory)
    else:
        r = cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    if r:
        print("error", r, flush=True)
        break
    time.sleep(0.05)
PROGRAM
# client NAME MIB [asks|frees WHEN]: its output in NAME, its pid in NAME.pid.
client() {
	"$mpsrun" python3 "$work/client.py" "${@:2}" >"$work/$1" 2>&1 &
	echo $! >"$work/$1.pid"
	for _ in $(seq 300); do
		grep -q ready "$work/$1" && break
		sleep 0.1
	done
	cat "$work/$1"
	grep -q ready "$work/$1"
}
row 'a program' client a 1
row 'another' client b 1
listed() {
	pid=$(server)
	a=$(cat "$work/a.pid") b=$(cat "$work/b.pid")
	[ "$("$control" get_client_list "$pid" | sort -n)" = \
		"$(printf '%s\n' "$a" "$b" | sort -n)" ] || return 1
	"$control" ps -p "$pid" >"$work/out"
	cat "$work/out"
	head -n 1 "$work/out" | grep -qx 'PID       ID        SERVER         DEVICE                    NAMESPACE      COMMAND        ' &&
		grep -qE "^$a +[0-9]+ +$pid +GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4} +[1-9][0-9]* +(/.*/)?python3$" "$work/out" &&
		grep -q "^$b " "$work/out" &&
		[ "$("$control" ps | wc -l)" -eq 3 ]
}
row 'get_client_list and ps' listed
device_clients() {
	"$control" get_device_client_list "$(server)" >"$work/out"
	cat "$work/out"
	grep -q '^\[0\] .*, ' "$work/out" &&
		grep -qx "$(cat "$work/a.pid").1" "$work/out"
}
row 'get_device_client_list' device_clients
# A program that calls itself something that a terminal would obey.
odd_name() {
	"$mpsrun" bash -c 'exec -a "$1" "$0" stay' "$T/guest_cuda" \
		"$(printf 'odd\033[31m\nname')" &
	pid=$!
	for _ in $(seq 100); do
		"$control" ps >"$work/out"
		grep -q "^$pid " "$work/out" && break
		sleep 0.1
	done
	kill "$pid"
	grep "^$pid .* odd" "$work/out" &&
		! LC_ALL=C grep -q '[^[:print:]]' "$work/out"
}
row 'ps of a program with an odd name' odd_name
terminated() {
	answers 0 terminate_client "$(server)" "$(cat "$work/a.pid")" || return 1
	for _ in $(seq 100); do
		grep -q error "$work/a" && break
		sleep 0.1
	done
	tail -n 1 "$work/a" "$work/b"
	[ "$(tail -n 1 "$work/a")" = 'error 810' ] &&
		! grep -q error "$work/b" &&
		[ "$("$control" get_client_list "$(server)")" = \
			"$(cat "$work/b.pid")" ]
}
row 'terminate_client: one gets 810, the other goes on' terminated
# Once, whatever it does.
terminated_doing() {
	rm -f "$work/now"
	client d "$@" || return 1
	answers 0 terminate_client "$(server)" "$(cat "$work/d.pid")" || return 1
	touch "$work/now"
	wait "$(cat "$work/d.pid")"
	cat "$work/d"
	[ "$(tail -n 1 "$work/d")" = 'error 810' ] &&
		[ "$(grep -c '^mpsshim' "$work/d")" -eq 1 ]
}
row 'terminate_client: so does who asks the broker then' \
	terminated_doing 1 asks
row 'terminate_client: and who gives memory back' \
	terminated_doing 900 frees "$work/now"
# What is not given back by five of them is missed by the next one.
ended_often() {
	for i in $(seq 5); do
		client "c$i" 900 || return 1
		answers 0 terminate_client "$(server)" \
			"$(cat "$work/c$i.pid")" || return 1
		wait "$(cat "$work/c$i.pid")"
		grep -qx 'ready 0' "$work/c$i" || return 1
	done
}
row 'terminate_client: its memory is there again' ended_often
row 'terminate_client of a server that is none' \
	answers 'Server 1 not found
Server 1 not found!
1' terminate_client 1 2
no_client() {
	minds 1 terminate_client "$(server)" 1 &&
		grep -qx 'no such client' "$work/err"
}
row 'terminate_client of a client that is none' no_client

# ---- settings ----------------------------------------------------------------

row 'the percentage' answers 100.0 get_default_active_thread_percentage
row 'a percentage is not taken, and that is said' \
	minds 100.0 set_default_active_thread_percentage 50
row 'of a server, too' \
	minds 100.0 set_active_thread_percentage "$(server)" 30
row '100 is what there is' answers 100.0 \
	set_default_active_thread_percentage 100
row 'a priority that is none' \
	answers 'Invalid priority value - must be 0 or 1!' \
	set_default_client_priority 7
row 'the priority' answers 0 get_default_client_priority
row 'a lower one is not taken, and that is said' \
	minds '' set_default_client_priority 1
row 'no limit' answers '' get_default_device_pinned_mem_limit 0
row 'a limit that is none' minds '' \
	set_default_device_pinned_mem_limit 0 abc
row 'a limit of a device that is none' minds '' \
	set_default_device_pinned_mem_limit 77 64MB
row 'sets none' answers '' get_default_device_pinned_mem_limit 0
row 'quit in a time that is none' minds '' quit -t abc
row 'a server ends with its daemon' minds '' shutdown_server "$(server)"
row 'a limit' answers '' set_default_device_pinned_mem_limit 0 64MB
row 'is told' answers 64M get_default_device_pinned_mem_limit 0
row 'of the server, too' answers 64M get_device_pinned_mem_limit "$(server)" 0
limited() {
	client c 128 && grep -q 'ready 2' "$work/c" && client d 32 &&
		grep -q 'ready 0' "$work/d"
}
row 'and binds' limited

# ---- variables of a program --------------------------------------------------

own_limit() {
	export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=16M
	client e 24 && grep -q 'ready 2' "$work/e" && client f 8 &&
		grep -q 'ready 0' "$work/f"
}
row 'a program may want less' own_limit
named() {
	env "$@" "$mpsrun" "$T/guest_cuda" run >"$work/out" 2>"$work/err"
	rc=$?
	cat "$work/err"
	[ "$rc" -eq 0 ] && [ "$(wc -l <"$work/err")" -eq 1 ]
}
row 'what it sets without effect is named' \
	named CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50
refused() {
	env "$@" "$mpsrun" true >"$work/out" 2>"$work/err"
	rc=$?
	cat "$work/err"
	[ "$rc" -eq 125 ] && [ "$(wc -l <"$work/err")" -eq 1 ]
}
row 'and what is not understood is refused' \
	refused CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1G

# ---- the end -----------------------------------------------------------------

timed_quit() {
	says 0 '' sh -c "echo 'quit -t 1' | $control" || return 1
	! "$bin/mpsctl" ping 2>/dev/null
}
row 'quit -t ends it with its programs' timed_quit
row 'nobody is there' nobody
row 'nor the file' test ! -e "$pid_file"
row 'limits by the environment' says 0 '' start \
	CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2G,1=512MB
row 'the smallest is it' answers 512M get_default_device_pinned_mem_limit 0
row 'quit' answers '' quit
ineffective() {
	start CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 >"$work/out" 2>"$work/err"
	rc=$?
	cat "$work/err"
	[ "$rc" -eq 0 ] && [ ! -s "$work/out" ] &&
		grep -q '^CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 has no effect' \
			"$work/err"
}
row 'a variable without effect is named' ineffective
row 'quit by arguments' says 0 '' "$control" quit
finish_rows
