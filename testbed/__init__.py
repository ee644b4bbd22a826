"""A real Slurm cluster on one host, for tests without a machine.

`spec` is the request, `layout` has paths and names, `slurm_conf` renders Slurm's files;
`namespaces`, `cgroups` and `containers` (for the rxe fabric, `images` and `vm`) create the nodes;
`daemons` starts Slurm on them; `cluster` implements up, status and down.
"""
