"""A made machine whose hosts have two NUMA nodes, for tests of a layout on NUMA nodes."""

from tests.records.machine.made import machine


def host_facts(**facts):
    known = {"cores": 16, "sockets": 2, "numa_nodes": 2, "llc": "40MiB", "memory": "64GiB"}
    return machine(facts={**known, **facts})
