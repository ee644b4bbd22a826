"""Slurm: what its commands print (`parse`), who asks them (`client`), its options (`options`).

`steps` ends its job steps, and `outages` notices that it does not answer.
"""
