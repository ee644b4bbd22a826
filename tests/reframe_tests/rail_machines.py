"""A made machine with two rails: two network interfaces that one job can use."""

from records.machine.site import Machine
from tests.records.machine import made


def machine(numa_nodes=8, sockets=2, rail_nodes=(3, 7), **changed) -> Machine:
    listed = [{"device": f"mlx5_{i}", "numa_node": node} for i, node in enumerate(rail_nodes)]
    facts = {"cores": 64, "sockets": sockets, "numa_nodes": numa_nodes, "nic_node": 3}
    facts |= {"llc": "1MiB", "memory": "1GiB"}
    known = {"name": "m", "device": "mlx5_0", "rails": listed, "facts": facts}
    return made.machine("same_job", **{**known, **changed})
