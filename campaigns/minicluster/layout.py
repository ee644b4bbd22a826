"""Paths and names of a minicluster.

Every name follows from the path of the state folder alone, so that `down` finds everything that
`up` created, even if `up` died before it wrote anything.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputError
from analysis.trust import distrust, require_own

#: The checkout that this package belongs to, and the folder of its scripts and templates.
CHECKOUT = Path(__file__).resolve().parents[2]
SITE = CHECKOUT / "site" / "minicluster"

#: Longest path of a socket that slurmstepd makes in the state folder, less the folder itself.
_LONGEST_SOCKET = len("/spool/node200/node200_1234567.4294967295")
_UNIX_PATH_MAX = 107


def default_state() -> Path:
    """The default state folder, one for each user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime) and not distrust(Path(runtime)):
        return Path(runtime) / "nimc-minicluster"
    return Path("/tmp") / f"nimc-minicluster-{os.getuid()}"


@dataclass(frozen=True)
class ClusterLayout:
    """Paths and names of the cluster of one state folder."""

    state: Path

    @classmethod
    def of(cls, state: Path) -> ClusterLayout:
        """The layout of a folder, which need not exist.

        `InputError` if its path is not allowed, or if it is not one's own: who can write to it
        can run programs as root.
        """
        require_own(state, "--state")
        state = Path(os.path.realpath(state))
        if len(str(state)) + _LONGEST_SOCKET > _UNIX_PATH_MAX:
            raise InputError(
                f"--state {state}: allowed are paths of up to {_UNIX_PATH_MAX - _LONGEST_SOCKET} "
                "characters, because Unix sockets are made in it"
            )
        if any(c.isspace() or c in "\"',=#%" for c in str(state)):
            raise InputError(f"--state {state}: allowed are paths without spaces and \"',=#%")
        return cls(state)

    @property
    def tag(self) -> str:
        """Prefix of the names of namespaces, links and control groups; short enough for a link."""
        return "nimc-" + hashlib.sha256(str(self.state).encode()).hexdigest()[:6]

    def netns(self, name: str) -> str:
        """The network namespace of a container."""
        return f"{self.tag}-{name}"

    @property
    def state_json(self) -> Path:
        """What `campaigns.minicluster.state` reads and writes."""
        return self.state / "state.json"

    @property
    def env_sh(self) -> Path:
        """To be sourced to use the cluster."""
        return self.state / "env.sh"

    @property
    def machine_file(self) -> Path:
        """Included by `site/minicluster.yaml`."""
        return self.state / "machine.yaml"

    @property
    def slurm_conf(self) -> Path:
        """The configuration of all daemons and clients."""
        return self.state / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Munge's socket for clients on this host and the control daemons."""
        return self.state / "munge" / "munge.sock"

    def log(self, name: str) -> Path:
        """The log of a daemon, container or virtual machine."""
        return self.state / "log" / f"{name}.log"
