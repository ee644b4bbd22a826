#!/bin/sh
# Runs a program. On rank 0 it then prints the file that the program wrote, since figures are read
# from standard output only.
# usage: show_after.sh PATTERN PROGRAM [ARGUMENT...]
pattern=$1
shift
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
# shellcheck disable=SC2086  # the pattern is to be expanded
[ "$rank" != 0 ] || rm -f -- $pattern
"$@" || exit
# shellcheck disable=SC2086
[ "$rank" != 0 ] || cat -- $pattern
