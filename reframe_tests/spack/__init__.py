"""Builds workloads with Spack: isolated from the user's own, pinned, one store for each machine."""
