#!/bin/sh
# slurmd adds what this prints to the environment of every task and batch script.
# All nodes share the host's cores: left alone, each would bind its first rank to core 0.
echo export OMPI_MCA_hwloc_base_binding_policy=none
echo export OMPI_ALLOW_RUN_AS_ROOT=1
echo export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
