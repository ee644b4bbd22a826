import json
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.records.run import load_header, save_header
from tests.analysis.synthetic import header


def test_header_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    save_header(tmp_path, header(precision=0.05, facts={"cores": 2, "caches": [{"level": 3}]}))
    save_header(tmp_path, header(finished_s=None))
    assert load_header(tmp_path) == header(finished_s=None)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a run folder \(no run\.json\)"):
        load_header(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "EOF while parsing"),
        ("[1]", "file: "),
        (json.dumps({**header().as_dict(), "pairs_cap": "many"}), "pairs_cap: "),
        (json.dumps({**header().as_dict(), "schema": 5}), "schema: 5 found; allowed: 2 to 4"),
        (json.dumps({**header().as_dict(), "schema": 1}), "schema: 1 found; allowed: 2 to 4"),
    ],
)
def test_bad_header_is_named_by_file_and_field(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError) as error:
        load_header(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}/run.json: ")
    assert words in str(error.value)
