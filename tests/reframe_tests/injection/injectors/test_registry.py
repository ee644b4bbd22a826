import pytest

from reframe_tests.injection import injectors


def test_an_unknown_injector_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'ibwrite': allowed are perftest, ucx, spin, "):
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
    assert readers == {"perftest_read", "ucx_read"}


def test_an_unknown_direction_is_refused():
    with pytest.raises(ValueError, match="direction 'up': allowed are write, read"):
        injectors.get("ucx", "up")
