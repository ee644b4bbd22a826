import json

import pytest
from click.testing import CliRunner

from nimc.base.errors import InputError
from nimc.cli.main import cli
from nimc.cluster.remedies import ROOT_REMEDIES, values


def output(*words: str) -> str:
    done = CliRunner().invoke(cli, ["remedy", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_all_remedies_are_listed():
    listed = json.loads(output("list", "--json"))["remedies"]
    assert [row["name"] for row in listed] == list(ROOT_REMEDIES)
    assert all(name in output("list") for name in ROOT_REMEDIES)


def test_a_part_alone_is_what_the_whole_page_and_the_document_hold():
    words = ["irq_affinity", "--set", "cpus=9,8", "--set", "device=mlx5_1"]
    document = json.loads(output("show", *words, "--json"))
    assert document["values"] == {"device": "mlx5_1", "cpus": "8-9"}
    page = output("show", *words)
    for part in ("prolog", "epilog", "unit"):
        text = output("show", *words, "--part", part)
        assert text == document[part]
        assert text in page


def test_the_trap_of_mba_is_said():
    assert "It slows the application's cores, not the NIC" in output("show", "mba")


def test_the_unit_runs_the_epilog_before_slurm_starts():
    unit = output("show", "cat", "--part", "unit").splitlines()
    assert "ExecStart=/etc/slurm/epilog.d/nimc-cat" in unit
    assert "Before=slurmd.service" in unit


@pytest.mark.parametrize(
    ("name", "word", "allowed"),
    [
        ("irq_affinity", "device=a b", "name of an RDMA device"),
        ("irq_affinity", "device=$(id)", "name of an RDMA device"),
        ("irq_affinity", "device=../../x", "name of an RDMA device"),
        ("irq_affinity", "cpus=", "CPUs such as 0-3,8"),
        ("irq_affinity", "cpus=3-1", "CPUs such as 0-3,8"),
        ("cat", "mask=5", "adjacent cache ways"),
        ("cat", "mask=0", "adjacent cache ways"),
        ("cat", "mask=f;reboot", "adjacent cache ways"),
        ("mba", "percent=0", "1 to 100"),
        ("mba", "percent=101", "1 to 100"),
        ("mlnx_qos", "limits=1,2", "8 whole Gbit/s"),
        ("mlnx_qos", "limits=1,2,3,4,5,6,7,2.5", "8 whole Gbit/s"),
        ("mba", "cpus=1", "percent=VALUE"),
    ],
)
def test_values_that_do_not_belong_into_a_script_of_root_are_refused(name, word, allowed):
    with pytest.raises(InputError, match=allowed):
        values(ROOT_REMEDIES[name], [word])


def test_an_unknown_remedy_names_the_known_ones():
    with pytest.raises(InputError, match="smba: no such remedy; allowed: irq_affinity, cat"):
        CliRunner().invoke(cli, ["remedy", "show", "smba"], catch_exceptions=False)


def test_masks_and_lists_are_written_as_the_kernel_prints_them():
    assert values(ROOT_REMEDIES["cat"], ["mask=0x0F0"]) == {"mask": "f0"}
    assert values(ROOT_REMEDIES["irq_affinity"], ["cpus=3,1,2,7"])["cpus"] == "1-3,7"
