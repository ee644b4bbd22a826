"""Outputs that a run keeps, and invalid files that are not read as outputs."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from records import run_folder
from records.errors import InputError
from records.run_folder import KeptLogs

NAME = "logs/stream/0/0-on-0.out"


def output(run: Path, text: bytes, name: str = NAME) -> Path:
    path = run / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


@pytest.mark.parametrize("needed", [True, False])
def test_an_output_is_kept_compressed_without_a_time(tmp_path, needed):
    path = output(tmp_path, b"Triad 1\n")
    # This value is from sha256sum.
    sha256 = "0220139c7ab8c18a82b5dbcaaf41900b59cb20185b33e5588e54450430d2c59f"
    assert KeptLogs(tmp_path).keep(path, needed=needed) == (NAME, sha256, False)
    kept = (tmp_path / f"{NAME}.gz").read_bytes()
    assert kept[4:8] == bytes(4)  # the field of the time, by RFC 1952
    assert gzip.decompress(kept) == b"Triad 1\n"
    assert run_folder.read_log(tmp_path, NAME) == b"Triad 1\n"


def test_a_large_output_is_not_kept_unless_it_is_needed(tmp_path):
    text = b"x" * (run_folder.MAX_LOG_B + 1)
    for needed in (False, True):
        path = output(tmp_path, text)
        named = KeptLogs(tmp_path).keep(path, needed=needed)
        assert named == (NAME, hashlib.sha256(text).hexdigest(), needed)
        assert not (tmp_path / f"{NAME}.gz").exists()
        with pytest.raises(FileNotFoundError):
            run_folder.read_log(tmp_path, NAME)


def test_the_size_of_all_outputs_together_is_limited(tmp_path, monkeypatch):
    names = [f"logs/{case}/0/0-on-{attempt}.out" for case in "ab" for attempt in range(2)]
    room_b = 3 * len(gzip.compress(b"Triad\n", mtime=0))
    monkeypatch.setattr(run_folder, "MAX_RUN_LOGS_B", room_b)
    for case in "ab":  # each case has one block
        kept = KeptLogs(tmp_path)
        for name in (log for log in names if f"/{case}/" in log):
            kept.keep(output(tmp_path, b"Triad\n", name), needed=False)
    assert [(tmp_path / f"{name}.gz").exists() for name in names] == [True, True, True, False]


def test_a_damaged_or_foreign_file_is_not_read_as_an_output(tmp_path):
    path = output(tmp_path, b"", f"{NAME}.gz")
    whole = gzip.compress(b"x" * 99)
    endless = gzip.compress(bytes(run_folder.MAX_LOG_B + 1))
    for text in (b"", b"x", whole[:-9], whole[:-1], whole + b"y", endless):
        path.write_bytes(text)
        with pytest.raises(InputError, match=r"cannot be read|is longer than"):
            run_folder.read_log(tmp_path, NAME)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        run_folder.read_log(tmp_path, NAME)
    path.unlink()
    path.symlink_to(output(tmp_path, b"x", "elsewhere"))
    with pytest.raises(InputError, match="cannot be read"):
        run_folder.read_log(tmp_path, NAME)
