#!/bin/sh
# Starts a minicluster, runs STREAM and LAMMPS with and without writers on it, shows Slurm's accounting,
# and stops it.      usage: try.sh [veth|rxe]      (as root, after install.sh)
set -eu
fabric=${1:-veth}
root=$(cd "$(dirname "$0")/../.." && pwd)
state=/tmp/nimc-try-$$
work=$root/stage/try-$$
nimc=${NIMC:-$root/.venv/bin/nimc}

# An emulated processor takes minutes for what takes seconds elsewhere, so rxe has fewer steps.
# machine.yaml makes STREAM's arrays smaller there; its samples say so. Runs that are too short for
# the writers' rows are lengthened (docs/method.md).
case $fabric in
veth) pairs=6 steps=300 iterations=40 ;;
rxe) pairs=2 steps=10 iterations=5 ;;
*)
    echo 'usage: try.sh [veth|rxe]' >&2
    exit 2
    ;;
esac

# A signal ends first ReFrame, which cancels its jobs, and then the cluster.
session=
trap '[ -z "$session" ] || { kill "$session"; wait "$session"; } || true
"$nimc" minicluster down --state "$state"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$work"
"$nimc" minicluster up --nodes "$([ "$fabric" = rxe ] && echo 2 || echo 4)" --origins 1 \
    --fabric "$fabric" --state "$state"
export NIMC_MINICLUSTER="$state" SLURM_CONF="$state/slurm.conf"
cd "$root"
PYTHONPATH=$root "$(dirname "$nimc")/reframe" -C configs/minicluster.py --prefix="$work" \
    -c reframe_tests -R -n '^(stream|lammps)_quick$' -r --performance-report \
    -S arms=off,on -S pairs="$pairs" -S lammps_quick.steps="$steps" \
    -S stream_quick.iterations="$iterations" &
session=$!
wait "$session"
session=
# Slurm's accounting records a job's start up to five seconds late.
sleep 6
sacct -X --format=jobid,partition,nodelist,state,elapsed
