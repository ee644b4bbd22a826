#!/bin/sh
# Runs an MPI rank with the environment variables for the rails (network devices) of its NUMA node.
# usage: local_rail.sh 'NODE NAME=VALUE...'... -- COMMAND...
set -eu
cpus=${NIMC_SYSROOT:-}/sys/devices/system/cpu
status_file=${NIMC_SYSROOT:-}/proc/self/status

# Prints the NUMA nodes of the CPUs that this rank may run on.
nodes_of_rank() {
    for range in $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$status_file" | tr , ' '); do
        for cpu in $(seq "${range%-*}" "${range#*-}"); do
            for node in "$cpus/cpu$cpu/node"[0-9]*; do
                [ ! -e "$node" ] || echo "${node##*node}"
            done
        done
    done | sort -u
}

nodes=$(nodes_of_rank)
[ -n "$nodes" ] || nodes=0 # a kernel without NUMA
chosen=
while [ "$1" != -- ]; do
    [ "${1%% *}" != "$nodes" ] || chosen=${1#* }
    shift
done
shift
if [ -z "$chosen" ]; then
    # shellcheck disable=SC2086 # in one line
    echo "mpi_rail: a rank may run on NUMA nodes" $nodes "; allowed: ranks bound to one of them" >&2
    exit 1
fi
# shellcheck disable=SC2086 # one word for each variable
exec env $chosen "$@"
