"""Builds the workloads with Spack: isolated from the user's own, pinned, one store a machine."""
