"""Finds what can run on this machine: its hosts, nodes, Slurm and ReFrame's environments."""
