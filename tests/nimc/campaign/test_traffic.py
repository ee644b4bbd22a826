"""`traffic` of a campaign: a trace, alone or with how it is scaled."""

from pathlib import Path

import pytest

from nimc.campaign.plan import command
from records.traffic import formats
from tests.nimc.campaign.made_request import made_machine, made_request
from tests.nimc.campaign.test_load import SMALL, faults, load
from tests.records.traffic.made import PLAIN


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(PLAIN)
    formats.trace([formats.read(tmp_path / "t.csv")]).save(tmp_path / "t.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("t.parquet", ["speed=1", "rate=100%"]),
        ("{trace: t.parquet, speed: 10, rate: 50%}", ["speed=10", "rate=50%"]),
        ("{trace: t.parquet, nodes: [n2, n1]}", ["speed=1", "rate=100%", "nodes=n2,n1"]),
    ],
)
def test_checks_get_the_trace_next_to_the_campaign(
    folder: Path, asked: str, given: list[str]
) -> None:
    campaign = load(folder, f"{SMALL}traffic: {asked}\n")
    words = command(made_request(campaign, made_machine()), campaign.workloads[0], 0, 6, "/r")
    found = {word for word in words if word.startswith("stream.traffic")}
    trace = f"stream.traffic={folder.resolve() / 't.parquet'}"
    assert found == {trace, *(f"stream.traffic_{each}" for each in given)}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("u.parquet", "traffic: u.parquet does not exist"),
        ("t.csv", "t.csv: not a trace"),
        ("{trace: t.parquet, rate: 0%}", "traffic.rate: '0%' is not a share above 0"),
        ("{trace: t.parquet, speed: 0}", "traffic.speed: 0 found"),
        ("{trace: t.parquet, nodes: ['a b']}", "traffic.nodes[0]: 'a b' found"),
        ("{speed: 2}", "traffic.trace: missing"),
        ("7", "traffic: 7 found"),
    ],
)
def test_what_is_refused(folder: Path, asked: str, said: str) -> None:
    (line,) = faults(folder, f"{SMALL}traffic: {asked}\n")
    assert said in line
