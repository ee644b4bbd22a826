"""`traffic` of a campaign: a trace, alone or with how it is scaled."""

from pathlib import Path

import pytest

from records.chain import file_digest
from records.traffic import formats
from records.treatment import Replay
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
        ("t.parquet", (1, 1.0, ())),
        ("{trace: t.parquet, speed: 10, rate: 50%}", (10, 0.5, ())),
        ("{trace: t.parquet, nodes: [n2, n1]}", (1, 1.0, ("n2", "n1"))),
    ],
)
def test_writers_follow_the_trace_next_to_the_campaign(
    folder: Path, asked: str, given: tuple[int, float, tuple[str, ...]]
) -> None:
    campaign = load(folder, f"{SMALL}traffic: {asked}\ninjector: {{name: ucx}}\n")
    request = made_request(campaign, made_machine())
    off, on, *_ = request.treatments["stream"]
    assert off.writes is None
    assert on.writes
    assert on.writes.replay == Replay(file_digest(folder / "t.parquet"), *given)
    assert "traffic" in on.notes[0]


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
