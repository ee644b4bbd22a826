#!/bin/sh
# Process 1 of a virtual machine once its files are in place: network, soft-RoCE, munged, slurmd.
# usage: guest.sh NAME ADDRESS/LENGTH STATE_FOLDER RAILS FOLDER_OF_SLURMD
set -eu

name=$1 address=$2 state=$3 rails=$4 slurm=$5
export PATH="$slurm:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root
exec < /dev/null > /dev/console 2>&1

hostname "$name"
mount --bind "$state/hosts" /etc/hosts
ip link set lo up
ip link set eth0 mtu 9000 up
ip address add "$address" dev eth0
rdma link add rxe0 type rxe netdev eth0
if [ "$rails" = 2 ]; then
    # The same address in another subnet, on a bridge of its own.
    ip link set eth1 mtu 9000 up
    ip address add "10.78.${address#*.*.}" dev eth1
    rdma link add rxe1 type rxe netdev eth1
fi
# shellcheck disable=SC3045 # busybox and dash both know it
ulimit -l unlimited

mount -t cgroup2 cgroup /sys/fs/cgroup
# A group with processes of its own cannot pass controllers on: move this one out of the root.
mkdir /sys/fs/cgroup/init /sys/fs/cgroup/system.slice
echo $$ > /sys/fs/cgroup/init/cgroup.procs
for level in '' /system.slice; do
    echo '+cpuset +cpu +memory +pids' > "/sys/fs/cgroup$level/cgroup.subtree_control"
done

# The shared folder contains the host's munge socket, which does not work in the guest.
cp "$state/munge/munge.key" /run/munge.key
chmod 600 /run/munge.key
mount -t tmpfs munge "$state/munge"
munged --force --key-file=/run/munge.key --socket="$state/munge/munge.sock" \
    --pid-file=/run/munged.pid --seed-file=/run/munged.seed --log-file=/run/munged.log \
    --num-threads=2

mkdir -p "/run/slurmd/$name"
slurmd -f "$state/slurm.conf" -N "$name"
echo "nimc: $name started slurmd $(cut -d' ' -f1 /proc/uptime) s after boot"

while :; do
    sleep 3600 &
    wait
done
