"""A real Slurm cluster on one host, for people and tests that have no other.

`spec` says what is asked, `layout` where it lives and what it is called, `slurm_conf` renders
Slurm's files; `namespaces`, `cgroups` and `containers` (and, for the rxe fabric, `images` and `vm`)
make nodes out of this host; `daemons` starts Slurm on them; `cluster` is up, status and down.
"""
