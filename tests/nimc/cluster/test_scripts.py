"""Prologs and epilogs of remedies, on a node made of files. They are killed before every command.

The prolog of a job changes settings of the node, and the epilog reverts them.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nimc.cluster.root_remedies import ROOT_REMEDIES, parameter_values
from records.errors import InputError
from tests.nimc.cluster.sysroot import CHANGED, STATE, changed, content, node, run, scripts

#: No script has as many commands.
MOST_COMMANDS = 400


@pytest.mark.parametrize("name", ROOT_REMEDIES)
def test_the_prolog_sets_and_the_epilog_reverts(tmp_path, name):
    root, part = node(tmp_path / "node"), scripts(name, tmp_path)
    before = content(root)
    done = run(part["prolog"], root)
    assert (done.returncode, done.stderr) == (0, "")
    state = f"{STATE}/{name}"
    prepared = content(root)
    assert prepared.pop(state)
    assert prepared == changed(before, name) != before
    done = run(part["epilog"], root)
    assert (done.returncode, done.stderr) == (0, "")
    assert content(root) == before


@pytest.mark.slow
@pytest.mark.parametrize("killed_part", ["prolog", "epilog"])
@pytest.mark.parametrize("name", ROOT_REMEDIES)
def test_a_kill_before_any_command_is_reverted_byte_for_byte(tmp_path, name, killed_part):
    """After the kill, the epilog runs once more, at the end of the job or at boot."""
    root, part = node(tmp_path / "node"), scripts(name, tmp_path)
    before, seen = content(root), set()
    assert run(part["prolog"], root).returncode == 0
    prepared = content(root)
    if killed_part == "prolog":
        assert run(part["epilog"], root).returncode == 0
        prepared = before
    for number in range(1, MOST_COMMANDS):
        for path, data in prepared.items():
            if data != before.get(path):
                (root / path).write_bytes(data)
        done = run(part[killed_part], root, kill_at=number)
        between = content(root)
        seen.add(frozenset(path for path in before if between[path] != before[path]))
        assert run(part["epilog"], root).returncode == 0, number
        assert content(root) == before, number
        if done.returncode != -signal.SIGKILL:
            break
    else:
        pytest.fail("not all commands were reached")
    # Some kills came before the first change, and some after the last one. If there are several
    # changes, some kills came between them.
    assert {frozenset(), frozenset(CHANGED[name][1])} <= seen
    assert killed_part == "epilog" or len(seen) > len(CHANGED[name][1])


def test_a_prolog_first_reverts_the_changes_of_a_killed_prolog(tmp_path):
    root, part = node(tmp_path / "node"), scripts("irq_affinity", tmp_path)
    before = content(root)
    run(part["prolog"], root)
    (root / "proc/irq/125/smp_affinity_list").write_text("6\n")
    assert run(part["prolog"], root).returncode == 0
    assert content(root).pop(f"{STATE}/irq_affinity") == b"125|0-7|4-5\n126|3|4-5\n"
    run(part["epilog"], root)
    assert content(root) == before


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        *(("SLURM_JOB_OVERSUBSCRIBE", text) for text in ("YES", "")),
        # In Slurm 26.05, SLURM_JOB_OVERSUBSCRIBE is NO for jobs that share nodes too.
        *(("SLURM_JOB_EXCLUSIVE", text) for text in ("NO", "USER", "MCS")),
        *(("SLURM_JOB_CONSTRAINTS", text) for text in ("", "nimc_ddio_ways2", "xnimc_ddio_ways")),
    ],
)
def test_only_exclusive_jobs_that_request_a_remedy_get_it(tmp_path, variable, text):
    root, part = node(tmp_path / "node"), scripts("ddio_ways", tmp_path)
    before = content(root)
    done = run(part["prolog"], root, **{variable: text})
    assert (done.returncode, content(root)) == (0, before), "else Slurm would drain the node"
    shared = variable in ("SLURM_JOB_OVERSUBSCRIBE", "SLURM_JOB_EXCLUSIVE")
    assert ("job 7 may share this node: nothing is set" in done.stderr) == shared


def test_an_exclusive_job_of_slurm_26_05_gets_its_remedy(tmp_path):
    root, part = node(tmp_path / "node"), scripts("ddio_ways", tmp_path)
    before = content(root)
    assert run(part["prolog"], root, SLURM_JOB_EXCLUSIVE="NODE").returncode == 0
    assert content(root) != before


def test_a_value_that_reads_back_differently_is_reverted_and_fails(tmp_path):
    root, part = node(tmp_path / "node"), scripts("irq_affinity", tmp_path)
    before = content(root)
    # The kernel does not move interrupt 126 to the requested CPUs. It does so with interrupts that
    # it manages itself.
    real = (root / "bin/tee").read_text()
    moved = '#!/bin/sh\ncase $1 in *126/*) read -r text; [ "$text" = 3 ] || text=7\n'
    moved += 'echo "$text" > "$1"; exit ;; esac\n'
    (root / "bin/tee").write_text(moved + real)
    before = content(root)
    done = run(part["prolog"], root)
    assert done.returncode == 1
    assert "126: wrote 4-5, but it reads 7" in done.stderr
    assert content(root) == before


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        ("ddio_ways", "proc/cpuinfo", "GenuineIntel", "AuthenticAMD"),
        ("ddio_ways", "proc/cpuinfo", ": 85", ": 106"),
    ],
)
def test_a_node_that_cannot_be_restored_is_left_alone(tmp_path, name, file, old, new):
    root, part = node(tmp_path / "node"), scripts(name, tmp_path)
    (root / file).write_text((root / file).read_text().replace(old, new))
    before = content(root)
    done = run(part["prolog"], root)
    assert (done.returncode, content(root)) == (1, before)
    assert "cannot be recorded: nothing is set" in done.stderr


def test_an_epilog_that_cannot_revert_keeps_the_state_for_the_next_one(tmp_path):
    root, part = node(tmp_path / "node"), scripts("ddio_ways", tmp_path)
    before = content(root)
    run(part["prolog"], root)
    (root / "bin/wrmsr").rename(root / "bin/gone")  # as if the kernel's module were not loaded
    done = run(part["epilog"], root)
    assert done.returncode == 1
    assert content(root)[f"{STATE}/ddio_ways"] == b"0|600|400\n2|7e0|400\n"
    (root / "bin/gone").rename(root / "bin/wrmsr")
    assert run(part["epilog"], root).returncode == 0
    assert content(root) == before


def test_an_interrupt_that_belongs_to_another_device_after_a_restart_is_not_changed(tmp_path):
    root, part = node(tmp_path / "node"), scripts("irq_affinity", tmp_path)
    run(part["prolog"], root)
    (root / "sys/class/infiniband/mlx5_0/device/msi_irqs/126").unlink()
    (root / "proc/irq/126/smp_affinity_list").write_text("2\n")
    done = run(part["epilog"], root)
    assert done.returncode == 0
    assert "126: no longer there" in done.stderr
    assert (root / "proc/irq/126/smp_affinity_list").read_text() == "2\n"
    assert (root / "proc/irq/125/smp_affinity_list").read_text() == "0-7\n"
    assert not list((root / STATE).iterdir())


@pytest.mark.parametrize("name", CHANGED)
def test_scripts_pass_shellcheck(tmp_path, name):
    check = [str(Path(sys.executable).with_name("shellcheck")), *scripts(name, tmp_path).values()]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_each_part_of_a_remedy_is_the_same_by_itself_on_the_page_and_in_the_document(command):
    listed = command.json("remedy", "list")["remedies"]
    assert [row["name"] for row in listed] == list(ROOT_REMEDIES)
    words = ["remedy", "show", "irq_affinity", "--set", "cpus=9,8", "--set", "device=mlx5_1"]
    document = command.json(*words)
    assert document["values"] == {"device": "mlx5_1", "cpus": "8-9"}
    assert document["parameters"]["cpus"] == "CPUs such as 0-3,8"
    page, remedy = command(*words), ROOT_REMEDIES["irq_affinity"]
    for text in (remedy.does, remedy.needs, remedy.price, remedy.trap, "value: cpus=8-9"):
        assert text in page
    for part in ("prolog", "epilog", "unit"):
        text = command(*words, "--part", part)
        assert text == document[part]
        assert text in page
    unit = document["unit"].splitlines()
    assert "ExecStart=/etc/slurm/epilog.d/nimc-irq_affinity" in unit
    assert "Before=slurmd.service" in unit
    assert "/etc/systemd/system/nimc-irq_affinity.service" in page
    # The job requests this feature, and the prolog looks for it.
    assert document["feature"] == "nimc_irq_affinity"
    assert "--constraint=nimc_irq_affinity " in page


@pytest.mark.parametrize(
    ("name", "word", "allowed"),
    [
        ("irq_affinity", "device=a b", "name of an RDMA device"),
        ("irq_affinity", "device=$(id)", "name of an RDMA device"),
        ("irq_affinity", "cpus=", "CPUs such as 0-3,8"),
        ("irq_affinity", "cpus=3-1", "CPUs such as 0-3,8"),
        ("ddio_ways", "mask=5", "adjacent cache ways"),
        ("ddio_ways", "mask=0", "adjacent cache ways"),
        ("ddio_ways", "cpus=1", "mask=VALUE"),
    ],
)
def test_invalid_values_for_a_script_that_root_runs_are_refused(name, word, allowed):
    with pytest.raises(InputError, match=allowed):
        parameter_values(ROOT_REMEDIES[name], [word])


@pytest.mark.parametrize(
    ("name", "word", "value"),
    [
        ("ddio_ways", "mask=0x0F0", "f0"),
        ("irq_affinity", "cpus=3,1,2,7", "1-3,7"),
    ],
)
def test_masks_and_lists_of_cpus_are_converted_to_the_kernels_format(name, word, value):
    assert parameter_values(ROOT_REMEDIES[name], [word])[word.partition("=")[0]] == value
