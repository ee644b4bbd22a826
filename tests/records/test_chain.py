"""The chain over samples, which shows whether one of them was changed afterwards.

The value of a line is a SHA-256 over the value of the line before it and its own content. Expected
digests were made with `printf` and `sha256sum`.
"""

import json
from pathlib import Path

import pytest

from records import chain

HEADER = {"started_s": 1.5, "run": "r", "facts": {"cpu": "é"}, "finished_s": None, "head": None}
#: SHA-256 of the text {"facts":{"cpu":"\u00e9"},"run":"r","started_s":1.5}
HEADER_DIGEST = "1675c7d568d7463bb04dbab91fe092b6d3daad72a49f93e95eeb439c4e30e1a5"
#: SHA-256 of the text of `HEADER_DIGEST`, followed by `stream`. The first line follows this value.
GENESIS = "7f380ff4771b0a450ab2fc8bd008db81f7497983ef54503c903f4e9481c079a5"
FIRST = b'{"key":"a","fom":2.5'
#: SHA-256 of `GENESIS` and `FIRST`; then SHA-256 of that value and {"key":"b","fom":3.0
VALUES = [
    "4b9323e11b6bb812f71a4aeafd6e5ee8f43d75220ee8041d6f9b8b551bb34cea",
    "e74aa2d508105bf4bbc07db784ef3cb08e291f986b328ca4b370b561e2ce9c34",
]
#: Value of a line with the content {"key":"c" that is the first line of another case, `lammps`.
LAMMPS_VALUE = "c3a351f0c55988c58b413040cf1b73d7e588a64a1e08310328a15dcaab8935ed"
#: The head of a run covers the last values of all its cases.
HEAD = "abb86728880a80bfd8442eb40d3f915e440bc55d20b554c32e6ecd38cc6be9a4"


def lines(*contents: bytes, before: str = GENESIS) -> list[bytes]:
    """Return the lines of a file with these contents; each ends with its value."""
    written = []
    for content in contents:
        before = chain.link(before, content)
        written.append(content + b',"chain":"' + before.encode() + b'"}\n')
    return written


FOUR = lines(FIRST, b'{"key":"b","fom":3.0', b'{"key":"c","fom":3.5', b'{"key":"d","fom":4.0')


def walked(folder: Path, *parts: bytes) -> chain.FileChain:
    path = folder / "stream.jsonl"
    path.write_bytes(b"".join(parts))
    return chain.walk(path, GENESIS)


def test_values_are_those_of_sha256sum() -> None:
    assert chain.header_digest(HEADER) == HEADER_DIGEST
    assert chain.genesis(HEADER_DIGEST, "stream") == GENESIS
    line, value = chain.chained_line({"key": "a", "fom": 2.5}, GENESIS)
    assert (line, value) == (FIRST + b',"chain":"' + VALUES[0].encode() + b'"}\n', VALUES[0])
    line, value = chain.chained_line({"key": "b", "fom": 3.0}, value)
    assert value == VALUES[1]
    assert json.loads(line) == {"key": "b", "fom": 3.0, "chain": VALUES[1]}
    assert chain.head(HEADER_DIGEST, {"stream": VALUES[1], "lammps": LAMMPS_VALUE}) == HEAD


def test_a_sample_with_a_figure_that_is_not_finite_is_refused() -> None:
    for figure in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            chain.chained_line({"fom": figure}, GENESIS)


def test_the_chain_of_a_case_without_a_header_begins_with_its_name() -> None:
    genesis = "dca83e717b1f64eb141057a7415a330ad1361f51703efa2e4776f40047898a04"
    assert chain.genesis(chain.header_digest(None), "stream") == genesis


def test_the_end_of_a_run_changes_its_header_and_not_its_genesis() -> None:
    assert chain.header_digest({**HEADER, "finished_s": 2.0, "head": HEAD}) == HEADER_DIGEST
    assert chain.header_digest({**HEADER, "started_s": 1.0}) != HEADER_DIGEST


def test_a_run_has_the_head_of_its_cases(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "run.json").write_text(json.dumps(HEADER, indent=2))
    (tmp_path / "samples/stream.jsonl").write_bytes(b"".join(FOUR[:2]))
    lammps_lines = lines(b'{"key":"c"', before=chain.genesis(HEADER_DIGEST, "lammps"))
    (tmp_path / "samples/lammps.jsonl").write_bytes(b"".join(lammps_lines))
    # A case without a whole sample is left out.
    (tmp_path / "samples/begun.jsonl").write_bytes(b'{"key":"to')
    run = chain.walk_run(tmp_path)
    assert run.head == HEAD
    assert not any(file_chain.broken_lines for file_chain in run.file_chains.values())


@pytest.mark.parametrize(
    ("parts", "broken"),
    [
        (FOUR, ()),
        ([FOUR[0], FOUR[1].replace(b"3.0", b"3.1"), *FOUR[2:]], (2,)),
        ([FOUR[0], *FOUR[2:]], (2,)),  # a line was removed
        ([FOUR[0], FOUR[2], FOUR[1], FOUR[3]], (2, 3, 4)),
        ([*FOUR[:2], FOUR[1], *FOUR[2:]], (3,)),  # the line after the repeated one follows again
        ([*FOUR[:3], lines(b'{"key":"d","fom":4.0', before=VALUES[0])[0]], (4,)),
        ([*FOUR, b'{"key":"e","fom":1.0}\n'], (5,)),
        ([b"\n", *FOUR], (1,)),
        # The value of the changed line was computed anew, so the next line does not follow it.
        ([FOUR[0], *lines(b'{"key":"b","fom":9.0', before=VALUES[0]), *FOUR[2:]], (3,)),
    ],
)
def test_a_walk_names_the_lines_that_do_not_follow_the_line_before(
    tmp_path: Path, parts: list[bytes], broken: tuple[int, ...]
) -> None:
    assert walked(tmp_path, *parts).broken_lines == broken


def test_a_last_line_without_its_newline_is_ignored(tmp_path: Path) -> None:
    without = walked(tmp_path, *FOUR[:3])
    for length in range(1, len(FOUR[3])):
        assert walked(tmp_path, *FOUR[:3], FOUR[3][:length]) == without


def test_an_edit_of_any_byte_shows(tmp_path: Path) -> None:
    text = b"".join(FOUR)
    last = walked(tmp_path, text).last_value
    for index in range(len(text)):
        state = walked(tmp_path, text[:index], bytes([text[index] ^ 1]), text[index + 1 :])
        assert state.broken_lines or state.last_value != last
