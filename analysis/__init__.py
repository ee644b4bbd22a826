"""Analysis of samples: estimates, models, plots and reports. Independent of Slurm and ReFrame."""
