"""Machines in a box: what the kernel and Slurm of a machine say, and what is right there.

A folder a machine, of public facts; adding one is adding a folder. `kernel.txt` has files of /proc
and /sys, a line each, and their sources; `answers.yaml` what Slurm, modules and MPI say;
`right.yaml` what `nimc init`, `doctor`, `plan` and the first job script must make of them, worked
out by hand.
"""
