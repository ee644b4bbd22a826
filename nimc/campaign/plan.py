"""Plans a campaign on a machine: its cases, blocks and ReFrame commands.

A *treatment* is the conditions of a run, for example the rate of the writes. Its *arm* says what
the writers do. A *factor* is a condition, and a *level* is one of its values. A *pair* is one run
of each treatment. A *block* is the pairs of one allocation.

Planning runs no application. Only `Request.offers` and `Request.feasibility` query this host and
Slurm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from analysis.statistics.evidence import pairs_of_next_interim
from conductor.counters import settling_s
from conductor.injectors import INJECTORS
from conductor.judge.length import doublings_needed, shortest_count_s
from nimc.campaign import cases, layouts
from nimc.campaign.cases import origins_taken
from nimc.readiness.checks import UNKNOWN_CHECK, CheckDescription
from nimc.readiness.diagnosis import CaseNeeds, Feasibility, OmittedCase, feasibility_of
from nimc.readiness.facts import Facts
from nimc.readiness.matrix import Offers, job_nodes, offers_of
from nimc.readiness.reframe_config import ReframeSettings
from records.acceptance import DISTURBANCE_LIMITS
from records.arms import ARMS
from records.block_plan import BlockPlan
from records.campaign import Campaign, Entry, Pairs
from records.errors import InputError
from records.machine.site import Machine
from records.sample import Level
from records.treatment import Treatment
from reframe_tests.planning import CaseRequest, plan_of_block, treatments

#: Placeholder in planned commands for the run's folder, whose name is not yet known.
RUN_PLACEHOLDER = "$RUN"
#: Time of a block without its runs, seconds. In this time ReFrame starts and builds, and the
#: uncontended rate of the writers (without the application) is measured for one kind of writes.
_BLOCK_OVERHEAD_S = 8.0
# The lead-in is the time from the end of one run of the application to the start of the next one.
# All runs of a block have the lead-in of its slowest writers (docs/method.md). *Held* writers are
# suspended between runs instead of ended.
#: Time that the conductor takes between two runs if no writers start, seconds.
_CONDUCTOR_BETWEEN_RUNS_S = 0.2
#: Lead-in of a control, of short writes, and of held writers whose arriving bytes are counted,
#: seconds.
_LEAD_IN_S = 0.7
#: Time in which writers that cannot be held end and start again, seconds.
_RESTART_S = 1.1
#: Factor by which lead-ins of continuous writers are longer than the sum of their parts.
_LEAD_IN_MARGIN = 1.05
#: Time to measure the uncontended rate of each further kind of writes, seconds.
_ALONE_MEASUREMENT_S = 4.0

#: Fields of a treatment that are printed as JSON.
_TREATMENT_KEYS = ("name", "arm", "role", "baseline", "factors")

#: Whether a block is always run, or only if its case is not yet decided.
Needed = Literal["always", "until decided"]


@dataclass(frozen=True)
class Lengths:
    """How long the application's runs took when the same campaign was run before."""

    #: Folder of the earlier campaign run; None if there is none.
    run: str | None = None
    #: Case -> mean time from the start of one accepted run to the start of the next, seconds.
    run_s_by_case: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A campaign, the machine to run it on, and the files and settings for ReFrame.

    A *check* is a ReFrame test, which runs one workload. A *case* is a check with its settings.
    """

    campaign: Campaign
    machine: Machine
    #: ReFrame's settings file.
    config: Path
    #: Folder with the files of checks.
    checks_folder: Path
    #: The content of the settings file.
    settings: ReframeSettings
    #: The checks of the campaign, by name.
    checks: Mapping[str, CheckDescription]
    #: Cases and levels that this machine cannot run.
    omissions: Sequence[OmittedCase] = ()
    #: The unchanged text of the campaign file.
    campaign_text: str = ""
    #: Whether Slurm runs the jobs.
    uses_slurm: bool = False
    #: Time limit of the jobs; None if there is no limit or it is unknown.
    time_limit_s: float | None = None
    #: The only nodes that may be targets, joined with commas; None: any nodes.
    nodelist: str | None = None
    #: Length of the shortest run in which writers report enough rows, and devices count precisely,
    #: seconds. Shorter runs are made longer.
    shortest_run_s: float = 0.0
    #: Time between two updates of the devices' byte counters, seconds; 0: they are always up to
    #: date.
    counter_period_s: float = 0.0
    #: How long runs took when the campaign was run before.
    lengths: Lengths = field(default_factory=Lengths)
    #: ReFrame's program.
    reframe: str = "reframe"

    @cached_property
    def treatments(self) -> dict[str, list[Treatment]]:
        """Return case -> treatments of a pair.

        Raises InputError if a treatment requests writes that cannot be made.
        """
        treatments_by_case: dict[str, list[Treatment]] = {}
        treatments_by_request: dict[str, list[Treatment]] = {}
        for case in self.campaign.cases:
            case_request = self.case_request(case)
            # A text as key, since `==` does not distinguish levels such as 1 and 1.0.
            request_text = repr(case_request)
            try:
                # If a campaign has thousands of cases, most of them have equal requests.
                if request_text not in treatments_by_request:
                    treatments_by_request[request_text] = treatments(
                        case_request, self.machine, case.scale
                    )
                treatments_by_case[case.name] = treatments_by_request[request_text]
            except InputError as error:
                raise InputError(f"{self.campaign.name}: {case.name}: {error}") from None
        return treatments_by_case

    def check(self, case: Entry) -> CheckDescription:
        """Return the description of a case's check."""
        return self.checks.get(case.check, UNKNOWN_CHECK)

    def case_request(self, case: Entry) -> CaseRequest:
        """Return the arms, levels and factors that a case requests from its check."""
        return cases.case_request(self.campaign, case, self.check(case))

    @cached_property
    def searches(self) -> dict[str, Request]:
        """Return case -> the request that compares its layouts, for cases with several layouts.

        Raises InputError.
        """
        return {
            case.name: self.search(case)
            for case in self.campaign.cases
            if layouts.is_to_be_chosen(case) and len(self.layouts_of(case)) > 1
        }

    def layouts_of(self, case: Entry) -> list[str]:
        """Return the layouts that a case may have. Raises InputError if it can have none."""
        return layouts.candidates(case, self.check(case), self.machine)

    def search(self, case: Entry) -> Request:
        """Return the request that compares the layouts of a case. Raises InputError."""
        campaign = layouts.comparison_campaign(self.campaign, case, self.layouts_of(case))
        return replace(self, campaign=campaign)

    @property
    def most_origin_nodes(self) -> int:
        """Return the largest number of origin nodes that a case takes."""
        origin_nodes = (origins_taken(case, self.machine) for case in self.campaign.cases)
        return max(origin_nodes, default=0)

    def plan(self, omitted_cases: Collection[str] = ()) -> Plan:
        """Plan all cases except `omitted_cases`, in the order in which they are run."""
        planned_cases = [
            _plan_case(self, case) for case in self.campaign.cases if case.name not in omitted_cases
        ]
        cores = self.machine.node_facts().cores
        return Plan(self.campaign.name, self.machine.name, cores, planned_cases)

    def with_pairs_cap(self, pairs: int) -> Request:
        """Return the request with `pairs` as the cap: the largest number of pairs of a case.

        A case ends at the cap even if it is undecided.
        """
        capped = self.campaign.pairs.model_copy(update={"cap": pairs})
        return replace(self, campaign=self.campaign.model_copy(update={"pairs": capped}))

    @cached_property
    def offers(self) -> Offers:
        """Return the programs and features that the targets' partitions offer, by environment.

        Queries this host and Slurm.
        """
        machine = self.machine
        return offers_of(
            self.settings, machine.name, machine.partition, machine.programs, machine.origins
        )

    def feasibility(self) -> Feasibility:
        """Return which parts of the campaign can run now. Raises InputError.

        Queries this host and Slurm.
        """
        machine = self.machine
        facts = Facts(
            name=machine.name,
            config_file=self.config,
            settings=self.settings,
            checks_folder=self.checks_folder,
            machine=machine,
        )
        return feasibility_of(
            facts, self.needs(), self.checks, self.offers, in_jobs=self.uses_slurm
        )

    def needs(self) -> list[CaseNeeds]:
        """Return the needs of each case: its check, nodes and injectors.

        Raises InputError if a treatment requests writes that cannot be made.
        """
        needs = []
        for case in self.campaign.cases:
            writes = [treatment.writes for treatment in self.treatments[case.name]]
            injectors = frozenset(planned.injector for planned in writes if planned)
            nodes = job_nodes(
                self.machine.origins.policy, case.nodes, origins_taken(case, self.machine)
            )
            needs.append(CaseNeeds(case.name, case.check, case.nodes, nodes, injectors))
        return needs


@dataclass(frozen=True)
class Block:
    """The pairs of one allocation."""

    #: Index of the block in its case.
    block: int
    #: Number of its pairs.
    pairs: int
    needed: Needed
    #: Expected duration, seconds.
    duration_s: float
    #: The ReFrame command that measures the block.
    command: list[str]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One workload with its settings. It is measured until its verdicts are decided."""

    #: Name of the case.
    case: str
    workload: str
    arms: list[str]
    #: The treatments. A pair has one run of each.
    treatments: list[Treatment]
    #: Factors whose levels change within a block.
    factors_within: dict[str, list[Level]]
    #: All other factors -> the level of this case.
    factors_between: dict[str, Level]
    target_nodes: int
    origin_nodes: int
    #: Floor and cap of the number of pairs.
    pairs_least: int
    pairs_most: int
    #: Expected durations up to the floor and up to the cap, seconds.
    duration_least_s: float
    duration_most_s: float
    blocks: list[Block]

    @property
    def nodes(self) -> int:
        """Return the number of nodes of each allocation of the case."""
        return self.target_nodes + self.origin_nodes

    def as_dict(self) -> dict[str, Any]:
        """Return the case in the form in which it is printed as JSON.

        `asdict` is not used, since it would copy every word of every command.
        """
        return vars(self) | {
            "treatments": [
                {name: getattr(treatment, name) for name in _TREATMENT_KEYS}
                for treatment in self.treatments
            ],
            "blocks": [vars(block) for block in self.blocks],
        }


@dataclass(frozen=True)
class Plan:
    """All cases of a campaign on a machine."""

    campaign: str
    machine: str
    #: Number of cores of a node. Core-hours count all of them, since nodes are allocated whole.
    node_cores: int
    cases: list[Case]

    @property
    def sums(self) -> dict[str, float]:
        """Return the sums of durations, node-hours and core-hours over all cases."""
        least_h = sum(case.nodes * case.duration_least_s for case in self.cases) / 3600
        most_h = sum(case.nodes * case.duration_most_s for case in self.cases) / 3600
        return {
            "duration_least_s": sum(case.duration_least_s for case in self.cases),
            "duration_most_s": sum(case.duration_most_s for case in self.cases),
            "node_hours_least": least_h,
            "node_hours_most": most_h,
            "core_hours_least": least_h * self.node_cores,
            "core_hours_most": most_h * self.node_cores,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the plan and its sums in the form in which they are printed as JSON."""
        return vars(self) | {"cases": [case.as_dict() for case in self.cases], **self.sums}


def _plan_case(request: Request, entry: Entry) -> Case:
    """Return the plan of a case, with all blocks up to the cap of pairs."""
    pairs, case_treatments = request.campaign.pairs, request.treatments[entry.name]
    blocks: list[Block] = []
    pairs_planned = 0
    least_s = 0.0
    sizes = block_sizes(pairs)
    length_s_by_size = block_lengths_s(request, entry, case_treatments, {*sizes})
    for index, size in enumerate(sizes):
        needed: Needed = "always" if pairs_planned < pairs.floor else "until decided"
        if needed == "always":
            least_s += length_s_by_size[size]
        command = reframe_command(request, entry, index, RUN_PLACEHOLDER)
        blocks.append(Block(index, size, needed, length_s_by_size[size], command))
        pairs_planned += size
    search_s = search_length_s(request, entry)
    return Case(
        case=entry.name,
        workload=entry.check,
        arms=request.campaign.arms,
        treatments=case_treatments,
        factors_within=entry.factors,
        factors_between=entry.case_levels,
        target_nodes=entry.nodes,
        origin_nodes=origins_taken(entry, request.machine),
        pairs_least=pairs.floor,
        pairs_most=pairs.maximum,
        duration_least_s=search_s + least_s,
        duration_most_s=search_s + sum(length_s_by_size[size] for size in sizes),
        blocks=blocks,
    )


def search_length_s(request: Request, entry: Entry) -> float:
    """Return the expected length of the comparison of a case's layouts, seconds.

    It is 0 if the case has no layouts to compare.
    """
    search = request.searches.get(entry.name)
    if search is None:
        return 0.0
    (search_entry,) = search.campaign.cases
    search_treatments = search.treatments[search_entry.name]
    return block_length_s(search, search_entry, search_treatments, layouts.RUNS_PER_LAYOUT)


@cache  # all cases of a campaign have the same arguments
def block_sizes(pairs: Pairs, complete_pairs: int = 0) -> tuple[int, ...]:
    """Return the number of pairs of each further block of a case, up to the cap.

    `complete_pairs` is the number of pairs that the case already has.
    """
    sizes: list[int] = []
    while size := next_block_pairs(complete_pairs + sum(sizes), pairs, is_done=False):
        sizes.append(size)
    return tuple(sizes)


def next_block_pairs(complete_pairs: int, pairs: Pairs, *, is_done: bool) -> int:
    """Return the number of pairs of the next block of a case; 0 if the case needs no more pairs.

    `complete_pairs` is the number of pairs that the case already has. If `is_done`, the case needs
    only the pairs up to its floor.
    """
    if complete_pairs < pairs.floor:
        goal = pairs.floor
    elif is_done or complete_pairs >= pairs.maximum:
        return 0
    else:  # only an interim analysis can change a verdict, so a block ends at one
        goal = min(pairs_of_next_interim(complete_pairs + 1), pairs.maximum)
    return min(pairs.block or goal, goal - complete_pairs)


def block_length_s(
    request: Request, entry: Entry, case_treatments: Sequence[Treatment], pairs: int
) -> float:
    """Return the expected length of a block with `pairs` pairs, seconds."""
    return block_lengths_s(request, entry, case_treatments, [pairs])[pairs]


def block_lengths_s(
    request: Request, entry: Entry, case_treatments: Sequence[Treatment], sizes: Iterable[int]
) -> dict[int, float]:
    """Return number of pairs of a block -> the block's expected length, seconds.

    `sizes` are the numbers of pairs.
    """
    writes = {treatment.writes for treatment in case_treatments if treatment.role == "effect"}
    # If the number of queue pairs is searched for, the uncontended rate of the writers is measured
    # at least once more.
    queue_pair_searches = {
        planned.at_full_rate()
        for planned in writes
        if planned and planned.queue_pairs is None and planned.devices
    }
    further_measurements = max(0, len(writes) - 1) + len(queue_pair_searches)
    alone_s = _ALONE_MEASUREMENT_S * further_measurements
    # Each measurement lasts until rarely updated counters are precise.
    count_s = shortest_count_s(request.counter_period_s, request.machine.proof.counter_share)
    alone_s += count_s * (len(writes) + len(queue_pair_searches))
    run_s = run_length_s(request, entry, case_treatments)
    length_s_by_size = {}
    for pairs in sizes:
        run_count = entry.warmups + pairs * len(case_treatments)
        length_s_by_size[pairs] = _BLOCK_OVERHEAD_S + alone_s + run_count * run_s
    return length_s_by_size


def run_length_s(request: Request, entry: Entry, case_treatments: Sequence[Treatment]) -> float:
    """Return the time of an accepted run with its lead-in, seconds.

    It is the time that was measured when the campaign was run before (`Lengths`), or else the
    expected time.
    """
    if measured_s := request.lengths.run_s_by_case.get(entry.name):
        return measured_s
    lead_ins_s = [_lead_in_s(request, entry, treatment) for treatment in case_treatments]
    if any(treatment.writes for treatment in case_treatments):
        lead_ins_s.append(max(lead_ins_s) + settling_s(request.counter_period_s))
    lead_in_s = max(*lead_ins_s, request.campaign.rest or 0.0)
    doublings = doublings_needed(entry.expect, request.shortest_run_s)
    return entry.expect * float(2**doublings) + lead_in_s


def _lead_in_s(request: Request, entry: Entry, treatment: Treatment) -> float:
    """Return the lead-in of a treatment, seconds: what its writers need between two runs."""
    if treatment.role not in ("effect", "control"):
        return _CONDUCTOR_BETWEEN_RUNS_S
    if treatment.writes is None or ARMS[treatment.arm].writing != "continuous":
        return _LEAD_IN_S
    machine, injector = request.machine, INJECTORS[treatment.writes.injector]
    row_s, rows = injector.row_s or 0.0, request.check(entry).ready_rows
    between_hosts = machine.origins.policy != "same_host"
    if not injector.can_be_held(on_one_host=not between_hosts):
        return _LEAD_IN_MARGIN * (_RESTART_S + (rows - 1) * row_s)
    origin_per_target = entry.nodes <= machine.origins.nodes
    counted_by_device = between_hosts and bool(machine.device) and origin_per_target
    if rows == 1 and (counted_by_device or injector.reports_arrivals):
        # The first update of a counter may come at once. Only the next one shows the rate.
        return _LEAD_IN_S + 2 * request.counter_period_s
    # The first row covers time in which the writers were held, so one more row is needed.
    return _LEAD_IN_MARGIN * (1 + rows) * row_s


def block_plan(
    request: Request,
    entry: Entry,
    index: int,
    pairs: int,
    run: Path,
    *,
    seed: int,
) -> BlockPlan:
    """Return the plan of a block. It has everything that the conductor needs to make its runs."""
    campaign, check = request.campaign, request.check(entry)
    acceptance = campaign.verify
    limit_names = (*DISTURBANCE_LIMITS, "min_share", "retries")
    limits = {name: getattr(acceptance, name) for name in limit_names}
    limits |= {"ready_rows": check.ready_rows, "run_timeout_s": campaign.run_timeout}
    return plan_of_block(
        request.case_request(entry),
        request.treatments[entry.name],
        request.machine,
        limits,
        entry.scale,
        case=entry.name,
        workload=entry.check,
        block=index,
        seed=seed,
        pairs=pairs,
        warmups=entry.warmups,
        rest_s=campaign.rest or 0.0,
        nimc_dir=str(run),
        nodelist=request.nodelist or "",
        settings={name: check.typed(name, value) for name, value in entry.set.items()},
    )


def logs_of(run: Path, entry: Entry, index: int) -> Path:
    """Return the folder of a block in a run's folder. It has the block's plan and logs."""
    return Path(_logs(run, entry, index))


def _logs(run: Path | str, entry: Entry, index: int) -> str:
    # A text, not a `Path`, since a plan makes thousands of them and a `Path` takes longer.
    return f"{run}/logs/{entry.name}/{index}"


def folder_options(folder: Path | str) -> list[str]:
    """Return an option for each of ReFrame's folders.

    ReFrame's option `--prefix` is not used, since a site's settings would override it.
    """
    subfolder_by_option = {"stage": "stage", "output": "output", "perflogdir": "perflogs"}
    return [f"--{option}={folder}/{name}" for option, name in subfolder_by_option.items()]


#: Name of the plan file with which a block is measured.
PLAN_FILE = "plan.json"
#: Name of the plan file with which a third-party check reads the runs of a block and runs nothing.
READING_PLAN_FILE = "reading.json"


def reframe_command(
    request: Request, entry: Entry, index: int, run: str, plan_file: str = PLAN_FILE
) -> list[str]:
    """Return the ReFrame command that runs a block.

    ReFrame writes its files to the block's folder in the run's folder `run`.
    """
    logs = _logs(run, entry, index)
    third_party_file = request.check(entry).file
    check_file = third_party_file or f"{request.checks_folder}/{entry.check}.py"
    # ReFrame appends the parameters of a check to its name, even a parameter with a single value.
    name_pattern = f"^{entry.check}(%.*)?$" if third_party_file else f"^{entry.check}$"
    return [
        request.reframe,
        "-C",
        str(request.config),
        f"--system={request.machine.system}",
        "-c",
        check_file,
        "-r",
        "-n",
        name_pattern,
        *folder_options(f"{logs}/reframe"),
        f"--report-file={logs}/reframe.json",
        "-S",
        f"{entry.check}.block_file={logs}/{plan_file}",
    ]
