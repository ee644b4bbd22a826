"""Slurm: calls of its commands (`client`), their `options`, parsers (`parse`, `parse_nodes`).

`steps` ends job steps, and `outages` notices that Slurm does not answer.
"""
