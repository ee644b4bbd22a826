"""What can run here: this host, its nodes, Slurm, and ReFrame's environments."""
