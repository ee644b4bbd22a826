"""Tests of factors, of their levels and of their combinations, against lists made by hand."""

import pytest

from records.errors import InputError
from records.machine.site import Machine
from reframe_tests import factors, rails
from reframe_tests.crossing import cross, read_cells, read_factors
from tests.reframe_tests.rail_machines import machine

HERE, ALLOWED = machine(), machine(core_spec=True)
ONE = machine(numa_nodes=1, sockets=1, rail_nodes=(0, 0))
WITHOUT_RAILS = machine(rails=[])


@pytest.mark.parametrize(
    ("here", "name", "level", "reason"),
    [
        (HERE, "reserved_cores", 63, None),
        (HERE, "reserved_cores", 64, "leaves no core of 64 on m for the application"),
        (HERE, "core_spec", 0, None),
        (HERE, "core_spec", 1, "core_spec of site/m.yaml does not allow it"),
        (ALLOWED, "core_spec", 63, None),
        (ALLOWED, "core_spec", 64, "leaves no core of 64 on m for the application"),
        (HERE, "layout", "8x8", None),
        (HERE, "layout", "13x5", "13x5 takes 65 cores; the application has 64"),
        (HERE, "comm_node", 7, None),
        (HERE, "comm_node", 8, "m has 8 NUMA nodes: 0, 1, 2, 3, 4, 5, 6, 7"),
        (machine(numa_nodes=[0, 8]), "comm_node", 1, "m has 2 NUMA nodes: 0, 8"),
        # The machine has 64 cores in 8 NUMA nodes, so each NUMA node has 8 cores.
        (HERE, "local_workers", 8, None),
        (HERE, "local_workers", 9, "a NUMA node of m has 8 cores for the application"),
        (HERE, "buffer", "other", None),
        (ONE, "buffer", "other", "m has 1 NUMA node"),
        (ONE, "buffer", "nic", None),
        (ONE, "workers", "free", None),
        (HERE, "mpi_rail", "nic1", None),
        (HERE, "mpi_rail", "nic2", "m has 2 rails (rails in its site file)"),
        (WITHOUT_RAILS, "mpi_rail", "nic0", "m has 0 rails (rails in its site file)"),
        (WITHOUT_RAILS, "mpi_rail", "local", "m has 0 rails (rails in its site file)"),
        (WITHOUT_RAILS, "mpi_rail", "default", None),
        (
            machine(rail_nodes=(None, 1)),
            "mpi_rail",
            "local",
            "a rail of m has no numa_node in its site file",
        ),
        # This host cannot know whether the compute nodes support these levels.
        (HERE, "injector", "mpi_put", None),
        (HERE, "tool", "likwid:dram", None),
        (HERE, "rate", "50%", None),
        (HERE, "a variable of the check", 1, None),
    ],
)
def test_a_level_that_a_machine_does_not_support_has_a_reason(
    here: Machine, name: str, level: int | str, reason: str | None
) -> None:
    assert factors.why_unsupported(here, name, level) == reason
    if reason and name == "mpi_rail":
        with pytest.raises(InputError, match=r"writer_rail: .*; allowed: default"):
            rails.writer_devices(here, str(level), None)


WRITES = ["on@rate=25%", "on"]
MPIP = ["off@tool=mpip", "on@tool=mpip,rate=25%", "on@tool=mpip", "aa@tool=mpip"]


@pytest.mark.parametrize(
    ("exclude", "only", "names"),
    [
        ([], [], ["off", *WRITES, "aa", *MPIP]),
        ([{"tool": "mpip", "arm": "on"}], [], ["off", *WRITES, "aa", MPIP[0], MPIP[3]]),
        # A baseline without a paired treatment is left out, unless a cell of `only` keeps it.
        ([{"tool": "mpip"}], [], ["off", *WRITES, "aa"]),
        ([], [{"tool": "none"}, {"arm": "off"}], ["off", *WRITES, "aa", MPIP[0]]),
        ([], [{"tool": "none"}, {"arm": "aa"}], ["off", *WRITES, "aa", MPIP[0], MPIP[3]]),
        # A treatment that does not write has no rate. So no rate excludes such a treatment, and
        # each rate keeps it.
        ([{"rate": 0}], [], ["off", *WRITES, "aa", *MPIP]),
        ([], [{"rate": "25%"}], ["off", WRITES[0], "aa", *MPIP[:2], MPIP[3]]),
        ([{"rate": "25%"}], [{"tool": "none"}], ["off", "on", "aa"]),
    ],
)
def test_crossed_factors_give_these_treatments(
    exclude: list[dict], only: list[dict], names: list[str]
) -> None:
    crossed = {"tool": ["none", "mpip"], "rate": [0, "25%", "full"]}
    treatments = cross(["off", "on", "aa"], crossed, exclude, only)
    assert [treatment.name for treatment in treatments] == names
    for treatment in treatments:
        mpip = "mpip" in treatment.name
        assert treatment.baseline == (
            None if treatment.arm == "off" else "off@tool=mpip" if mpip else "off"
        )
        rate = "25%" if "25%" in treatment.name else "full" if treatment.arm == "on" else 0
        assert treatment.factors == {"tool": "mpip" if mpip else "none", "rate": rate}


def test_a_control_has_no_rate_and_at_least_one_treatment_must_write() -> None:
    assert cross(["off", "on", "spin"], {"rate": [0, "full"]})[2].factors == {}
    assert [treatment.name for treatment in cross(["off"], {"x": [0, 1]})] == ["off", "off@x=1"]
    for zero in ("0", "0%", "0.0%", "00%", "0MB/s", "0.00GB/s"):
        names = [treatment.name for treatment in cross(["off", "on"], {"rate": [zero, "full"]})]
        assert names == ["off", "on"]
    with pytest.raises(InputError, match="no treatment that writes is left"):
        cross(["off", "on", "aa"], {}, [{"arm": "on"}])
    with pytest.raises(InputError, match="duplicate treatment off@x=1;"):
        cross(["off", "on"], {"x": [0, 1, "1"]})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{x: [0, 1.5, true, word, a/b, 0x]}", None),
        (f"{{x: [{'w' * 40}]}}", None),
        (f"{{x: [{'w' * 41}]}}", "is an invalid level"),
        *((f"{{x: [{level}]}}", "is an invalid level") for level in ("''", "'a b'", "'a,b'")),
        *((f"{{x: [{level}]}}", "is an invalid word") for level in ("'1'", "'1e3'", "'true'")),
        ("{x: [1.0e+999]}", "inf is not a finite number"),
        ("{x: [[1]]}", "is not a number, a word, true or false"),
        ("{x: [1, 2, 1]}", "x: duplicate level 1"),
        ("{x: []}", "x: no list of levels found"),
        ("{x: 1}", "x: no list of levels found"),
        ("{a b: [1]}", "'a b' is an invalid name of a factor"),
        ("[1]", "found; allowed: a mapping of factors"),
    ],
)
def test_factors_of_a_campaign_are_read_or_refused(text: str, fault: str | None) -> None:
    if fault:
        with pytest.raises(InputError, match=f"^factors: .*{fault}"):
            read_factors(text)
    else:
        assert list(read_factors(text)) == ["x"]


def test_the_message_names_the_characters_that_a_level_must_not_have() -> None:
    for character in (",", ";", "=", '"', "\\"):
        with pytest.raises(InputError, match="is an invalid level") as error:
            read_factors(f"{{x: ['a{character}b']}}")
        named = str(error.value).partition(" without ")[2].partition(" and blanks")[0]
        assert named.split() == [",", ";", "=", '"', "\\"]
    assert list(read_factors('{x: ["it\'s"]}')) == ["x"]


def test_cells_of_a_campaign_are_read_or_refused() -> None:
    assert read_cells("[{arm: aa, x.y: 1}]", "only") == [{"arm": "aa", "x.y": 1}]
    for text, fault in (
        ("[{}]", "{} is not a mapping"),
        ("[1]", "1 is not a mapping"),
        ("[{a: [1]}]", "is not a number"),
        ("[{a b: 1}]", "is an invalid name"),
        ("{a: 1}", "found; allowed: a list"),
    ):
        with pytest.raises(InputError, match=f"^only: .*{fault}"):
            read_cells(text, "only")


def test_reserved_cores_and_core_spec_together_leave_a_core() -> None:
    assert factors.app_cores(ALLOWED, reserved_cores=32, core_spec=31) == 1
    with pytest.raises(InputError, match="reserved_cores: 32, and core_spec: 32 found; allowed: "):
        factors.app_cores(ALLOWED, reserved_cores=32, core_spec=32)


@pytest.mark.parametrize(
    ("policy", "targets", "reason"),
    [
        ("hetjob", 2, None),
        ("hetjob", 3, "3 targets and 2 origins are more than `nodes` of site/m.yaml: 4"),
        ("same_host", 1, None),
    ],
)
def test_a_job_takes_no_more_nodes_than_the_site_file_states(
    policy: str, targets: int, reason: str | None
) -> None:
    here = machine(nodes=4, origins={"policy": policy, "nodes": 2})
    assert factors.why_too_many_nodes(here, targets) == reason
