"""The metadata in a crate, and the comparison of its report with a repeated analysis."""

import json
from typing import Any

import pytest

from nimc.crate.metadata import METADATA_FILE, descriptions
from nimc.crate.reproduce import compared_files
from tests.analysis.synthetic import header

#: 2026-01-01 00:00:00 UTC as a Unix time, by date(1), and two days and an hour later.
BEGAN_S, ENDED_S = 1_767_225_600.0, 1_767_225_600.0 + 49 * 3600
BEGAN, ENDED = "2026-01-01T00:00:00+00:00", "2026-01-03T01:00:00+00:00"


def described(
    license_: str, authors: list[str], **changes: Any
) -> tuple[dict[str, bytes], dict[str, dict[str, Any]]]:
    """Return the files that describe a crate, and the entities of its metadata by their id."""
    run_header = header(**{"started_s": BEGAN_S, "finished_s": ENDED_S, **changes})
    files = descriptions(run_header, license_, authors)
    return files, {entity["@id"]: entity for entity in json.loads(files[METADATA_FILE])["@graph"]}


def test_metadata_of_a_finished_run_of_one_author_and_of_an_unfinished_run_of_two() -> None:
    files, entities = described("CC0-1.0", ["Muster, Eva"], commit="c0ffee")
    root, run = entities["./"], entities["#run"]
    assert (root["datePublished"], run["startTime"], run["endTime"]) == (ENDED, BEGAN, ENDED)
    assert root["author"] == run["agent"] == {"@id": "#author-0"}
    assert entities["#author-0"] == {"@id": "#author-0", "@type": "Person", "name": "Muster, Eva"}
    assert root["license"]["@id"] == "https://creativecommons.org/publicdomain/zero/1.0/"
    nimc = entities["#nimc"]
    assert (nimc["softwareVersion"], nimc["version"]) == ("0, c0ffee", "0, c0ffee")
    assert "url" not in nimc
    assert b"CC0-1.0, https://creativecommons.org/publicdomain/zero/1.0/" in files["LICENSE"]
    _, without = described("CC-BY-4.0", ["A", "B"], finished_s=None)
    assert without["./"]["datePublished"] == without["#run"]["endTime"] == BEGAN
    assert without["./"]["author"] == [{"@id": "#author-0"}, {"@id": "#author-1"}]
    assert without["#author-1"]["@type"] == "Organization"


@pytest.mark.parametrize(
    ("name", "old", "new", "state"),
    [
        ("a.html", b"<p>1", b"<p>1", "the same"),
        ("a.html", b"<p>1.0", b"<p>1.00", "differs"),
        # Processors may add numbers in different orders.
        ("a.json", b'{"x": 1.0}', b'{"x": 1.0000000001}', "the same to nine digits"),
        ("a.json", b'{"x": 1.0}', b'{"x": 1.00000001}', "differs"),
        ("a.json", b'{"x": 1.0', b'{"x": 1.0}', "differs"),
    ],
)
def test_the_last_digits_of_figures_may_differ(
    name: str, old: bytes, new: bytes, state: str
) -> None:
    assert compared_files({f"report/{name}": old}, {name: new}) == {name: state}
