"""Builds workloads with a pinned Spack, which is isolated from the user's own Spack.

Each machine has a store of its own.
"""
