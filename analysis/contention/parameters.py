"""The model of a machine: ten parameters for each of two placements, and what a kind adds to them.

Names of the ten follow section 3.1 of the paper, with the unit appended; all rates are bytes per
second. A parameter that a sweep does not determine is None; `predict` documents the consequences.
Every kind of model is this one record, so that all are saved, predicted with, drawn, recommended
from and compared in one way.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

#: Kinds of models: the paper's equations, and those that remove limits stated there.
KINDS = ("paper", "improved")
#: Number of the model file's schema; files of schema 1 are models of the first kind without bands.
SCHEMA = 2


@dataclass(frozen=True)
class Parameters:
    """The ten parameters of one placement: computations and communications on the same node."""

    #: Number of computing cores with the largest total rate of both sides, that rate, and the
    #: total with `n_seq_max` cores.
    n_par_max: int | None
    t_par_max_b_s: float | None
    t_par_max2_b_s: float | None
    #: Number of cores with the largest rate of computations alone, and that rate.
    n_seq_max: int | None
    t_seq_max_b_s: float | None
    #: Total lost with each further core, between the two maxima and beyond `n_seq_max`.
    delta_l_b_s: float | None
    delta_r_b_s: float | None
    #: Rate of one computing core, and of communications, each alone.
    b_comp_seq_b_s: float | None
    b_comm_seq_b_s: float | None
    #: Share of their own rate that communications keep in the worst case.
    alpha: float | None


@dataclass(frozen=True)
class Shape:
    """What the improved model adds to the ten parameters of a placement."""

    #: How round the knee is where demand meets the capacity; 0 is sharp.
    softness: float
    #: Numbers of cores at which the loss of communications begins and ends.
    loss_from: float
    loss_to: float
    #: Capacity of a group of cores, one of them computing, and how much of it each further one
    #: costs, bytes per second; None if groups have no capacity of their own.
    group_b_s: float | None = None
    group_loss_b_s: float = 0.0


@dataclass(frozen=True)
class Groups:
    """Groups of cores with a capacity of their own (CCD, SNC domain), and how cores fill them."""

    #: Cores of a group, and groups of the socket.
    size: int
    count: int
    #: `compact`: one group after the other; `spread`: each group in turn.
    order: str
    #: Whether cores with as much work each wait for one another, as in a parallel loop or an MPI
    #: application, so that the fullest group paces all.
    in_step: bool = False


@dataclass(frozen=True)
class Band:
    """How far measurements that the fit had not seen were from their predictions."""

    #: Nine in ten of them are within this part of the prediction, on either side.
    width: float
    #: Mean of the relative differences.
    mean: float
    #: Number of measurements.
    points: int


@dataclass(frozen=True)
class Bands:
    """The bands of placements that are predicted alike; None for a rate that was not measured."""

    #: What the fit had not seen: `placements` or `numbers of cores`.
    held_out: str
    comp_par: Band | None
    comm_par: Band | None
    comp_alone: Band | None


@dataclass(frozen=True)
class Model:
    """A machine: its two calibrated placements and the topology that combines them."""

    name: str
    #: The largest number of cores that can be predicted: all of the first socket, or the most that
    #: were measured.
    cores: int
    #: NUMA nodes of one socket (#m of equations 7 and 8), and of the machine.
    numa_per_socket: int
    numa_nodes: int
    local: Parameters
    #: None if no node on another socket exists or was measured.
    remote: Parameters | None
    #: Which equations the parameters are for, one of KINDS.
    kind: str = KINDS[0]
    #: True for a set from the literature.
    published: bool = False
    #: Placement -> largest number of cores measured there, if below `cores`; nothing is predicted
    #: beyond it.
    reach: dict[str, int] = field(default_factory=dict)
    #: Placement -> parameter -> why it is unknown.
    unidentified: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Caveats of the sweep, to show with every figure made from the model.
    notes: list[str] = field(default_factory=list)
    #: `local` and `remote` -> what the improved model adds; None: the paper's equations only.
    shapes: dict[str, Shape | None] = field(default_factory=dict)
    #: Improved model: NUMA node -> rate of communications alone with their data there, bytes per
    #: second.
    comm_alone_b_s: dict[int, float] = field(default_factory=dict)
    #: Improved model: None if the cores share one capacity only.
    groups: Groups | None = None
    #: `local`, `remote` and `others` (placements) -> error bands; empty if nothing was held out.
    bands: dict[str, Bands] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The model as written to its file."""
        return {"schema": SCHEMA} | asdict(self)

    def calibrated_nodes(self) -> tuple[int, ...]:
        """The NUMA nodes on which both streams lay when the parameters were measured."""
        return (0,) if self.remote is None else (0, self.numa_per_socket)

    def calibration(self, node: int) -> str:
        """`local` or `remote`: which parameters a NUMA node's placements are predicted with."""
        return "local" if node < self.numa_per_socket or self.remote is None else "remote"

    def bands_at(self, comp_node: int, comm_node: int) -> Bands | None:
        """The error bands of a placement."""
        if comp_node == comm_node and comp_node in self.calibrated_nodes():
            return self.bands.get(self.calibration(comp_node))
        return self.bands.get("others")
