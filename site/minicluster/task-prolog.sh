#!/bin/sh
# slurmd adds what this prints to the environment of every task and batch script, unless the job
# says otherwise itself.
given() { # given NAME VALUE
    eval "[ -n \"\${$1:-}\" ]" || echo "export $1=$2"
}

# All nodes share the host's cores: left alone, each would bind its first rank to core 0.
given OMPI_MCA_hwloc_base_binding_policy none
given OMPI_ALLOW_RUN_AS_ROOT 1
given OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
# MPI over soft-RoCE does not get through MPI_Finalize (UCX) or warns (openib): verbs are for the
# writers, MPI goes over tcp.
given UCX_TLS tcp,self,posix
# With more interfaces or transports in it UCX's address outgrows what Slurm reads of PMI at once:
# MPI_Init fails or hangs.
given UCX_NET_DEVICES eth0
# Between namespaces MPICH hangs over UCX's tcp in most runs of miniFE, over libfabric's in none. In
# virtual machines UCX stays, since libfabric's tcp takes one interface only.
if [ ! -e /sys/class/infiniband/rxe0 ]; then
    given MPIR_CVAR_CH4_NETMOD ofi
    given FI_PROVIDER tcp
    given FI_TCP_IFACE eth0
fi
given OMPI_MCA_btl '^openib'
