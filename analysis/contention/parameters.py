"""The model of a machine: ten parameters for each of two placements.

Names follow section 3.1 of the paper, with the unit appended; all rates are bytes per second. A
parameter that a sweep does not determine is None; `predict` documents the consequences.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from analysis.errors import InputError

#: Most cores per socket, or NUMA nodes, that a model file may have.
MOST = 4096
#: No rate of a machine is larger, bytes per second.
_MOST_FIGURE = 1e30


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
    #: True for a set from the literature.
    published: bool = False
    #: Placement -> largest number of cores measured there, if below `cores`; nothing is predicted
    #: beyond it.
    reach: dict[str, int] = field(default_factory=dict)
    #: Placement -> parameter -> why it is unknown.
    unidentified: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Caveats of the sweep, to show with every figure made from the model.
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The model as written to its file."""
        return {"schema": 1} | asdict(self)

    def calibrated_nodes(self) -> tuple[int, ...]:
        """The NUMA nodes on which both streams lay when the parameters were measured."""
        return (0,) if self.remote is None else (0, self.numa_per_socket)


def from_dict(document: Any, source: str) -> Model:
    """Inverse of `Model.as_dict`; `source` names the file in errors."""
    if not isinstance(document, dict) or document.get("schema") != 1:
        raise InputError(f"{source}: not a model file (`schema` must be 1)")
    try:
        remote = document["remote"]
        return Model(
            name=str(document["name"]),
            cores=_count(document["cores"], f"{source}: cores"),
            numa_per_socket=_count(document["numa_per_socket"], f"{source}: numa_per_socket"),
            numa_nodes=_count(document["numa_nodes"], f"{source}: numa_nodes"),
            local=_parameters(document["local"], f"{source}: local"),
            remote=None if remote is None else _parameters(remote, f"{source}: remote"),
            published=bool(document.get("published", False)),
            reach={
                str(k): _count(v, f"{source}: reach: {k}")
                for k, v in dict(document.get("reach", {})).items()
            },
            unidentified=dict(document.get("unidentified", {})),
            notes=[str(note) for note in document.get("notes") or []],
        )
    except KeyError as error:
        raise InputError(f"{source}: field {error.args[0]} is missing") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"{source}: {error}") from None


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        raise InputError(f"{where}: must be a whole number from 1 to {MOST}, not {value!r}")
    return value


def _parameters(values: Any, where: str) -> Parameters:
    if not isinstance(values, dict):
        raise InputError(f"{where}: must be a mapping of the ten parameters")
    names = [f.name for f in fields(Parameters)]
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"{where}: {missing[0]} is missing (null if unknown)")
    return Parameters(**{name: _figure(name, values[name], where) for name in names})


def _figure(name: str, value: Any, where: str) -> Any:
    """One parameter: a number of cores is whole; a rate is a float, which never overflows."""
    if value is None:
        return None
    whole, signed = name.startswith("n_"), name.startswith("delta_")
    largest = MOST if whole else _MOST_FIGURE
    if (
        isinstance(value, bool)
        or not isinstance(value, int if whole else (int, float))
        or not abs(value) <= largest  # nor NaN
        or (value < 0 and not signed)
    ):
        kind = f"a whole number up to {MOST}" if whole else "a number"
        allowed = kind if signed else f"{kind}, zero or more,"
        raise InputError(f"{where}: {name} must be {allowed} or null, not {value!r}")
    return int(value) if whole else float(value)
