"""The question of what can run here: this host, its nodes, Slurm, ReFrame's environments."""
