#!/bin/sh
# Runs a program, and then prints on rank 0 the file that it wrote, since figures are read from
# standard output alone.   usage: show_after.sh PATTERN PROGRAM [ARGUMENT...]
pattern=$1
shift
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
# shellcheck disable=SC2086  # the pattern is to be expanded
[ "$rank" != 0 ] || rm -f -- $pattern
"$@" || exit
# shellcheck disable=SC2086
[ "$rank" != 0 ] || cat -- $pattern
