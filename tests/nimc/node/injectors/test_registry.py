import pytest

from nimc.base.errors import InputError
from nimc.node import injectors


def test_an_unknown_injector_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError, match="'ibwrite': allowed are perftest, ucx, mpi_put, fabtests, spin"
    ):
        injectors.get("ibwrite")


def test_names_are_those_the_registry_knows_them_by():
    assert {name: injectors.get(name).name for name in injectors.INJECTORS} == {
        name: name for name in injectors.INJECTORS
    }


def test_only_the_control_writes_nothing():
    assert [name for name, each in injectors.INJECTORS.items() if not each.writes] == ["spin"]


def test_a_direction_picks_the_reader_of_the_same_program():
    assert [injectors.get(name, "read").name for name in ("perftest", "ucx", "ucx_read")] == [
        "perftest_read",
        "ucx_read",
        "ucx_read",
    ]
    assert injectors.get("ucx", "write").name == "ucx"
    readers = {name for name, each in injectors.INJECTORS.items() if each.direction == "read"}
    assert readers == {"perftest_read", "ucx_read", "mpi_put_read"}
    assert injectors.get("mpi_put", "both").name == "mpi_put_both"
    assert injectors.get("mpi_put_both", "both").direction == "both"


def test_a_writer_that_has_no_such_direction_is_refused():
    with pytest.raises(ValueError, match=r"'fabtests': .* read; allowed: perftest, ucx, mpi_put$"):
        injectors.get("fabtests", "read")
    with pytest.raises(ValueError, match=r"'ucx': .* both; allowed: mpi_put$"):
        injectors.get("ucx", "both")
    assert injectors.get("spin", "read").name == "spin"


def test_an_unknown_direction_is_refused():
    with pytest.raises(ValueError, match="direction 'up': allowed are write, read, both"):
        injectors.get("ucx", "up")


def test_a_rate_is_asked_of_injectors_that_can_hold_it():
    assert injectors.writing_rate_b_s(injectors.get("perftest"), "500MB/s") == 500e6
    assert injectors.writing_rate_b_s(injectors.get("perftest", "read"), "1GB/s") == 1e9
    for name in injectors.INJECTORS:
        assert injectors.writing_rate_b_s(injectors.get(name), "full") is None
    assert injectors.writing_rate_b_s(injectors.get("ucx"), "1GB/s") == 1e9
    with pytest.raises(InputError, match=r"^rate: '1GB/s' found; spin writes nothing"):
        injectors.writing_rate_b_s(injectors.get("spin"), "1GB/s")
    with pytest.raises(InputError, match=r"rate: 'fast'"):
        injectors.writing_rate_b_s(injectors.get("ucx"), "fast")


def test_programs_without_a_limiter_need_the_agent_to_hold_a_rate():
    paced = [name for name, each in injectors.INJECTORS.items() if each.paced_by == "agent"]
    assert paced == ["ucx", "fabtests", "ucx_read"]
