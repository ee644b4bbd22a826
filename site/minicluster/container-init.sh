#!/bin/sh
# Process 1 of a container: sets its host name and private mounts, then waits and reaps processes.
# So the node's other processes outlive slurmd.
# usage: container-init.sh HOSTNAME STATE_FOLDER CGROUP_KIND
set -eu

name=$1 state=$2 kind=$3
hostname "$name"
mount -t proc proc /proc
mount -t tmpfs shm /dev/shm
mount --bind "$state/hosts" /etc/hosts

# A /sys of this network namespace, so that interface counters are the node's. It has this
# container's part of the cgroup tree, since slurmd uses the root that it sees.
mount -t sysfs sysfs /sys
case $kind in
v1)
    mount -t tmpfs cgroup /sys/fs/cgroup
    mkdir /sys/fs/cgroup/freezer
    mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer
    ;;
v2)
    mount -t cgroup2 cgroup /sys/fs/cgroup
    # A group with processes of its own cannot pass controllers on: move this one out of the root.
    mkdir -p /sys/fs/cgroup/init /sys/fs/cgroup/system.slice
    echo 1 > /sys/fs/cgroup/init/cgroup.procs
    ;;
esac

: > "$state/run/$name.ready"
while :; do
    sleep 3600 &
    wait
done
