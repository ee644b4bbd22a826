"""The command `nimc spack`, which builds workloads and tools with Spack."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from analysis.display.document import Table
from analysis.display.lines import wrapped
from nimc.cli.answer import Answer, prints_answer
from nimc.cli.options import FILE, completing, machine_option
from records.errors import InputError
from records.machine.site import require_known
from reframe_tests.spack.build import BuiltEnvironment, built_environments, read_built_environment
from reframe_tests.spack.build import build as build_environment
from reframe_tests.spack.externals import LANGUAGES, compiler_fault_and_remedy, compilers
from reframe_tests.spack.folders import SpackLayout, layout
from reframe_tests.spack.settings import environment_text, known_environments, load_settings
from reframe_tests.spack.setup import setup as set_up

_jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=len(os.sched_getaffinity(0)),
    show_default="all cores",
    help="Processes that build at the same time.",
)


@click.group()
def spack_command() -> None:
    """Build workloads and tools with Spack, isolated from ~/.spack.

    All files are in $NIMC_SPACK_DIR, else in the user's cache.
    """


def _spack_layout(machine: str) -> SpackLayout:
    """Return the folders of Spack for a machine. Raises InputError if the machine is unknown."""
    spack_layout = layout(machine)
    require_known(machine)
    return spack_layout


def _print_progress(line: str) -> None:
    click.echo(line, err=True)


@spack_command.command()
@machine_option
@click.option(
    "--packages",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Recipes (a folder repos/spack_repo/builtin) instead of the pinned ones.",
)
@click.option(
    "--machine-file",
    type=FILE,
    help="Externals of this machine [default: spack_envs/machines/MACHINE.yaml, if it exists].",
)
@click.option("--mirror", metavar="URL", help="A mirror that has sources and built packages.")
@click.option(
    "--forget", is_flag=True, help="Do not use the options of an earlier setup that are not given."
)
@prints_answer()
def setup(
    machine: str,
    packages: Path | None,
    machine_file: Path | None,
    mirror: str | None,
    forget: bool,
) -> Answer:
    """Use the installed Spack (SPACK_ROOT, PATH) or clone the pinned one; find compilers.

    Options that are not given are those of an earlier setup, if there was one.
    """
    spack_layout = _spack_layout(machine)
    settings = set_up(spack_layout, packages, machine_file, mirror, _print_progress, forget=forget)
    note = "" if settings.pinned else " (not the pinned version)"
    programs_by_compiler = compilers(spack_layout, settings)
    languages_by_compiler = {
        compiler: [_language_name(language) for language in programs]
        for compiler, programs in programs_by_compiler.items()
    }
    compiler_texts = [
        f"{compiler} ({', '.join(languages)})"
        for compiler, languages in languages_by_compiler.items()
    ]
    lines = [
        f"Spack {settings.version}{note} in {settings.spack}",
        f"files in {spack_layout.root}",
        f"compilers: {', '.join(compiler_texts) or 'none'}",
    ]
    if fault_and_remedy := compiler_fault_and_remedy(programs_by_compiler, machine):
        lines.append(": ".join(fault_and_remedy))
    document = {
        "root": str(spack_layout.root),
        **asdict(settings),
        "compilers": languages_by_compiler,
    }
    return Answer(document, map(wrapped, lines))


def _language_name(language: str) -> str:
    name, *_packages = LANGUAGES[language]
    return name


@spack_command.command()
@click.argument(
    "stacks", nargs=-1, metavar="STACK...", shell_complete=completing(known_environments)
)
@machine_option
@_jobs_option
@prints_answer()
def build(stacks: tuple[str, ...], machine: str, jobs: int) -> Answer:
    """Build environments; those that are up to date are skipped."""
    if not stacks:
        raise InputError(f"STACK: name at least one of {', '.join(known_environments())}")
    spack_layout = _spack_layout(machine)
    settings = load_settings(spack_layout)
    return built_answer(
        [build_environment(spack_layout, settings, name, jobs, _print_progress) for name in stacks]
    )


@spack_command.command()
@click.argument(
    "stacks", nargs=-1, metavar="[STACK...]", shell_complete=completing(known_environments)
)
@machine_option
@prints_answer()
def info(stacks: tuple[str, ...], machine: str) -> Answer:
    """Show what is built: specs, hashes and folders of programs; with --json, also prefixes."""
    spack_layout = _spack_layout(machine)
    for name in stacks:
        environment_text(name)  # raises InputError if the environment is unknown
    records = [
        read_built_environment(spack_layout, name)
        for name in stacks or built_environments(spack_layout)
    ]
    return built_answer([record for record in records if record])


def built_answer(environments: list[BuiltEnvironment]) -> Answer:
    """Return an answer that lists the packages of built environments.

    It also has the folder with the programs of each environment.
    """
    header = ["environment", "package", "version", "hash"]
    rows = [
        # If a commit was built, Spack's version is `git.COMMIT=VERSION`. VERSION is the recipe's.
        [record.environment, spec["name"], spec["version"].rpartition("=")[2], spec["hash"][:7]]
        for record in environments
        for spec in record.specs
    ]
    folders = [f"{record.environment}: {record.view}/bin" for record in environments]
    parts: list[str | Table] = [Table(header, rows), *map(wrapped, folders)]
    document = {"environments": [asdict(record) for record in environments]}
    return Answer(document, parts if rows else ["nothing is built"])
