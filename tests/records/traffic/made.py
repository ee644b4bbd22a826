"""Monitoring files whose traffic is known by hand."""

import json
from collections.abc import Mapping, Sequence

IB = "node_infiniband_port_data_received_bytes_total"
ETHERNET = "node_network_receive_bytes_total"
#: n1 is known from 100 to 107 s, and for a second from 109 s; n2 from 100 to 107 s.
PLAIN = """\
time_s,node,bytes
100,n1,0
101,n1,1000
102,n1,1000
103,n1,0
104,n1,0
105,n1,500
106,n1,0
109,n1,0
100,n2,0
101,n2,0
102,n2,800
103,n2,0
104,n2,0
105,n2,0
106,n2,0
"""


def answer(series: Sequence[tuple[Mapping[str, str], Sequence[tuple[float, str]]]]) -> str:
    """As Prometheus answers query_range (its documentation, 'Range queries')."""
    result = [{"metric": labels, "values": [*map(list, values)]} for labels, values in series]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def labels(node: str = "n1", device: str = "mlx5_0", name: str = IB) -> dict[str, str]:
    found = {"__name__": name, "job": "node", "instance": f"{node}:9100", "device": device}
    return found | ({"port": "1"} if name == IB else {})


def counted(
    counts: Sequence[int], start_s: int = 1000, every_s: int = 1, name: str = ETHERNET
) -> str:
    """What Prometheus answers of one counter of n1."""
    values = [(start_s + every_s * scrape, str(count)) for scrape, count in enumerate(counts)]
    return answer([(labels(name=name), values)])
