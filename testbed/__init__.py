"""A real Slurm cluster on one host, for tests without a machine.

`spec` has options, paths and names. `namespaces` and `containers` create the controller and, for
the veth fabric, the nodes; `vm` creates the nodes of the rxe fabric. `daemons` writes Slurm's files
and starts Slurm on the nodes. `cluster` implements up, status and down.
"""
