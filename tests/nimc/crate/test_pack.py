"""A packed run has the same bytes each time, and is verified like the run itself."""

import json
import re
import tempfile
from pathlib import Path

import pytest

from nimc.crate.archive import SIGNATURE, make_zip, read_zip
from nimc.crate.pack import run_files, verify_crate
from tests.captures import RUN_QUICK
from tests.commands import Command
from tests.messages import assert_message
from tests.nimc.crate.conftest import AUTHORS, reseal


def files_in(crate: Path) -> dict[str, bytes]:
    return read_zip(crate.read_bytes())


def test_a_crate_has_the_unchanged_files_of_the_run_and_the_same_bytes_each_time(
    crate: Path, run: Path, command: Command
) -> None:
    files = files_in(crate)
    for path in filter(Path.is_file, run.rglob("*")):
        assert files[f"run/{path.relative_to(run)}"] == path.read_bytes()
    graph = json.loads(files["ro-crate-metadata.json"])["@graph"]
    names = [entity["@id"] for entity in graph]
    assert len(set(names)) == len(names)
    links = re.findall(r'\{"@id": "([^"]+)"\}', json.dumps(graph))
    assert all(link in names for link in links if not link.startswith("https://w3id.org/ro/crate"))
    for part in graph[names.index("./")]["hasPart"]:
        assert any(name.startswith(part["@id"]) for name in files)
    command("pack", run, "-o", crate.with_name("again.zip"), *AUTHORS)
    assert crate.with_name("again.zip").read_bytes() == crate.read_bytes()


def test_verify_gives_the_same_for_a_crate_and_its_run(
    crate: Path, run: Path, command: Command
) -> None:
    (crate_result,) = command.json("verify", crate)["runs"]
    (run_result,) = command.json("verify", run)["runs"]
    assert crate_result["head"] == run_result["head"]
    assert (crate_result["samples"], crate_result["sound"]) == (run_result["samples"], True)
    assert "not signed" in crate_result["findings"][-1]["text"]
    command("verify", crate, "--head", "0" * 64, code=2)


def test_a_changed_run_with_a_new_manifest_is_found(crate: Path) -> None:
    """The manifest matches the changed files. Only the records in them show the change."""
    sound = files_in(crate)
    name = "run/samples/stream.jsonl"
    edited = sound[name].replace(b'"position": 1,', b'"position": 2,', 1)
    reseal(crate, {**sound, name: edited})
    verification = verify_crate(crate)
    assert {finding.kind for finding in verification.findings} >= {"broken"}
    assert f"{crate}:run/samples/stream.jsonl:" in verification.findings[0].text
    reseal(crate, sound | {"campaign.yaml": b"name: other\n"})
    verification = verify_crate(crate)
    expected = f"{crate}: campaign.yaml: differs from the campaign in run/run.json"
    assert verification.findings[0].text == expected
    assert (verification.remarks, verification.head, verification.samples) == ([], None, 0)


def test_the_signer_of_a_crate_is_named(
    run: Path, crate: Path, key: Path, command: Command
) -> None:
    allowed = key.with_name("allowed")
    command("verify", crate, "--allowed-signers", allowed, code=2)
    assert "not signed" in command.out
    command("pack", run, "--sign", key)
    text = command("verify", crate, "--allowed-signers", allowed)
    assert text.endswith("\nsigned by ann@site\n")
    assert "give --allowed-signers to see by whom" in " ".join(command("verify", crate).split())
    files = files_in(crate)
    reseal(crate, files | {SIGNATURE: files[SIGNATURE][:-20]})
    command("verify", crate, "--allowed-signers", allowed, code=2)
    assert "contradicted" in command.out


def test_a_run_with_faults_or_links_is_not_packed(
    run: Path, tmp_path: Path, command: Command
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    (run / "counters").mkdir()
    (run / "counters" / "stream.jsonl").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        run_files(run)
    (run / "counters" / "stream.jsonl").unlink()
    run.chmod(0o777)
    command("pack", run, code=2)
    assert command.err.startswith(f"nimc: {run}: can be written by others (mode 777); allowed: ")
    run.chmod(0o755)
    file = run / "samples" / "stream.jsonl"
    file.write_text(file.read_text().replace('"attempt": 0', '"attempt": 1', 1))
    command("pack", run, code=2)
    assert "stream.jsonl:1: chain" in command.err
    assert not run.with_name(f"{run.name}.zip").exists()


def test_a_run_that_is_too_large_for_a_crate_is_refused_before_it_is_read(
    run: Path, command: Command
) -> None:
    output = run / "logs" / "stream" / "0" / "large.out"
    output.parent.mkdir(parents=True)
    with output.open("wb") as file:
        file.truncate((1 << 30) + 1)  # a hole, which takes no room
    line = command.refused("pack", run)
    assert_message(line, f"{run}", "MiB to pack", allowed="1024 MiB")


def test_a_crate_is_replaced_only_by_a_crate_of_the_same_run(
    run: Path, crate: Path, tmp_path: Path, command: Command
) -> None:
    command("pack", run, "--license", "CC0-1.0")
    assert b"CC0-1.0" in files_in(crate)["LICENSE"]
    other = tmp_path / "other.zip"
    command("pack", RUN_QUICK, "-o", other)
    text = tmp_path / "notes.zip"
    text.write_text("no crate\n")
    for file, words in ((other, f"is a crate of {RUN_QUICK.name}"), (text, "is no crate")):
        content = file.read_bytes()
        line = command.refused("pack", run, "-o", file)
        assert_message(line, f"{file}", words, allowed=f"a new file, or a crate of {run.name}")
        assert file.read_bytes() == content


def test_the_recorded_run_is_packed(tmp_path: Path, command: Command) -> None:
    document = command.json("pack", RUN_QUICK, "-o", tmp_path / "quick.zip")
    assert document["head"] == json.loads((RUN_QUICK / "run.json").read_text())["head"]
    (verification,) = command.json("verify", tmp_path / "quick.zip")["runs"]
    assert (verification["sound"], verification["samples"]) == (True, 51)
    again = command.json("reproduce", tmp_path / "quick.zip", "--analysis-only")
    assert set(again["files"].values()) == {"the same"}


def test_errors_name_a_file_by_its_path_in_the_crate(crate: Path, command: Command) -> None:
    files = files_in(crate)
    name = "run/samples/stream.jsonl"
    reseal(crate, {**files, name: b"garbage\n"})
    for words in (("reproduce", crate, "--analysis-only"), ("verify", crate)):
        command(*words, code=2)
        output = command.out + command.err
        assert f"{crate}:{name}" in output
        assert tempfile.gettempdir() not in output.replace(str(crate), "")


def test_a_file_that_is_no_crate_is_refused_in_one_line(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "x.zip"
    file.write_text("no zip")
    command("reproduce", file, "--analysis-only", code=2)
    assert command.err.startswith(f"nimc: {file}: ")
    assert command.err.count("\n") == 1
    file.write_bytes(make_zip({"a": b""}))
    command("reproduce", file, "--analysis-only", code=2)
    assert command.err.startswith(f"nimc: {file}: manifest-sha256.txt: does not list these files")
