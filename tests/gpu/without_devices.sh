#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command where /dev has nothing of a GPU:
#
#	tests/gpu/without_devices.sh COMMAND...
#
# EMPTY_FILES="NAME..." are there, with nothing in them, for who looks at names.
# It becomes the command, in a mount namespace of its own, of a user namespace
# where that is what the system allows; the user stays who he is, or a broker
# outside would take him for another one. 77 where neither is allowed.
set -u
space=(unshare -m)
if ! "${space[@]}" true 2>/dev/null; then
	space=(unshare -Urm)
	[ "$(id -u)" = 0 ] || space=(unshare -Um --map-current-user --keep-caps)
	if ! "${space[@]}" true 2>/dev/null; then
		echo "no mount namespace to be had here" >&2
		exit 77
	fi
fi
# Of the old /dev it keeps what a program without a GPU finds everywhere. The
# names of the old one go with the mount, so they are tied to a folder first.
# NVML makes the nodes that it misses: nodev keeps them shut.
# shellcheck disable=SC2016
exec "${space[@]}" --propagation private bash -c '
	set -e
	new=$(mktemp -d)
	mount -t tmpfs -o mode=755,nodev none "$new"
	for name in null zero full random urandom tty; do
		: >"$new/$name"
		mount --bind "/dev/$name" "$new/$name"
	done
	for name in shm pts; do
		mkdir "$new/$name"
		mount --rbind "/dev/$name" "$new/$name"
	done
	for name in ${EMPTY_FILES:-}; do
		: >"$new/$name"
	done
	ln -s /proc/self/fd "$new/fd"
	ln -s fd/0 "$new/stdin"
	ln -s fd/1 "$new/stdout"
	ln -s fd/2 "$new/stderr"
	[ ! -e /dev/ptmx ] || ln -s pts/ptmx "$new/ptmx"
	mount --rbind "$new" /dev
	umount -l -R "$new"
	rmdir "$new"
	set +e
	exec "$@"
' without_devices "$@"
