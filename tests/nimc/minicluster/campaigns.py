"""A campaign that a minicluster of two targets can run."""

CAMPAIGN = """
name: tiny
title: LAMMPS, as short as can be
workloads: [{check: lammps, set: {steps: 100}, expect: 3s}]
arms: [off, on]
pairs: {floor: 6, cap: 6}
verify: {min_share: 0.001, foreign_cpus: null, steal_share: null, frequency_drop: null}
run_timeout: 1min
"""
