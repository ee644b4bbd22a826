"""Munge, MariaDB and Slurm's daemons: configuration, start, and whether they answer."""

from __future__ import annotations

import pwd
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from records.errors import MachineError
from records.files import replace_bytes
from records.kernel_text import read
from records.programs import last_line
from records.slurm import client
from records.slurm.parse import is_up
from testbed.containers import CgroupKind, enter, running_pid
from testbed.shell import run, wait_for
from testbed.spec import SITE_FOLDER, ClusterLayout, Node, Spec

#: Name of the controller's container.
CONTROLLER = "control"
#: Socket of MariaDB, in the memory of the controller's container, which no other user can enter.
DATABASE_SOCKET = "/dev/shm/mariadb/server.sock"
#: File in the state folder that is made when the database has ended.
_DATABASE_ENDED = "run/mariadbd.ended"
#: A daemon that does not answer within this time counts as dead, seconds.
ANSWER_TIMEOUT_S = 5.0


def begin_database(layout: ClusterLayout) -> None:
    """Start MariaDB, but do not wait, since creating its tables takes a second or two."""
    # MariaDB never runs as root. Debian's package creates the user `mysql`.
    user = "mysql" if "mysql" in {entry.pw_name for entry in pwd.getpwall()} else "nobody"
    server = ["sh", str(SITE_FOLDER / "database.sh"), DATABASE_SOCKET, user]
    background_script = 'log=$1 ended=$2; shift 2; { "$@"; : > "$ended"; } > "$log" 2>&1 &'
    files = [str(layout.log("mariadbd")), str(layout.state / _DATABASE_ENDED)]
    enter(
        layout, CONTROLLER, ["sh", "-c", background_script, "sh", *files, *server], label="mariadbd"
    )


def _database_listens(layout: ClusterLayout) -> bool:
    if (layout.state / _DATABASE_ENDED).exists():
        raise MachineError(f"mariadbd ended: {last_line(read(layout.log('mariadbd')))}")
    init_pid = running_pid(layout, CONTROLLER)
    return Path(f"/proc/{init_pid}/root{DATABASE_SOCKET}").exists()


def make_munge_key(layout: ClusterLayout) -> None:
    """Write a key that is used only by this cluster, and that only root can read."""
    key = layout.munge_socket.parent / "munge.key"
    replace_bytes(key, secrets.token_bytes(128), 0o600)


def start_munge(layout: ClusterLayout) -> None:
    """Start a munged that only this cluster uses."""
    folder = layout.munge_socket.parent
    files = {
        "key-file": folder / "munge.key",
        "socket": layout.munge_socket,
        "pid-file": folder / "munged.pid",
        "seed-file": folder / "munged.seed",
        "log-file": layout.log("munged"),
    }
    options = [f"--{name}={path}" for name, path in files.items()]
    # The state folder may be under /tmp, which munged accepts only with `--force`.
    enter(layout, CONTROLLER, ["munged", "--force", *options, "--num-threads=4"])


def start_accounting(layout: ClusterLayout) -> None:
    """Start slurmdbd once MariaDB answers, and add this cluster to its tables."""
    wait_for("mariadbd", lambda: _database_listens(layout), 60, layout.log("mariadbd"))
    env = {"MYSQL_UNIX_PORT": DATABASE_SOCKET, **client_env(layout)}
    enter(layout, CONTROLLER, ["slurmdbd"], env)

    def register() -> bool:
        """Try to add the cluster to the tables; return whether it is in them."""
        try:
            run(client.add_cluster_command("minicluster"), env=client_env(layout))
        except MachineError:
            return accounting_answers(layout)
        return True

    wait_for("slurmdbd", register, 60, layout.log("slurmdbd"))


def start_controller(layout: ClusterLayout) -> None:
    """Start slurmctld, even after one was killed, and wait until it answers.

    A killed slurmctld may not have saved all of its state. Newer versions then start only with
    `-i`.
    """
    enter(layout, CONTROLLER, ["slurmctld", "-i", "-f", str(layout.slurm_conf)])
    wait_for("slurmctld", lambda: controller_answers(layout), 60, layout.log("slurmctld"))


def controller_answers(layout: ClusterLayout) -> bool:
    """Return whether slurmctld says that it is up."""
    return is_up(_answer(layout, client.PING_COMMAND))


def accounting_answers(layout: ClusterLayout) -> bool:
    """Return whether slurmdbd answers and knows the cluster."""
    return "minicluster" in _answer(layout, client.CLUSTERS_COMMAND)


def start_slurmds(layout: ClusterLayout, nodes: list[Node]) -> None:
    """Start slurmd in the nodes' containers."""
    script = 'ulimit -l unlimited 2> /dev/null; exec slurmd -f "$1" -N "$2"'
    for node in nodes:
        for folder in ("spool", "tmp"):
            (layout.state / folder / node.name).mkdir(exist_ok=True)
        command = ["sh", "-c", script, "sh", str(layout.slurm_conf), node.name]
        enter(layout, node.name, command, label="slurmd")


def wait_idle(
    layout: ClusterLayout,
    nodes: list[Node],
    timeout_s: float,
    check_nodes: Callable[[], None] | None,
) -> None:
    """Wait until Slurm shows all nodes idle; `check_nodes` raises MachineError if one has ended."""

    def busy_nodes() -> list[str]:
        states = node_states(layout)
        return [node.name for node in nodes if states.get(node.name) != "idle"]

    def all_idle() -> bool:
        if check_nodes:
            check_nodes()
        return not busy_nodes()

    try:
        wait_for(f"{len(nodes)} idle nodes", all_idle, timeout_s, layout.log("slurmctld"))
    except MachineError as error:
        raise MachineError(f"{error}; not idle: {', '.join(busy_nodes())}") from error


def node_states(layout: ClusterLayout) -> dict[str, str]:
    """Return node -> Slurm's state (`idle`, `down*`, ...); empty if slurmctld does not answer."""
    states = {}
    for line in _answer(layout, client.NODE_STATES_COMMAND).splitlines():
        match line.split():
            case [node, state]:
                states[node] = state
    return states


def _answer(layout: ClusterLayout, command: Sequence[str]) -> str:
    """Return the output of a Slurm command; empty if it fails or takes too long."""
    try:
        return run(command, env=client_env(layout), timeout_s=ANSWER_TIMEOUT_S)
    except MachineError:
        return ""


def client_env(layout: ClusterLayout) -> dict[str, str]:
    """Return the variables with which Slurm's commands use this cluster."""
    return {"SLURM_CONF": str(layout.slurm_conf)}


# Slurm's configuration files for a cluster, rendered from the templates in site/minicluster.


@dataclass(frozen=True)
class Hardware:
    """Size of each node in slurm.conf, and the control groups by which slurmd tracks its steps."""

    cpus: int
    memory_mib: int
    cgroup: CgroupKind


def render_slurm_conf(
    spec: Spec, layout: ClusterLayout, subnet: str, hardware: Hardware, submit_host: str
) -> dict[str, str]:
    """Return name -> text of all files that the daemons read.

    `submit_host` is the name of this host, from which jobs are submitted.
    """
    hosts = {"127.0.0.1": "localhost", f"{subnet}.253": submit_host, f"{subnet}.254": CONTROLLER}
    hosts |= {f"{subnet}.{node.index}": node.name for node in spec.members()}
    cgroup_values = {"plugin": "cgroup/v2", "ignore_systemd": "yes"}
    if hardware.cgroup != "v2":
        # Version 1 never looks for systemd.
        cgroup_values = {"plugin": "cgroup/v1", "ignore_systemd": "no"}
    paths = {"state": str(layout.state), "munge_socket": str(layout.munge_socket)}
    return {
        "slurm.conf": _fill(
            "slurm.conf", paths | _slurm_conf_values(spec, layout, subnet, hardware)
        ),
        "slurmdbd.conf": _fill("slurmdbd.conf", paths),
        "cgroup.conf": _fill("cgroup.conf", cgroup_values),
        "hosts": "".join(f"{address} {name}\n" for address, name in hosts.items()),
    }


def _slurm_conf_values(
    spec: Spec, layout: ClusterLayout, subnet: str, hardware: Hardware
) -> dict[str, str]:
    """Return placeholder in the template of slurm.conf -> its value."""
    is_virtual = spec.fabric == "rxe"
    nodes = [
        f"NodeName={node.name} NodeHostname={node.name} NodeAddr={subnet}.{node.index} "
        f"CPUs={hardware.cpus} RealMemory={hardware.memory_mib} State=UNKNOWN"
        for node in spec.members()
    ]
    partitions = [
        f"PartitionName={name} Nodes={','.join(members)} OverSubscribe=EXCLUSIVE "
        f"MaxTime=INFINITE State=UP{' Default=YES' if name == 'compute' else ''}"
        for name, members in spec.partitions().items()
    ]
    tracking = "linuxproc" if hardware.cgroup == "none" else "cgroup"
    return {
        "subnet": subnet,
        "site": str(SITE_FOLDER),
        # slurmstepd makes sockets in its spool folder; a 9p mount has no sockets.
        "spool": "/run/slurmd/%n" if is_virtual else f"{layout.state}/spool/%n",
        # The PMIx plugin creates folders here. Containers share /tmp, but must not share these.
        "tmp": "/tmp" if is_virtual else f"{layout.state}/tmp/%n",
        "pid_folder": "/run" if is_virtual else f"{layout.state}/run",
        "proctrack": f"proctrack/{tracking}",
        # An emulated processor on a busy host may not answer for seconds.
        "slurmd_timeout_s": "30" if is_virtual else "10",
        "message_timeout_s": "30" if is_virtual else "10",
        "nodes": "\n".join(nodes),
        "partitions": "\n".join(partitions),
    }


def _fill(template: str, values: dict[str, str]) -> str:
    return Template((SITE_FOLDER / template).read_text()).substitute(values)
