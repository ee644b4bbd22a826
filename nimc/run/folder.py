"""The folder of a run (`records.run`): its header, its lock, and how it is found again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nimc.campaign.plan import Lengths, Request
from nimc.run.session import processes_of
from records.calls import load_call
from records.campaign import Campaign
from records.chain import walk_run
from records.checkout import commit
from records.errors import InputError, MachineError
from records.files import make_named_folder, private_lock
from records.machine import host, program
from records.machine.site import Machine
from records.run import (
    Reproduced,
    Requirements,
    RunHeader,
    digest_of,
    load_header,
    own_runs,
    save_header,
)
from records.slurm.client import cancel as cancel_jobs

if TYPE_CHECKING:
    import polars as pl

#: How long processes of a killed campaign may take to end by themselves, and once they are killed,
#: seconds.
LEFTOVERS_S = 60.0
KILLED_S = 10.0
#: Parts of `RunHeader.resolved` besides campaign and machine, as a user knows them.
_OF_CALL = {"hostname": "host", "nodelist": "--nodelist", "checks": "checks"}
#: How long another process may take to find or make its run, seconds.
_BEGIN_S = 30.0


@dataclass
class RunFolder:
    """An open run."""

    path: Path
    header: RunHeader
    resumed: bool

    @property
    def head(self) -> str:
        """Head of the chain of all samples so far."""
        return walk_run(self.path).head

    def finish(self) -> None:
        """Mark the run complete."""
        self.header = replace(self.header, finished_s=time.time(), head=self.head)
        save_header(self.path, self.header)


@contextmanager
def open_run(
    results: Path,
    header: RunHeader,
    *,
    fresh: bool = False,
    slurm: bool = False,
    pairs: int | None = None,
    typed_in: Path | None = None,
) -> Iterator[RunFolder]:
    """The latest run of the same request in `results`, or a new one; if `typed_in` that folder.

    That is a new one if it is `fresh`, or if the latest is finished, unless it goes on up to so
    many `pairs` a case. `--fresh` so gives up those before it.

    `latest` leads to it from then on. Waits for processes that an earlier session left, and cancels
    its jobs if the machine uses `slurm`. Locked until the context ends. Raises InputError if
    another process has the lock or a stranger's link leads to `results`, OSError if the folder
    cannot be written, MachineError if processes of an earlier session do not end.
    """
    results = results.absolute()
    make_named_folder(results)
    with ExitStack() as held:
        with _beginning(results):
            request_key = header.digest, header.reproduces, typed_in
            latest = None if fresh else find_latest(results, *request_key)
            resumed = latest is not None and _goes_on(latest[1], pairs)
            path = latest[0] if latest and resumed else _create(results, header.run)
            held.callback(_remove_empty, path)
            held.enter_context(locked(path))
            if not resumed:
                new = replace(header, run=path.name, pairs_cap=pairs or header.pairs_cap)
                save_header(path, replace(new, seed=new.drawn_seed))
            link_latest(path)
        if resumed:
            if slurm:
                cancel_jobs(path)
            await_leftovers(path)
            if pairs is not None:
                _raise_cap(path, pairs)
        yield RunFolder(path, load_header(path), resumed=resumed)


@contextmanager
def _beginning(results: Path) -> Iterator[None]:
    """No other process of this user begins a run in `results` meanwhile.

    One that finds no run yet would make another.
    """
    with private_lock(results / f".nimc-{os.geteuid()}.lock") as lock:
        if not lock.take(_BEGIN_S):
            raise InputError(f"{results}: another nimc begins a run there; allowed: wait for it")
        yield


def _remove_empty(path: Path) -> None:
    """Remove a folder of a run that could not begin, as on a full disk."""
    if not (path / "run.json").exists():
        with suppress(OSError):  # a folder with anything else in it stays
            (path / "lock").unlink(missing_ok=True)
            path.rmdir()


def _goes_on(header: RunHeader, pairs: int | None) -> bool:
    return header.finished_s is None or pairs is not None


def _raise_cap(run: Path, pairs: int) -> None:
    """Let a run go on up to so many pairs a case. Raises InputError if a case has more."""
    from analysis.samples.columns import read_run
    from analysis.samples.pairs import judge_samples, pair_table

    counted = pair_table(judge_samples(read_run(run).frame)).group_by("case", "arm").len()
    measured = max(counted["len"].to_list(), default=0)
    if pairs < measured:
        allowed = f"from {measured}, or --fresh"
        raise InputError(f"--pairs: {pairs} found, but {run} has {measured}; allowed: {allowed}")
    header = load_header(run)
    save_header(run, replace(header, pairs_raised=pairs, finished_s=None, head=None))


def find_latest(
    results: Path,
    digest: str,
    reproduces: Reproduced | None = None,
    typed_in: Path | None = None,
) -> tuple[Path, RunHeader] | None:
    """The latest run of that digest, with its header; of those that reproduce the same, or none.

    If a folder is given, of those that were called in it.
    """
    runs = [
        (path, header)
        for path, header in own_runs(results)
        if (header.digest, header.reproduces) == (digest, reproduces)
        and typed_in in (None, load_call(path, header.campaign).folder)
    ]
    return max(runs, key=lambda run: run[1].started_s, default=None)


def with_past_lengths(request: Request, results: Path) -> Request:
    """The request with the lengths that its runs had in its latest run there, if there is one."""
    if not results.is_dir():
        return request
    return replace(request, lengths=past_lengths(results, new_header(request).digest))


def past_lengths(results: Path, digest: str) -> Lengths:
    """Return how long runs took in the latest run of that digest; nothing without one."""
    with suppress(InputError, OSError):
        if latest := find_latest(results, digest):
            from analysis.samples.columns import read_run

            return Lengths(str(latest[0]), lengths_of(read_run(latest[0]).frame))
    return Lengths()


def lengths_of(samples: pl.DataFrame) -> dict[str, float]:
    """Case -> seconds that each accepted run takes, with its lead-in and rejected attempts."""
    import polars as pl  # takes 0.2 s, and most plans have no earlier run

    blocks = samples.group_by("case", "block").agg(
        over_s=pl.col("start_s").max() - pl.col("start_s").min(),
        runs=pl.len(),
        accepted=(pl.col("outcome").cast(pl.String) == "accepted").sum(),
    )
    cases = blocks.group_by(pl.col("case").cast(pl.String)).agg(
        pl.col("over_s", "runs", "accepted").sum(), starts=(pl.col("runs") - 1).sum()
    )
    measured = cases.filter((pl.col("starts") > 0) & (pl.col("accepted") > 0))
    a_run_s = pl.col("over_s") / pl.col("starts") * pl.col("runs") / pl.col("accepted")
    return dict(measured.select("case", a_run_s).iter_rows())


def find_differing_run(results: Path, header: RunHeader) -> tuple[Path, RunHeader] | None:
    """The latest unfinished run of that campaign and machine with another digest."""
    unfinished = [
        (path, old)
        for path, old in own_runs(results)
        if (old.campaign, old.machine) == (header.campaign, header.machine)
        and old.digest != header.digest
        and old.finished_s is None
    ]
    return max(unfinished, key=lambda run: run[1].started_s, default=None)


def differing(header: RunHeader, old_header: RunHeader) -> list[str]:
    """Return what keeps a run from being resumed by another one of its campaign and machine."""
    new, old = (run.resolved or {} for run in (header, old_header))

    def keys(part: str) -> list[str]:
        new_part, old_part = (record.get(part) or {} for record in (new, old))
        names = sorted({*new_part, *old_part})
        return [name for name in names if new_part.get(name) != old_part.get(name)]

    return [
        *keys("campaign"),
        *(f"{name} of the machine's file" for name in keys("machine")),
        *(name for part, name in _OF_CALL.items() if new.get(part) != old.get(part)),
    ]


def _create(results: Path, name: str) -> Path:
    for more in ("", *(f"-{number}" for number in range(2, 1000))):
        with suppress(FileExistsError):
            (path := results / f"{name}{more}").mkdir()
            return path
    raise MachineError(f"{results / name}: a thousand runs of that name exist already")


@contextmanager
def locked(path: Path, allowed: str = "wait for it, or another --results") -> Iterator[None]:
    """Lock a folder until the context ends. Raises InputError if another process has the lock."""
    with private_lock(path / "lock") as lock:
        if not lock.take():
            raise InputError(
                f"{path}: another nimc (process {lock.holder() or 'unknown'}) is running this"
                f" campaign there; allowed: {allowed}"
            )
        lock.sign(str(os.getpid()))
        yield


def await_leftovers(path: Path) -> None:
    """Wait until the last block of a killed campaign has ended, so that it disturbs no run.

    ReFrame does not end while it waits for a Slurm that is gone: then it is killed. Raises
    MachineError if a process does not end.
    """
    until_s = time.monotonic() + LEFTOVERS_S
    while left := processes_of(path):
        if time.monotonic() > until_s:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until_s + KILLED_S:
            pids = " ".join(map(str, left))
            raise MachineError(f"{path}: processes of an earlier run do not end: {pids}")
        time.sleep(0.2)


def link_latest(run: Path) -> None:
    """Let `latest`, next to the run, lead to it; what is not a link, or not possible, is left."""
    link = run.with_name("latest")
    partial = run.with_name(f".latest-{os.getpid()}")
    with suppress(OSError):
        if link.is_symlink() or not link.exists():
            partial.unlink(missing_ok=True)
            partial.symlink_to(run.name)
            partial.replace(link)


def require_folder(run: Path) -> None:
    """Raise MachineError, which names it, if the folder of a run is gone."""
    if not (run / "run.json").exists():
        raise MachineError(f"{run}: this folder is gone: deleted, or not mounted any more")


def new_header(request: Request) -> RunHeader:
    """The header of a run that starts now; the name of its folder may still change."""
    started_s = time.time()
    this_host = host.detect().as_dict()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_s))
    campaign, machine = request.campaign, request.machine
    others = {name: check.sha256 for name, check in request.checks.items() if check.file}
    resolved_campaign = resolved(campaign, machine, this_host["hostname"], request.nodelist, others)
    return RunHeader(
        run=f"{campaign.name}-{machine.name}-{stamp}",
        campaign=campaign.name,
        machine=machine.name,
        started_s=started_s,
        finished_s=None,
        digest=digest_of(resolved_campaign),
        resolved=resolved_campaign,
        campaign_text=request.campaign_text,
        pairs_floor=campaign.pairs.floor,
        pairs_cap=campaign.pairs.most,
        precision=campaign.pairs.precision,
        facts={"host": this_host, "site": machine.model_dump(mode="json")},
        versions=program.package_versions(("nimc", "reframe-hpc", *program.WHEELS)),
        commit=commit(),
        margin=campaign.margin,
        asked=requirements_of(request),
    )


def requirements_of(request: Request) -> Requirements:
    """Return the requirements of a campaign on every run."""
    campaign = request.campaign
    treated = dict(request.treatments)
    for search in request.searches.values():
        treated |= search.treatments
    return Requirements(
        cases={
            case: [treatment.name for treatment in treatments]
            for case, treatments in treated.items()
        },
        min_share=campaign.verify.min_share or request.machine.proof.min_share,
        retries=campaign.verify.retries,
    )


def resolved(
    campaign: Campaign,
    machine: Machine,
    hostname: str,
    nodelist: str | None = None,
    others: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """All that must be the same for a run to be resumed.

    Title, description and `expect` are not included, nor are defaults: a new option of a later
    version does not prevent resuming. The host's name is included if the machine is this host.
    """
    requested = campaign.model_dump(
        mode="json",
        exclude_defaults=True,
        exclude={"title": True, "description": True, "workloads": {"__all__": {"expect"}}},
    )
    site = machine.model_dump(mode="json", exclude_defaults=True)
    fixed_host = hostname if machine.origins.policy == "same_host" else None
    more = {"hostname": fixed_host, "nodelist": nodelist, "checks": others or None}
    selection = {name: value for name, value in more.items() if value is not None}
    return {"campaign": requested, "machine": site, **selection}
