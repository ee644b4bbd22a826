"""A real Slurm cluster on one host, for tests without a machine.

`spec` has options, paths and names; `namespaces` and `containers` (for the rxe fabric `vm`) create
the nodes; `daemons` renders Slurm's files and starts it on them; `cluster` implements up, status
and down.
"""
