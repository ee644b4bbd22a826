"""Known faults that prevent writers from writing: the messages that they cause, and remedies.

The messages come from perftest, UCX, MPI, Slurm or this project. `tests/captures` has recorded
outputs with most of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from records.commands import command
from records.machine.site import Machine
from records.slurm.options import srun_launcher


@dataclass(frozen=True)
class KnownFault:
    """A kind of fault that programs report with known messages."""

    #: The fault in a few words.
    name: str
    #: Regular expression that finds the messages of this fault.
    pattern: str
    #: What the user or the site should do.
    remedy: str


LOCKED_MEMORY = KnownFault(
    "too little locked memory",
    r"[Cc]ouldn't allocate MR|[Ff]ailed to create (?:MR|mr)|ibv_reg_(?:dmabuf_)?mr\b"
    r"|ibv_create_cq\(.*Cannot allocate memory|RLIMIT_MEMLOCK|locked memory",
    "let steps lock memory: LimitMEMLOCK=infinity in slurmd's unit, and"
    " PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
)
#: Known faults. If a message matches the patterns of several faults, the first one is assumed.
FAULTS = (
    KnownFault(
        "a firewall, or no route",
        r"does not answer \(TCP\)|Connection refused|Connection timed out|No route to host",
        "let nodes reach ports 20000 to 31999 of each other over `interface` (TCP)",
    ),
    LOCKED_MEMORY,
    KnownFault(
        "an interface that a node lacks",
        r"\binterface \S+: (?:No such device|Cannot assign requested address)",
        "name an `interface` that has an IPv4 address on all nodes",
    ),
    KnownFault(
        "a device that is down",
        r"Port number \d+ state is|no active port|tcp/\S+ - not available"
        r"|network device '\S+' is not available|PSM2? (?:can't open|was unable to)",
        "bring its port or link up on that node, or name another `device`",
    ),
    KnownFault(
        "a library that does not fit the driver",
        r"(?:not found|Did not detect devices|No IB devices found|Unable to find the Infiniband)"
        r".*does not support the kernel ABI",
        "install on the nodes the library for libibverbs that came with the device's driver:"
        " `ibv_devinfo -d DEVICE` must find the device",
    ),
    KnownFault(
        "a device that a step may not open",
        r"IB device \S+ not found|No IB devices found|Unable to find the Infiniband"
        r"|Did not detect devices"
        r"|Couldn't get context for the device|/dev/infiniband/\S+: Permission denied",
        "let steps use /dev/infiniband (ConstrainDevices in cgroup.conf, a container); or install"
        " the library of the device's driver, so that `ibv_devinfo -d DEVICE` finds it; or name"
        " another `device`",
    ),
    KnownFault(
        "a GID or an MTU that does not fit",
        r"[Ff]ailed to modify QP \S+ to RTR|[Ii]nvalid (?:GID|gid)|ibv_modify_qp.* failed",
        "leave --gid-index and -m out of `perftest_options`: a GID that fits is chosen",
    ),
    KnownFault(
        "packets that do not arrive",
        r"wrote nothing in its first rows|[Rr]etry (?:count(?:er)? )?exceeded"
        r"|Failed status 1[23]: .*(?:syndrom|vend)|Endpoint timeout",
        "let RoCE pass (UDP port 4791), in its lossless class (--tclass in `perftest_options`);"
        " over InfiniBand, choose a partition that both ends belong to (--pkey_index there)",
    ),
    KnownFault(
        "an MPI that Slurm's PMI does not start",
        r"direct launched using|unsupported PMI|ranks? found, 2 are needed|PMI_\w+ returned"
        r"|pmix_\w+ failed|PMIX ERROR|Only allocated \d+ nodes asked for",
        f"`make -B -C conductor/mpi_put LAUNCHER='{srun_launcher('TYPE')}'`;"
        f" `{srun_launcher('list')}` lists the types (Open MPI: pmix, MPICH and Intel MPI:"
        " pmi2; docs/first-day.md#an-mpi-of-modules)",
    ),
    KnownFault(
        "a step without a network of Slingshot",
        r"[Ee]rror configuring interconnect|Slingshot service allocation failed"
        r"|OFI fi_open domain failed",
        "set `network` of the site file as your site says (job_vni, single_node_vni); other steps"
        " on the node may hold the device's resources",
    ),
)


def fault_in(message: str) -> KnownFault | None:
    """Return the known fault that matches a program's message; None if no fault matches."""
    return next((fault for fault in FAULTS if re.search(fault.pattern, message)), None)


def remedy_of_block(reason: str, machine: Machine, *, in_jobs: bool) -> str:
    """Return what to do about a failed block; empty unless its writers or its interface failed.

    `reason` begins with the block's outcome. `in_jobs` is true if Slurm starts the writers.
    """
    if not re.match(r"injector_never_ready: |machine_failed: interface ", reason):
        return ""
    fault = fault_in(reason)
    keys = (
        "`injector`" if machine.origins.policy == "same_host" else "`injector`, `device`, `rails`"
    )
    advice = fault.remedy if fault else f"see {keys}"
    doctor = command("doctor", "--machine", machine.name, *(["--in-job"] if in_jobs else []))
    return f"{advice}; the keys are in site/{machine.name}.yaml, and `{doctor}` looks for the cause"
