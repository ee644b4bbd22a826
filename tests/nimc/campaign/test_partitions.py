"""Jobs of a campaign under a ReFrame configuration, and runs on named nodes or of named cases."""

from pathlib import Path

import pytest

from nimc.campaign.plan import block_plan
from nimc.campaign.request import load_request, time_limit_s, uses_slurm
from nimc.readiness.reframe_config import target_partitions
from nimc.run.folder import new_header
from records.checkout import ROOT
from records.errors import InputError
from tests.messages import assert_message
from tests.nimc.checkouts import SITE, checkout

PARTITIONS = [
    {"name": "std", "scheduler": "slurm", "time_limit": "1h30m"},
    {"name": "big", "scheduler": "local", "time_limit": "1d"},
]
CONFIG = """
site_configuration = {"systems": [{"name": "box", "hostnames": ["b"], "partitions": [
    {"name": "p", "scheduler": "slurm", "launcher": "srun",
     "time_limit": "2h", "environs": ["e"]},
]}], "environments": [{"name": "e", "features": ["wheels"]}]}
"""


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("1d2h3m4s", 93784), ("4h", 14400), (90, 90), (None, None), ("0s", None), ("soon", None)],
)
def test_time_limits_are_read_in_reframes_format(limit, seconds):
    assert time_limit_s([{"time_limit": limit}]) == seconds


def test_time_limit_and_scheduler_come_from_the_named_partition():
    named = target_partitions(PARTITIONS, "big")
    assert time_limit_s(named) == 86400
    assert not uses_slurm(named)


def test_without_a_named_partition_the_shortest_limit_counts_and_one_slurm_is_enough():
    every_partition = target_partitions(PARTITIONS, None)
    assert time_limit_s(every_partition) == 5400
    assert uses_slurm(every_partition)
    assert time_limit_s([]) is None


def test_reframes_scheduler_squeue_is_slurm():
    assert uses_slurm([{"scheduler": "squeue"}])


@pytest.mark.parametrize(
    ("old", "new", "location", "values", "allowed"),
    [
        ("[{", "{", "configs/box.py:5", ["SyntaxError"], ""),
        ('"partitions": [', '"partitions": [7, ', "configs/box.py", ["TypeError"], ""),
        ("site_configuration", "x", "configs/box.py", ["KeyError", "'site_configuration'"], ""),
        ('"name": "p"', '"name": "q"', "site/box.yaml:5: partition", ["'p'"], ": q"),
        ('"name": "e",', '"name": "e", "cc": "",', "configs/box.py:3: environs",
         ["p", "'stream'"], "'cc'"),
        ('"environs"', '"environ"', "configs/box.py:4: systems: partitions",
         ["'environ'", "'environs'"], "launcher"),
        ('"launcher": "srun",', "", "configs/box.py:3: systems: partitions: p", ["launcher"], ""),
        ('"name": "box",', '"name": "box",\n"modules_system": "lmd",',
         "configs/box.py:3: systems: modules_system", ["'lmd'"], "lmod"),
        ('"box"', '"bax"', "configs/box.py:2: systems: name", ["'bax'"], "'box'"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_run_the_campaign_is_refused(
    tmp_path, old, new, location, values, allowed
):
    """If it were accepted, `nimc plan` would succeed, but `nimc run` could start no run."""
    campaign = tmp_path / "c.yaml"
    campaign.write_text(
        "name: c\nworkloads: [{check: stream, expect: 1s}]\narms: [off, on]\npairs: {floor: 6}\n"
    )
    assert old in CONFIG
    root = checkout(tmp_path, CONFIG.replace(old, new), SITE + "partition: p\n")
    with pytest.raises(InputError) as error:
        load_request(campaign, "box", root)
    message = str(error.value).replace(f"{root}/", "")
    assert_message(message, location, *values, allowed=allowed)


def test_slurm_drives_a_shared_host_if_its_configuration_says_so(tmp_path):
    box = load_request(ROOT / "campaigns/quick.yaml", "box", checkout(tmp_path, CONFIG))
    assert (box.uses_slurm, box.time_limit_s) == (True, 7200)
    localhost = load_request(ROOT / "campaigns/quick.yaml", "localhost")
    assert not localhost.uses_slurm


@pytest.mark.usefixtures("every_case_feasible")
def test_a_block_that_outlasts_its_job_is_reported(tmp_path, command):
    # The block takes 8 s, and 13 runs of 1 h and 0.7 s each, which is more than 4 h.
    campaign = tmp_path / "long.yaml"
    campaign.write_text(
        "name: long\nworkloads: [{check: stream, expect: 1h}, {check: lammps, expect: 1s}]\n"
        "arms: [off, on]\npairs: {floor: 6, cap: 6}\nrun_timeout: 2h\n"
    )
    words = ("plan", campaign, "--machine", "example_slurm")
    warning = command.json(*words)["warnings"][0]
    assert_message(
        warning, "stream", "6 pairs", "13 h 00 min", "configs/example_slurm.py", "4 h 00 min"
    )
    assert warning in " ".join(command(*words).split())


QUICK = ROOT / "campaigns/quick.yaml"


def test_every_block_runs_on_the_named_nodes():
    for request, nodelist in (
        (load_request(QUICK, "example_slurm", nodelist="nid0001"), "nid0001"),
        (load_request(QUICK, "example_slurm"), ""),
    ):
        blocks = [
            block_plan(request, case, 0, 6, Path("/r"), seed=1) for case in request.campaign.cases
        ]
        assert [block.nodelist for block in blocks] == [nodelist, nodelist]


def test_named_cases_are_the_only_ones():
    request = load_request(QUICK, "example_slurm", case_names=["lammps"])
    assert [case.case for case in request.plan().cases] == ["lammps"]
    with pytest.raises(InputError) as error:
        load_request(QUICK, "example_slurm", case_names=["amg"])
    assert_message(str(error.value), "--case", "'amg'", allowed="stream, lammps")


def test_named_nodes_or_cases_make_another_run():
    requests = [
        load_request(QUICK, "example_slurm"),
        load_request(QUICK, "example_slurm", nodelist="nid0001"),
        load_request(QUICK, "example_slurm", case_names=["lammps"]),
    ]
    assert len({new_header(request).digest for request in requests}) == 3


@pytest.mark.parametrize(
    ("machine", "nodelist", "values", "allowed"),
    [
        ("example_slurm", "n1,n2", ["2 nodes"], "case 'stream' has, 1"),
        ("example_slurm", "n[1-4]", ["'n[1-4]'"], "names joined with commas"),
        ("example_slurm", "n1 --wrap=x", ["'n1 --wrap=x'"], "names joined with commas"),
        ("example_slurm", "-x", ["'-x'"], "names joined with commas"),
        ("localhost", "n1", ["'localhost'", "Slurm"], ""),
    ],
)
def test_an_invalid_list_of_nodes_or_a_wrong_number_is_refused(machine, nodelist, values, allowed):
    with pytest.raises(InputError) as error:
        load_request(QUICK, machine, nodelist=nodelist)
    assert_message(str(error.value), "--nodelist", *values, allowed=allowed)


def test_nodes_of_one_job_cannot_be_pinned(tmp_path):
    root = checkout(tmp_path, CONFIG, SITE.replace("same_host", "same_job"))
    with pytest.raises(InputError) as error:
        load_request(QUICK, "box", root, nodelist="n1")
    location = "--nodelist: site/box.yaml: origins.policy"
    assert_message(str(error.value), location, "'same_job'", allowed="hetjob, reservation")
