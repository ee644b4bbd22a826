#!/bin/sh
# Starts one container of the minicluster: a process in its own network, UTS, IPC, mount, PID and
# cgroup namespaces. Killing it kills everything that was started in it.
# usage: container.sh NETWORK_NAMESPACE HOSTNAME STATE_FOLDER CGROUP_KIND [CGROUP]
set -eu

netns=$1 name=$2 state=$3 kind=$4 cgroup=${5:-}
here=$(dirname "$0")
[ -z "$cgroup" ] || echo $$ > "$cgroup/cgroup.procs"
exec nsenter --net="/run/netns/$netns" \
    unshare --uts --ipc --mount --pid --cgroup --fork --kill-child \
    sh "$here/container-init.sh" "$name" "$state" "$kind"
