"""Writes docs/fabrics.md and the table of fabrics in README, from `records.machine.fabrics`.

`python -m nimc.cluster.fabric_page` writes both files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from records.checkout import ROOT
from records.files import replace_text
from records.machine.fabrics import FABRICS, Counter, Fabric, InjectorName

PAGE, README = ROOT / "docs/fabrics.md", ROOT / "README.md"
_INJECTORS: tuple[InjectorName, ...] = get_args(InjectorName)
_NONE = "-"
_TEMPLATE = Path(__file__).with_name("templates") / "fabrics.md.in"


def page() -> str:
    """Return the text of docs/fabrics.md."""
    return _TEMPLATE.read_text(encoding="utf-8").format(
        recognised=_table(
            ["fabric", "recognised by", "tried on"],
            ([fabric.name, _recognition(fabric), fabric.tried_on] for fabric in FABRICS.values()),
        ),
        injectors=_table(
            ["fabric", *map(_code, _INJECTORS), "one-sided"],
            (
                [fabric.name, *_injector_cells(fabric), fabric.one_sided]
                for fabric in FABRICS.values()
            ),
        ),
        counters=_table(
            ["fabric", "driver", "counter", "received", "unit"],
            (
                [fabric.name, *_counter_cells(counter)]
                for fabric in FABRICS.values()
                for counter in fabric.counters
            ),
        ),
        options=_table(
            ["fabric", "`perftest`", "MPI over one device", "over several"],
            (
                [
                    fabric.name,
                    _perftest_options(fabric),
                    _mpi_variables(fabric),
                    _code(fabric.mpi_list_variable),
                ]
                for fabric in FABRICS.values()
            ),
        ),
    )


def readme_table() -> str:
    """Return the table of fabrics for README."""
    return _table(
        ["fabric", "injectors", "byte counter", "tried on"],
        (
            [
                fabric.name,
                _code_list(fabric.injectors),
                _counter_kinds(fabric.counters),
                fabric.tried_on,
            ]
            for fabric in FABRICS.values()
        ),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _code(text: str) -> str:
    return f"`{text}`" if text else _NONE


def _code_list(names: Iterable[str]) -> str:
    return ", ".join(map(_code, names))


def _counter_kinds(counters: Iterable[Counter]) -> str:
    return (
        _code_list(dict.fromkeys(counter.name.partition(":")[0] for counter in counters)) or _NONE
    )


def _recognition(fabric: Fabric) -> str:
    if not fabric.folder:
        return "one host, and no device"
    marks = [_code(f"/sys/class/{fabric.folder}")]
    marks += [f"driver {_code_list(fabric.drivers)}"] if fabric.drivers else []
    marks += [f"`node_type` {fabric.node_type}"] if fabric.node_type else []
    marks += ["`parent`"] if fabric.is_software else []
    marks += [f"`link_layer` {fabric.link_layer}"] if fabric.link_layer else []
    return ", ".join(marks)


def _injector_cells(fabric: Fabric) -> list[str]:
    first, *others = fabric.injectors
    marks: dict[InjectorName, str] = {first: "**first**", **dict.fromkeys(others, "yes")}
    return [marks.get(name, _NONE) for name in _INJECTORS]


def _counter_cells(counter: Counter) -> list[str]:
    files = (file.removeprefix("sys/class/") for file in counter.received)
    return [
        _code_list(counter.drivers) or "any",
        _code(counter.name),
        " + ".join(map(_code, files)),
        f"{counter.unit_b} B" + (f", every {counter.period_s:g} s" if counter.period_s else ""),
    ]


def _perftest_options(fabric: Fabric) -> str:
    options = " ".join([*fabric.perftest_options, *(["-x INDEX"] if fabric.has_gids else [])])
    return _code(options) if "perftest" in fabric.injectors else "cannot write"


def _mpi_variables(fabric: Fabric) -> str:
    return _code_list(f"{name}={value}" for name, value in fabric.mpi_variables.items()) or _NONE


def with_table(readme: str) -> str:
    """Return the text of README with a new table of fabrics in place of the old one."""
    head = readme_table().splitlines()[0]
    before, _, from_rows = readme.partition(head)
    _, _, after_table = from_rows.partition("\n\n")
    return f"{before}{readme_table()}\n\n{after_table}"


def main() -> None:
    """Write the page docs/fabrics.md and the table in README."""
    replace_text(PAGE, page())
    replace_text(README, with_table(README.read_text()))


if __name__ == "__main__":
    main()
