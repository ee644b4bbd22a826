"""What the samples mean: estimates, models, plots and reports. Knows no Slurm and no ReFrame."""
