"""Tests of the writers and origins of a scale, against Table V of the paper and hand computations.

A scale is the number of nodes of a case with the settings that depend on this number.
"""

import pytest

from analysis.subjects.paper import paper
from records.errors import InputError
from reframe_tests.scaling import ScaleRequest, ranks_per_node, request_of, resolve
from tests.records.machine import made

NIC = {"model": "QDR", "processing": "onload", "link_rate": "32Gbit/s"}  # 4 GB/s


#: A node with these facts has one core, so the counted ranks are as many as the nodes.
FACTS = {"cores": 1, "sockets": 1, "numa_nodes": 1, "llc": "40MiB", "memory": "64GiB"}


def machine(**changes):
    fields = {"origins": {"policy": "hetjob", "nodes": 3}, "facts": FACTS}
    return made.machine(**{**fields, **changes})


@pytest.mark.parametrize(
    ("cores", "spare", "counted"), [(1, 0, 0), (16, 0, 0), (17, 1, 0), (64, 0, 16), (64, 0, 1)]
)
def test_the_numbers_of_writers_are_those_of_table_5(cores, spare, counted):
    """The number of writers follows from all ranks, or from `counted` ranks of each node."""
    per_node = counted or cores - spare
    table = paper()["table_5_concurrent_writers"]
    for nodes, daly, constant in zip(
        table["node_count"], table["daly_qdr_onload"], table["constant_0.2_percent"], strict=True
    ):
        fields = {"spare_cores": spare, "counted_per_node": counted}
        request = ScaleRequest(nodes=nodes // per_node, write="1s", node_mtti="5y", **fields)
        scale = resolve(request, machine(facts={**FACTS, "cores": cores}))
        assert (scale.counted_ranks, scale.mtti_s) == (nodes, 5 * 365.25 * 86400)
        assert scale.writers == {"daly": daly, "constant": constant}
        # Each write takes one second.
        assert scale.writes_per_s == {"daly": daly, "constant": constant}
    often = resolve(ScaleRequest(nodes=8192), machine(node_mtti="1y")).writers["daly"]
    assert often > resolve(ScaleRequest(nodes=8192), machine(node_mtti="5y")).writers["daly"] == 42
    # A number of writers in the request replaces the computed number.
    scale = resolve(ScaleRequest(nodes=4, write="0.5s", writers="daly:2"), machine())
    assert scale.writers == {"daly": 2, "constant": 0}
    assert scale.writes_per_s == {"daly": 4.0, "constant": 0.0}
    # The value 0 stands for the value of the machine.
    assert ScaleRequest(nodes=1).tolerance_s == 0
    assert ScaleRequest(nodes=1).allowed_share == 0


@pytest.mark.parametrize(
    ("wanted", "changes", "origins", "writer_b_s"),
    [
        # The machine has no link rate, so all origins of the machine are used.
        (ScaleRequest(nodes=8192), {}, 3, None),
        (ScaleRequest(nodes=8192), {"nic": NIC}, 42, 4e9),
        (ScaleRequest(nodes=8192, rate="1GB/s"), {"nic": NIC}, 11, 1e9),
        (ScaleRequest(nodes=8192, rate="1GB/s", link_share=0.5), {"nic": NIC}, 21, 1e9),
        (ScaleRequest(nodes=8192, rate="3.2GB/s"), {"nic": NIC}, 42, 3.2e9),
        # Nine writers of 0.4 GB/s each fit into 90 % of the link.
        (ScaleRequest(nodes=8192, rate="0.4GB/s", link_share=0.9), {"nic": NIC}, 5, 0.4e9),
        (ScaleRequest(nodes=64), {"nic": NIC}, 1, 4e9),
        (ScaleRequest(nodes=8, writers="daly:0,constant:0"), {"nic": NIC}, 1, 4e9),
        (ScaleRequest(nodes=1, writers="daly:1"), {"origins": {"policy": "same_host"}}, 0, None),
    ],
)
def test_a_scale_needs_these_origin_nodes(wanted, changes, origins, writer_b_s):
    scale = resolve(wanted, machine(**changes))
    assert (scale.origins, scale.writer_b_s) == (origins, writer_b_s)


def test_short_writes_have_the_limits_of_the_request_or_else_of_the_machine():
    proof = {"write_tolerance": "0.3s", "write_share": 0.07}
    wanted = ScaleRequest(nodes=4, write="2s", fill=0.25, writers="constant:1")
    scale = resolve(wanted, machine(proof=proof))
    assert (scale.short.tolerance_s, scale.short.allowed_share) == (0.3, 0.07)
    assert (scale.short.length_s, scale.short.fill, scale.given_arms) == (2, 0.25, ("constant",))
    own = ScaleRequest(nodes=4, tolerance_s=0.2, allowed_share=0.01)
    short = resolve(own, machine(proof=proof)).short
    assert (short.tolerance_s, short.allowed_share) == (0.2, 0.01)


def test_a_quantity_without_a_unit_is_named_as_text():
    """YAML makes a number of `write: 2`."""
    with pytest.raises(InputError, match="write: '2'"):
        resolve(request_of({"write": 2, "steps": 100}), machine())


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (ScaleRequest(nodes=4, writers="daly:two"), "writers: 'daly:two' found"),
        (ScaleRequest(nodes=4, tolerance_s=-0.1), "tolerance_s: -0.1 found; allowed: numbers from"),
        (ScaleRequest(nodes=4, link_share=0.0), "link_share: 0.0 found; allowed: numbers above 0"),
        (ScaleRequest(nodes=4, writers="daly:5"), "writers: 5 on 4 nodes"),
        (ScaleRequest(nodes=4, writers="on:1"), "writers: 'on:1'"),
        (ScaleRequest(nodes=0), "nodes"),
        (ScaleRequest(nodes=4, write="0s"), "write"),
        (ScaleRequest(nodes=4, rate="0MB/s"), "rate: 0MB/s found; allowed: above 0"),
        (ScaleRequest(nodes=4, node_mtti="5"), "node_mtti"),
        (
            ScaleRequest(nodes=8192, link_share=0.5, rate="3GB/s"),
            "rate: one writer takes more than 50 %",
        ),
        (ScaleRequest(nodes=4, link_share=0.5), "link_share: 0.5 found; .* allowed: 1, or a rate"),
        (
            ScaleRequest(nodes=4, counted_per_node=-1),
            "counted_per_node: -1 found; allowed: whole numbers",
        ),
        (
            ScaleRequest(nodes=8, counted_per_node=65536),
            "writers: 21080 on 8 nodes; allowed: .*counted_per_node: 1",
        ),
        (
            ScaleRequest(nodes=4, link_share=1.01),
            "link_share: 1.01 found; allowed: numbers above 0",
        ),
        (ScaleRequest(nodes=4, fill=0.0), "fill: 0.0 found; allowed: numbers above 0"),
        (ScaleRequest(nodes=4, write="0 messages of 64KiB"), "write: .* writes nothing"),
        (
            ScaleRequest(nodes=4, write="46k messages of 1MiB"),
            "write: messages of 1048576 B found; the writers' messages have 65536 B",
        ),
        (ScaleRequest(nodes=4, allowed_share=1.5), "allowed_share: 1.5"),
    ],
)
def test_the_message_names_the_wrong_setting(wanted, named):
    with pytest.raises(InputError, match=named):
        resolve(wanted, machine(nic=NIC))


@pytest.mark.parametrize(
    ("wanted", "changes", "write_b"),
    [
        (ScaleRequest(nodes=64, write="2s"), {"nic": NIC}, 8e9),
        (ScaleRequest(nodes=64, write="2s", fill=0.25), {"nic": NIC}, 2e9),
        (ScaleRequest(nodes=64, write="2s", rate="1GB/s", link_share=0.5), {"nic": NIC}, 2e9),
        (ScaleRequest(nodes=64, write="500 messages of 64KiB"), {"nic": NIC}, 500 * 65536),
        (ScaleRequest(nodes=64, write="500 messages of 1MB at 1GB/s", message="1MB"), {}, 500e6),
        (ScaleRequest(nodes=64), {}, None),
    ],
)
def test_a_write_has_these_bytes(wanted, changes, write_b):
    assert resolve(wanted, machine(**changes)).write_b == write_b


def test_a_node_has_one_rank_on_each_core_that_is_not_spare():
    assert ranks_per_node(ScaleRequest(nodes=4), 16) == 16
    assert ranks_per_node(ScaleRequest(nodes=4, spare_cores=1), 16) == 15
    assert ranks_per_node(ScaleRequest(nodes=4, ranks_per_node=8, spare_cores=1), 16) == 8
    for request in (
        ScaleRequest(nodes=4, spare_cores=16),
        ScaleRequest(nodes=4, spare_cores=-1),
        ScaleRequest(nodes=4, ranks_per_node=-1),
    ):
        with pytest.raises(InputError, match=r"spare_cores: .* leave a rank on 16 cores"):
            ranks_per_node(request, 16)
