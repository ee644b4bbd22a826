"""The veth fabric: every node is a container on the bridge."""

from __future__ import annotations

from pathlib import Path

from minicluster import containers, namespaces
from minicluster import containers as cgroups
from minicluster.daemons import CONTROL
from minicluster.spec import ClusterLayout, Node


def start_nodes(
    layout: ClusterLayout,
    nodes: list[Node],
    subnet: str,
    kind: cgroups.Kind,
    groups: dict[str, Path],
) -> None:
    """Start the nodes' containers; return when all can be entered."""
    for node in nodes:
        containers.launch(layout, node.name, kind, groups.get(node.name))
        namespaces.plug_node(layout.netns(CONTROL), layout.netns(node.name), node.index, subnet)
    for node in nodes:
        containers.wait_ready(layout, node.name)


def pid(layout: ClusterLayout, name: str) -> int | None:
    """Id on this host of a node's process 1, None if the node is not running."""
    return namespaces.find_inner(layout.netns(name), 1)
