#!/bin/sh
# Prints variables that slurmd adds to the environment of every task and batch script. A variable
# that the job sets is left as it is.
set_default() { # set_default NAME VALUE
    eval "[ -n \"\${$1:-}\" ]" || echo "export $1=$2"
}

# All nodes share the host's cores. Without this, each node would bind its first rank to core 0.
set_default OMPI_MCA_hwloc_base_binding_policy none
set_default OMPI_ALLOW_RUN_AS_ROOT 1
set_default OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
# MPI uses tcp: over soft-RoCE it hangs in MPI_Finalize (UCX), or warns (openib).
set_default UCX_TLS tcp,self,posix
# With more interfaces or transports, UCX's address is longer than what Slurm's PMI reads at once:
# MPI_Init fails or hangs.
set_default UCX_NET_DEVICES eth0
# Between namespaces, MPICH hangs in most runs of miniFE over UCX's tcp, and in none over libfabric's.
# Virtual machines keep UCX, since libfabric's tcp uses one interface only.
if [ ! -e /sys/class/infiniband/rxe0 ]; then
    set_default MPIR_CVAR_CH4_NETMOD ofi
    set_default FI_PROVIDER tcp
    set_default FI_TCP_IFACE eth0
fi
set_default OMPI_MCA_btl '^openib'
