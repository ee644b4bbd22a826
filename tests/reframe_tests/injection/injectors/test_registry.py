import pytest

from reframe_tests.injection import injectors


def test_an_unknown_injector_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'ibwrite': allowed are perftest, ucx, spin"):
        injectors.get("ibwrite")


def test_names_are_those_the_registry_knows_them_by():
    assert {name: injectors.get(name).name for name in injectors.INJECTORS} == {
        name: name for name in injectors.INJECTORS
    }


def test_only_the_control_writes_nothing():
    assert [name for name, each in injectors.INJECTORS.items() if not each.writes] == ["spin"]
