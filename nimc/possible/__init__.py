"""What can run here, and why not: of this host, its nodes, Slurm and ReFrame's environments."""
