"""Slurm: what its commands print (`parse`, `parse_nodes`), calls of them (`client`), `options`.

`steps` ends job steps, and `outages` notices that Slurm does not answer.
"""
