#!/bin/busybox sh
# shellcheck disable=SC2154 # the kernel's command line sets nimc_*
# First program of a virtual machine, in its initramfs: puts a writable layer over the host's files,
# mounts the shared folders at their paths, and hands over to guest.sh.
# From the kernel's command line: nimc_name, nimc_address, nimc_state, nimc_site, nimc_rails,
# nimc_slurm, or nimc_probe.
set -eu
export PATH=/bin

/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# shellcheck disable=SC2013 # words are what is wanted
for word in $(cat /proc/cmdline); do
    case $word in nimc_*=*) export "${word?}" ;; esac
done
if [ -n "${nimc_probe:-}" ]; then
    echo "nimc: the probe runs" > /dev/console
    poweroff -f
fi

while read -r module; do insmod "/mods/$module.ko"; done < /mods/order

p9=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o "ro,cache=loose,posixacl,$p9" root /ro
mount -t tmpfs rw /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work root /new
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs shm /new/dev/shm
mount -t tmpfs run /new/run
mount -t tmpfs tmp /new/tmp
ln -s /proc/self/fd /new/dev/fd

# The list of shared folders is in the state folder of the read-only root.
while read -r tag folder; do
    mkdir -p "/new$folder"
    mount -t 9p -o "rw,cache=mmap,$p9" "$tag" "/new$folder"
    # Programs start much faster from a read-only, cached folder; nothing is built in a guest.
    [ ! -d "/ro$folder/.venv" ] || mount --bind "/ro$folder/.venv" "/new$folder/.venv"
done < "/ro$nimc_state/shares"

exec switch_root /new /bin/sh "$nimc_site/guest.sh" "$nimc_name" "$nimc_address" "$nimc_state" \
    "$nimc_rails" "$nimc_slurm"
