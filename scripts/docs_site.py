"""Hooks of mkdocs, which add README, CONTRIBUTING, generated pages and a report to the site."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from analysis.report.data import load_run
from analysis.report.page import render
from nimc.cli.main import cli
from reframe_tests.workload import load_workload, workload_names

ROOT = Path(__file__).parents[1]
#: Page in the root of the repository -> page of the site.
_ROOT_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
#: Folder that contains one run, whose report is in the site (`scripts/sample_run.py`).
_SAMPLE_RUN_FOLDER = ROOT / "docs/sample-run"
#: The name of that report in README.
_REPORT_NAME = "`build/site/sample-report.html`"
#: The link at the top of the sample report.
_LINK_TO_DOCS = (
    '<p class="small"><a href="read-a-report.html">Back to the docs: read a report</a></p>'
)
#: Command, with the options that change the document -> schema number and keys of its JSON.
_DOCUMENTS = json.loads((ROOT / "docs/documents.json").read_text())
#: The picture of a report; in the site, it links to the sample report.
_PICTURE = re.compile(r"!\[[^]]*\]\(report\.png\)")
#: A link to a file: its path, and its anchor if it has one.
_LINK = re.compile(r"\]\((?![a-z]+://|#)([^)#]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add root pages, generated pages, and files outside docs/ to which pages link."""
    pages = {page: (ROOT / name).read_text() for name, page in _ROOT_PAGES.items()}
    pages |= {"commands.md": "".join(_commands(cli, "nimc")), "records.md": "".join(_records())}
    pages["workload-list.md"] = "".join(_workloads())
    for page, markdown in pages.items():
        files.append(File.generated(config, page, content=markdown))
    (sample_run,) = _SAMPLE_RUN_FOLDER.iterdir()
    report = render([load_run(sample_run)]).replace("<header>", f"<header>\n{_LINK_TO_DOCS}", 1)
    files.append(File.generated(config, "sample-report.html", content=report))
    linked_files = {
        link for page in files.documentation_pages() for link in _links_outside_docs(page)
    }
    root_pages = [(ROOT / name).read_text() for name in _ROOT_PAGES]
    root_links = {link for markdown in root_pages for link, _ in _LINK.findall(markdown)}
    linked_files |= {name for name in root_links if "/" not in name and (ROOT / name).is_file()}
    for name in sorted(linked_files - set(_ROOT_PAGES)):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of the repository into links of the site."""
    is_root_page = page.file.src_uri in _ROOT_PAGES.values()

    def site_link(link: re.Match[str]) -> str:
        path, anchor = link[1], link[2] or ""
        path = path.removeprefix("docs/") if is_root_page else path.removeprefix("../")
        return f"]({_ROOT_PAGES.get(path, path)}{anchor})"

    markdown = _LINK.sub(site_link, markdown)
    markdown = markdown.replace(_REPORT_NAME, f"[{_REPORT_NAME}](sample-report.html)")
    return _PICTURE.sub(r"[\g<0>](sample-report.html)", markdown)


def _links_outside_docs(page: File) -> Iterator[str]:
    """Yield the files outside docs/ to which a page links."""
    yield from re.findall(r"\]\(\.\./([^)#]+)", page.content_string)


def _commands(command: click.Command, name: str) -> Iterator[str]:
    """Yield the help of a command and of its subcommands, and the keys of their JSON."""
    if name == "nimc":
        yield "# All commands\n\nGenerated from the program.\n"
    context = click.Context(command, info_name=name, max_content_width=80, terminal_width=80)
    yield f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n"
    for command_line, document in _DOCUMENTS.items():
        # A key is a command, then an option or a condition, as in 'reproduce --analysis-only'.
        documented_command = re.split(" --| without", command_line)[0]
        if documented_command == name.removeprefix("nimc "):
            keys = ", ".join(f"`{key}`" for key in document["keys"])
            yield f"\nJSON of `{command_line}`: schema {document['schema']}, {keys}.\n"
            for rows_key, columns in document.get("rows", {}).items():
                yield f"\nRows of `{rows_key}`: {', '.join(f'`{key}`' for key in columns)}.\n"
    if isinstance(command, click.Group):
        for subcommand_name in command.list_commands(context):
            subcommand = command.get_command(context, subcommand_name)
            if subcommand:
                yield from _commands(subcommand, f"{name} {subcommand_name}")


def _workloads() -> Iterator[str]:
    """Yield a table of what each workload measures and what proves its result."""
    yield "# All workloads\n\nGenerated from the records of `reframe_tests/`.\n\n"
    yield "| workload | figure of merit | better | proof | other figures (`fom_extra`) |\n"
    yield "|---|---|---|---|---|\n"
    for name in workload_names():
        workload = load_workload(name)
        extra = ", ".join(f"`{key}`" for key in sorted(workload.extra))
        figure = f"{workload.fom} ({workload.unit})"
        cells = [f"`{name}`: {workload.title}", figure, workload.better, workload.sanity, extra]
        yield f"| {' | '.join(cells)} |\n"


def _records() -> Iterator[str]:
    """Yield the fields of all records, from their schemas."""
    yield "# Fields of all records\n\nGenerated from docs/schemas/, which the program writes.\n"
    for path in sorted((ROOT / "docs" / "schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        yield f"\n## {path.stem}\n\n[{path.name}](schemas/{path.name})\n"
        for title, record in [("", schema), *sorted(schema.get("$defs", {}).items())]:
            properties = record.get("properties", {})
            if properties:
                heading = f"**{title}**" if title else ""
                yield f"\n{heading}\n\n| field | type | meaning |\n|---|---|---|\n"
            for field, property_schema in properties.items():
                description = property_schema.get("description", "").replace("|", "\\|")
                yield f"| `{field}` | {_type(property_schema)} | {description} |\n"


def _type(property_schema: dict[str, Any]) -> str:
    """Return the type of a field in words."""
    if "anyOf" in property_schema:
        return " or ".join(map(_type, property_schema["anyOf"]))
    if "$ref" in property_schema:
        return str(property_schema["$ref"].rpartition("/")[2])
    if property_schema.get("type") == "array":
        return f"list of {_type(property_schema.get('items', {}))}"
    return str(property_schema.get("type", property_schema.get("const", "any")))
