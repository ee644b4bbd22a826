"""A real Slurm cluster on one host, for tests without a machine.

`spec` has options, paths and names. `namespaces` and `containers` create the nodes, for the rxe
fabric with `vm`. `daemons` writes Slurm's files and starts Slurm on the nodes. `cluster` implements
up, status and down.
"""
