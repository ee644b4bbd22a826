"""The files of a run as values, to be changed and written again as one who knows them would."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nimc.records.run_folder import stem_of
from tests.analysis.integrity.outputs import output_of
from tests.analysis.synthetic import rechain

Json = dict[str, Any]


@dataclass
class Run:
    """The files of a run, to be changed."""

    header: Json
    #: Case -> its samples, and its counts.
    samples: dict[str, list[Json]]
    counts: dict[str, list[Json]]
    #: Name of the file -> record; the name is that of its content if it is `rehash`ed.
    provenance: dict[str, Json]
    #: Path in the run -> document in its logs: what the conductor, ReFrame and the check recorded.
    logs: dict[str, Any] = field(default_factory=dict)
    #: Path in the run, without `.gz` -> text of an output of the application, or of a writer.
    outputs: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def read(run: Path) -> "Run":
        outputs = {path.with_suffix(""): path for path in run.glob("logs/*/*/*.out.gz")}
        return Run(
            header=json.loads((run / "run.json").read_text()),
            samples={path.stem: _lines(path) for path in sorted(run.glob("samples/*.jsonl"))},
            counts={path.stem: _lines(path) for path in sorted(run.glob("counters/*.jsonl"))},
            provenance={
                path.stem: json.loads(path.read_text())
                for path in sorted(run.glob("provenance/*.json"))
            },
            logs={
                str(path.relative_to(run)): json.loads(path.read_text())
                for path in sorted(run.glob("logs/*/*/*.json"))
            },
            outputs={
                **{
                    str(name.relative_to(run)): gzip.decompress(path.read_bytes()).decode()
                    for name, path in outputs.items()
                },
                **{
                    str(path.relative_to(run)): path.read_text()
                    for path in run.glob("logs/*/*/writer-*.log")
                },
            },
        )

    def write(self, run: Path) -> Path:
        """Writes all files, in a run of the present schema as one who knows them all would.

        Then samples name the digests of their counts and outputs, and the chain is recomputed.
        Files of provenance keep their names.
        """
        chained = self.header["schema"] > 3
        if chained:
            self._name_digests()
        files = {"run.json": json.dumps(self.header)}
        for case, rows in self.samples.items():
            files[f"samples/{case}.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows)
        for case, rows in self.counts.items():
            files[f"counters/{case}.jsonl"] = "".join(map(_count_line, rows))
        for name, record in self.provenance.items():
            files[f"provenance/{name}.json"] = _text(record)
        files |= {name: json.dumps(record) for name, record in self.logs.items()}
        for name, text in files.items():
            _parent(run / name).write_text(text)
        for name, text in self.outputs.items():
            if name.endswith(".out"):
                _parent(run / f"{name}.gz").write_bytes(gzip.compress(text.encode(), 1, mtime=0))
            else:
                _parent(run / name).write_text(text)
        return rechain(run) if chained else run

    def _name_digests(self) -> None:
        lines: dict[str, str] = {}
        for rows in self.counts.values():
            for row in rows:
                lines[row["key"]] = lines.get(row["key"], "") + _count_line(row)
        for sample in self.all():
            counted, output = lines.get(sample["key"]), output_name(sample)
            sample["counters_sha256"] = _sha256(counted) if counted else None
            text = self.outputs.get(output)
            sample["logs"] = {output: _sha256(text)} if text else {}

    def rehash(self) -> None:
        """Each record of provenance gets the name of its content, in the samples as well."""
        names = {name: _sha256(_text(record)) for name, record in self.provenance.items()}
        self.provenance = {names[name]: record for name, record in self.provenance.items()}
        for sample in self.all():
            sample["provenance"] = names[sample["provenance"]]

    def all(self) -> Iterator[Json]:
        for rows in self.samples.values():
            yield from rows

    def recorded(self, name: str) -> list[Any]:
        """The documents of that name in the logs of all blocks."""
        return [record for path, record in self.logs.items() if path.endswith(f"/{name}")]

    def reprint(self, samples: Iterable[Json]) -> None:
        """Rewrite the outputs of runs with the figures that their samples have."""
        self.outputs |= {output_name(each): output_of(each) for each in samples if each["fom"]}

    def kept(self, arm: str | None = None, case: str | None = None) -> list[Json]:
        """The accepted runs, without warm-ups; those of an arm at all its levels."""
        return [
            each
            for each in self.all()
            if each["outcome"] == "kept"
            and not each["warmup"]
            and arm in (None, each["arm"].partition("@")[0])
            and case in (None, each["case"])
        ]

    def writers(self) -> Iterator[Json]:
        """All writers of effects."""
        for sample in self.all():
            yield from sample["writers"] if sample["role"] == "effect" else ()


def output_name(sample: Json) -> str:
    """Path in the run of a run's output."""
    stem = stem_of(sample["pair"], sample["arm"], sample["attempt"])
    return f"logs/{sample['case']}/{sample['block']}/{stem}.out"


def _lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _count_line(row: Json) -> str:
    return json.dumps(row, separators=(",", ":")) + "\n"


def _text(record: Json) -> str:
    return json.dumps(record, indent=1, sort_keys=True)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
