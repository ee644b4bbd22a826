"""Machines in a box: hand-made copies of what the kernel and Slurm show on a machine.

There is a folder for each machine, made from public facts. To add a machine, add a folder with
these files:

    kernel.txt     files of /proc and /sys, one on each line, and the sources of the facts
    answers.yaml   what programs of Slurm, of modules and of MPI print
    right.yaml     the right results of `nimc init`, `doctor` and `plan`, and of the first job
                   script; they are worked out by hand
"""
