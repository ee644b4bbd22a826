"""The folder of a run of a campaign (`records.run`): its header, its lock, and how it is found.

A *request* is a campaign, a machine and the options of the command that decide what is measured.
Two requests are equal if their digests are.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
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
from records.files import make_named_folder, make_own_folder, private_lock
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
from records.slurm.client import cancel_jobs
from records.text import one_line

if TYPE_CHECKING:
    import polars as pl

    from analysis.report.page import Report

#: How long processes of a killed campaign may take to end by themselves, seconds.
LEFTOVERS_GRACE_S = 60.0
#: How long processes of a killed campaign may take to end after they are killed, seconds.
KILL_GRACE_S = 10.0
#: Parts of a request besides campaign and machine (keys of `RunHeader.resolved`) -> names for
#: users.
_CALL_PARTS = {"hostname": "host", "nodelist": "--nodelist", "checks": "checks"}
#: How long to wait while another process finds or makes its run in the same results, seconds.
_RESULTS_LOCK_TIMEOUT_S = 30.0


@dataclass
class RunFolder:
    """An open run."""

    path: Path
    header: RunHeader
    resumed: bool

    @property
    def head(self) -> str:
        """Return the head of the run's chain: a SHA-256 over all samples so far."""
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
    uses_slurm: bool = False,
    pairs: int | None = None,
    required_folder: Path | None = None,
) -> Iterator[RunFolder]:
    """Open the latest run of the same request in `results`, or a new run, and lock it.

    A new run begins if `fresh` is true, if there is no run of the request, or if its latest run is
    finished. If `pairs` is given, a finished run continues instead, up to `pairs` pairs in each
    case. If `required_folder` is given, only a run whose command was typed in that folder
    (`records.calls`) is a run of the same request.

    The link `latest` then points to the run. A session is one call of `nimc run`. Before a run is
    resumed, the processes of its earlier sessions are awaited. With `uses_slurm`, the jobs of these
    sessions are cancelled first.

    Raises InputError if another process has locked the run, if a case has more than `pairs` pairs,
    or if `results` is reached through a link of another user. Raises OSError if the folder cannot
    be written, and MachineError if processes of an earlier session do not end.
    """
    results = results.absolute()
    make_named_folder(results)
    with ExitStack() as exits:
        with _locked_results(results):
            latest = None
            if not fresh:
                latest = find_latest(results, header.digest, header.reproduces, required_folder)
            resumed_path = None
            if latest:
                latest_path, latest_header = latest
                # With `pairs`, a finished run continues, too.
                if latest_header.finished_s is None or pairs is not None:
                    resumed_path = latest_path
            resumed = resumed_path is not None
            path = resumed_path or _create(results, header.run)
            exits.callback(_remove_empty, path)
            exits.enter_context(locked(path))
            if not resumed:
                run_header = replace(header, run=path.name, pairs_cap=pairs or header.pairs_cap)
                save_header(path, replace(run_header, seed=run_header.drawn_seed))
            link_latest(path)
        if resumed:
            if uses_slurm:
                cancel_jobs(path)
            await_leftovers(path)
            if pairs is not None:
                _raise_cap(path, pairs)
        yield RunFolder(path, load_header(path), resumed=resumed)


@contextmanager
def _locked_results(results: Path) -> Iterator[None]:
    """Prevent other processes of this user from opening a run in `results` at the same time.

    Otherwise two processes that find no run would make two runs.
    """
    with private_lock(results / f".nimc-{os.geteuid()}.lock") as lock:
        if not lock.acquire(_RESULTS_LOCK_TIMEOUT_S):
            raise InputError(f"{results}: another nimc begins a run there; allowed: wait for it")
        yield


def _remove_empty(path: Path) -> None:
    """Remove the folder of a run that could not begin, for example because the disk is full."""
    if not (path / "run.json").exists():
        with suppress(OSError):  # a folder with other files is not removed
            (path / "lock").unlink(missing_ok=True)
            path.rmdir()


def _raise_cap(run: Path, pairs: int) -> None:
    """Let a run continue up to `pairs` pairs in each case.

    Raises InputError if a case has more pairs already.
    """
    from analysis.samples.columns import read_run
    from analysis.samples.pairs import judge_samples, pair_table

    pair_counts = pair_table(judge_samples(read_run(run).frame)).group_by("case", "arm").len()
    most_pairs = max(pair_counts["len"].to_list(), default=0)
    if pairs < most_pairs:
        allowed = f"from {most_pairs}, or --fresh"
        raise InputError(f"--pairs: {pairs} found, but {run} has {most_pairs}; allowed: {allowed}")
    header = load_header(run)
    save_header(run, replace(header, pairs_raised=pairs, finished_s=None, head=None))


def find_latest(
    results: Path,
    digest: str,
    reproduces: Reproduced | None = None,
    required_folder: Path | None = None,
) -> tuple[Path, RunHeader] | None:
    """Return the latest run of a request and the run's header; None if the request has no run.

    A run of the request has the same `digest` and reproduces the same run (`reproduces`; None if it
    reproduces no run). If `required_folder` is given, the run's command must have been typed in
    that folder.
    """
    runs = [
        (path, header)
        for path, header in own_runs(results)
        if (header.digest, header.reproduces) == (digest, reproduces)
        and (required_folder is None or load_call(path, header.campaign).folder == required_folder)
    ]
    return _latest(runs)


def _latest(runs: Iterable[tuple[Path, RunHeader]]) -> tuple[Path, RunHeader] | None:
    def started_s(run: tuple[Path, RunHeader]) -> float:
        _, header = run
        return header.started_s

    return max(runs, key=started_s, default=None)


def with_past_lengths(request: Request, results: Path) -> Request:
    """Return the request with the lengths that runs had in its latest run in `results`.

    Returns it unchanged if there is no folder `results`.
    """
    if not results.is_dir():
        return request
    return replace(request, lengths=past_lengths(results, new_header(request).digest))


def past_lengths(results: Path, digest: str) -> Lengths:
    """Return how long the application's runs took in the latest campaign run with this digest.

    The lengths are empty if there is no such campaign run, or if it cannot be read.
    """
    with suppress(InputError, OSError):
        if latest := find_latest(results, digest):
            from analysis.samples.columns import read_run

            path, _ = latest
            return Lengths(str(path), lengths_of(read_run(path).frame))
    return Lengths()


def lengths_of(samples: pl.DataFrame) -> dict[str, float]:
    """Return case -> mean time that the case takes for an accepted run, seconds.

    The time includes rejected runs and the lead-ins: the times between runs. A case is left out if
    none of its blocks has two runs, or if no run was accepted.
    """
    import polars as pl  # not at the top: the import takes 0.2 s, and most plans do not need it

    blocks = samples.group_by("case", "block").agg(
        span_s=pl.col("start_s").max() - pl.col("start_s").min(),
        runs=pl.len(),
        accepted_runs=(pl.col("outcome").cast(pl.String) == "accepted").sum(),
    )
    # A block's span reaches from the start of its first run to the start of its last run. So it has
    # one interval less than the block has runs.
    cases = blocks.group_by(pl.col("case").cast(pl.String)).agg(
        pl.col("span_s", "runs", "accepted_runs").sum(), intervals=(pl.col("runs") - 1).sum()
    )
    measured = cases.filter((pl.col("intervals") > 0) & (pl.col("accepted_runs") > 0))
    run_s = pl.col("span_s") / pl.col("intervals")
    accepted_run_s = run_s * pl.col("runs") / pl.col("accepted_runs")
    return dict(measured.select("case", accepted_run_s).iter_rows())


def find_differing_run(results: Path, header: RunHeader) -> tuple[Path, RunHeader] | None:
    """Return the latest unfinished run with the header's campaign and machine, but another digest.

    Returns None if there is no such run.
    """
    return _latest(
        (path, old_header)
        for path, old_header in own_runs(results)
        if (old_header.campaign, old_header.machine) == (header.campaign, header.machine)
        and old_header.digest != header.digest
        and old_header.finished_s is None
    )


def differing_parts(header: RunHeader, old_header: RunHeader) -> list[str]:
    """Return the names of what differs between the requests of two runs.

    Campaign and machine have the same names in these runs. Names are keys of the campaign or of the
    machine's file, and `_CALL_PARTS`.
    """
    new, old = (run.resolved or {} for run in (header, old_header))

    def differing_keys(part: str) -> list[str]:
        new_part, old_part = (record.get(part) or {} for record in (new, old))
        names = sorted({*new_part, *old_part})
        return [name for name in names if new_part.get(name) != old_part.get(name)]

    return [
        *differing_keys("campaign"),
        *(f"{name} of the machine's file" for name in differing_keys("machine")),
        *(name for part, name in _CALL_PARTS.items() if new.get(part) != old.get(part)),
    ]


def _create(results: Path, name: str) -> Path:
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        path = results / f"{name}{suffix}"
        with suppress(FileExistsError):
            make_own_folder(path)
            return path
    raise MachineError(f"{results / name}: a thousand runs of that name exist already")


@contextmanager
def locked(path: Path, allowed: str = "wait for it, or another --results") -> Iterator[None]:
    """Lock a folder until the context ends.

    Raises InputError if another process has locked it. `allowed` ends the message of this error.
    """
    with private_lock(path / "lock") as lock:
        if not lock.acquire():
            raise InputError(
                f"{path}: another nimc (process {lock.holder() or 'unknown'}) is running this"
                f" campaign there; allowed: {allowed}"
            )
        lock.write_holder(str(os.getpid()))
        yield


def make_run_report(run: Path) -> Report:
    """Make and return the report of a run; it replaces an earlier one.

    Raises MachineError if it cannot be written.
    """
    from polars.exceptions import PolarsError

    from analysis.report.page import make_reports

    try:
        (report,) = make_reports([run], force=True)
    except (OSError, PolarsError) as error:
        cause = error.strerror if isinstance(error, OSError) else one_line(str(error))
        raise MachineError(f"{run}/report: {cause}; the samples are saved") from error
    return report


def await_leftovers(path: Path) -> None:
    """Wait until the last block of a killed campaign has ended, so that it disturbs no new run.

    Processes that take too long are killed, since ReFrame never ends if it waits for a Slurm that
    does not run any more. Raises MachineError if a process remains.
    """
    until_s = time.monotonic() + LEFTOVERS_GRACE_S
    while pids := processes_of(path):
        if time.monotonic() > until_s:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until_s + KILL_GRACE_S:
            pid_list = " ".join(map(str, pids))
            raise MachineError(f"{path}: processes of an earlier run do not end: {pid_list}")
        time.sleep(0.2)


def link_latest(run: Path) -> None:
    """Make the link `latest`, which is in the parent folder of `run`, point to `run`.

    A file or folder with the name `latest` that is not a link is left unchanged.
    """
    link = run.with_name("latest")
    partial = run.with_name(f".latest-{os.getpid()}")
    with suppress(OSError):
        if link.is_symlink() or not link.exists():
            partial.unlink(missing_ok=True)
            partial.symlink_to(run.name)
            partial.replace(link)


def require_folder(run: Path) -> None:
    """Raise MachineError if the folder of a run is gone."""
    if not (run / "run.json").exists():
        raise MachineError(f"{run}: this folder is gone: deleted, or not mounted any more")


def new_header(request: Request) -> RunHeader:
    """Return the header of a run that starts now.

    The run's folder, and then the header, get another name if a folder of that name exists.
    """
    started_s = time.time()
    this_host = host.detect().as_dict()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_s))
    campaign, machine = request.campaign, request.machine
    digest_by_check = {name: check.sha256 for name, check in request.checks.items() if check.file}
    resolved = resolved_request(
        campaign, machine, this_host["hostname"], request.nodelist, digest_by_check
    )
    return RunHeader(
        run=f"{campaign.name}-{machine.name}-{stamp}",
        campaign=campaign.name,
        machine=machine.name,
        started_s=started_s,
        finished_s=None,
        digest=digest_of(resolved),
        resolved=resolved,
        campaign_text=request.campaign_text,
        pairs_floor=campaign.pairs.floor,
        pairs_cap=campaign.pairs.maximum,
        precision=campaign.pairs.precision,
        facts={"host": this_host, "site": machine.model_dump(mode="json")},
        versions=program.package_versions(("nimc", "reframe-hpc", *program.WHEELS)),
        commit=commit(),
        margin=campaign.margin,
        asked=requirements_of(request),
    )


def requirements_of(request: Request) -> Requirements:
    """Return what a campaign requires of every run."""
    campaign = request.campaign
    treatments_by_case = dict(request.treatments)
    for search in request.searches.values():
        treatments_by_case |= search.treatments
    return Requirements(
        cases={
            case: [treatment.name for treatment in treatments]
            for case, treatments in treatments_by_case.items()
        },
        min_share=campaign.verify.min_share or request.machine.proof.min_share,
        retries=campaign.verify.retries,
    )


def resolved_request(
    campaign: Campaign,
    machine: Machine,
    hostname: str,
    nodelist: str | None = None,
    digest_by_check: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what must be unchanged for a run to be resumed.

    The title, the description and `expect` may change, so they are not included. Defaults are not
    included, so that a version with new options can resume the run. The host's name is included
    only if the machine is one host that is both origin and target.
    """
    requested = campaign.model_dump(
        mode="json",
        exclude_defaults=True,
        exclude={"title": True, "description": True, "workloads": {"__all__": {"expect"}}},
    )
    site = machine.model_dump(mode="json", exclude_defaults=True)
    fixed_host = hostname if machine.origins.policy == "same_host" else None
    call = {"hostname": fixed_host, "nodelist": nodelist, "checks": digest_by_check or None}
    call_parts = {name: value for name, value in call.items() if value is not None}
    return {"campaign": requested, "machine": site, **call_parts}
