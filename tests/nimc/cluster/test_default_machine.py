import pytest

from nimc.base.errors import InputError
from nimc.campaign.settings import matching

NAMES = {
    "cluster": [r"login\d+\.example", r"login\d+$"],
    "localhost": [".*"],
    "other": ["front", "login1$"],
    "third": [".*"],
}


@pytest.mark.parametrize(
    ("host", "machine"),
    [
        ("login7.example.org", "cluster"),
        ("login12", "cluster"),
        ("login12a", "localhost"),
        ("frontend", "other"),
        ("my-login1", "localhost"),
    ],
)
def test_the_machine_that_names_the_host(host, machine):
    assert matching(NAMES, host) == machine


def test_two_machines_that_name_the_host_must_be_told_apart():
    with pytest.raises(InputError, match=r"'login1'; allowed: cluster, other$"):
        matching(NAMES, "login1")
