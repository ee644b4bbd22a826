"""Slurm: what its commands print (`parse`), who asks them (`client`), its options (`options`)."""
