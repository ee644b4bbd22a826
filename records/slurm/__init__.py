"""Slurm.

What its commands print (`parse`), who asks them (`client`), its options (`options`), and the ends of
its steps (`steps`).
"""
