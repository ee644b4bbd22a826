"""How a minicluster reads /proc, commands `ip`, and finds the processes of a namespace."""

import re
from pathlib import Path

import pytest

from records.errors import MachineError
from testbed import containers, namespaces, shell
from testbed.containers import enter_command

STATUS = "Name:\tslurmd\nPid:\t14274\nNSpid:\t{}\nThreads:\t1\n"


def test_pids_within_a_container_and_processes_of_a_namespace() -> None:
    assert namespaces.inner_pid(STATUS.format("14274\t1")) == 1
    assert namespaces.inner_pid(STATUS.format("14274\t77\t9")) == 9
    assert namespaces.inner_pid(STATUS.format("14274")) is None
    assert namespaces.inner_pid("Name:\tx\n") is None
    # No process is in a namespace that does not exist.
    assert namespaces.pids_in(["nimc-absent-node1"]) == []
    assert namespaces.kill_all(["nimc-absent-node1"]) == 0


def test_a_subnet_that_is_in_use_is_skipped() -> None:
    addresses = "2: eth0    inet 10.77.4.9/24 scope global\n3: x    inet 10.77.5.253/24\n"
    assert namespaces.pick_subnet(addresses, 3) == "10.77.3"
    assert namespaces.pick_subnet(addresses, 4) == "10.77.6"
    assert namespaces.pick_subnet(addresses.replace("10.77.4.9", "10.77.255.9"), 255) == "10.77.0"
    with pytest.raises(MachineError, match="no subnet"):
        namespaces.pick_subnet("".join(f"inet 10.77.{i}.1/24\n" for i in range(256)), 0)


def test_each_rail_of_a_node_has_its_own_bridge_and_subnet() -> None:
    ports, links = namespaces.connection_commands("nimc-x-node3", 3, "10.77.5", n_rails=2)
    peers = re.findall(r"link add (\w+) .* name (\w+) .* netns nimc-x-node3\n", ports)
    assert [link for _, link in peers] == ["eth0", "eth1"]
    masters = dict(re.findall(r"link set (\w+) master (\w+) up\n", ports))
    assert [masters[port] for port, _ in peers] == ["br0", "br1"]
    addresses = re.findall(r"address add (\S+) dev (\w+)\n", links)
    assert addresses == [("10.77.5.3/24", "eth0"), ("10.78.5.3/24", "eth1")]


@pytest.mark.parametrize(
    ("mounts", "kind", "root"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "v2", "/sys/fs/cgroup"),
        ("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"
         "cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n"
         "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", "v1", "/sys/fs/cgroup/freezer"),
        ("cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", "none", None),
        ("proc /proc proc rw 0 0\n", "none", None),
    ],
)  # fmt: skip
def test_kind_of_control_groups(mounts: str, kind: str, root: str | None) -> None:
    assert containers.cgroup_kind(mounts) == (kind, Path(root) if root else None)


def test_a_failing_program_gives_one_line_and_a_missing_one_names_the_install_script(
    tmp_path: Path,
) -> None:
    with pytest.raises(MachineError, match=r"sh -c .*: exit status 3: the end$"):
        shell.run(["sh", "-c", "echo start >&2; echo the end >&2; exit 3"])
    with pytest.raises(MachineError, match=r"no-such-program is missing: .*install\.sh"):
        shell.run(["no-such-program"])
    with pytest.raises(MachineError, match=r"no-such-program is missing: .*install\.sh"):
        shell.start(["no-such-program"], tmp_path / "x.log")
    with pytest.raises(FileNotFoundError, match=r"absent/x\.log"):
        shell.start(["true"], tmp_path / "absent" / "x.log")
    # An error of a wait ends with the last line of the log.
    (tmp_path / "x.log").write_text("fine\nerror: port taken\n\n")
    with pytest.raises(
        MachineError, match=r"slurmctld: not ready after 0 s; .*: error: port taken$"
    ):
        shell.wait_for("slurmctld", lambda: False, 0, tmp_path / "x.log")
    command = enter_command(17, ["echo", "$HOME; x"])  # no shell interprets these words
    assert (command[:2], command[-2:]) == (["nsenter", "--target=17"], ["echo", "$HOME; x"])
