"""What an earlier block of a case measured: kept, and used on the same nodes only."""

import pytest

from nimc.base.errors import MachineError
from nimc.node.allocation import Allocation
from nimc.node.alone import Alone, keep, kept
from nimc.node.evidence.claims import Count
from nimc.records.treatment import Writes

WRITES = Writes("perftest", 65536, rate_share=0.25, devices=("mlx5_0",))


def alone(target="n1", rate_b_s=5e9):
    counted = {target: Count("rdma:mlx5_0/1", 15_000_000_000, 3.0)}
    return Alone([target], ["n9"], WRITES, [rate_b_s], counted, 1.2, 0.6)


def test_what_blocks_kept_comes_back_for_their_nodes(tmp_path):
    for block, found in [("0", alone()), ("0", alone(rate_b_s=6e9)), ("1", alone("n2"))]:
        (tmp_path / block).mkdir(exist_ok=True)
        keep(tmp_path / block, found)
    assert kept(tmp_path, Allocation(["n1"], ["n9"])) == [alone(), alone(rate_b_s=6e9)]
    assert kept(tmp_path, Allocation(["n2"], ["n9"])) == [alone("n2")]
    assert kept(tmp_path, Allocation(["n1"], ["n2"])) == []
    assert kept(tmp_path / "none", Allocation(["n1"], ["n9"])) == []


@pytest.mark.parametrize("text", ["", "{}", '[{"targets": ["n1"]}]'])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "0").mkdir()
    (tmp_path / "0/alone.json").write_text(text)
    with pytest.raises(MachineError, match=r"0/alone\.json: not what a block wrote"):
        kept(tmp_path, Allocation(["n1"], ["n9"]))
