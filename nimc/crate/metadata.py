"""What a crate says of itself: RO-Crate metadata, citation, licence and how it is used. Pure.

The crate follows the Process Run Crate profile: one program, nimc, was run on a campaign. The other
profiles of a run describe steps of a workflow written in a workflow language; a campaign is none.
(RO-Crate 1.3; https://w3id.org/ro/wfrun/process/0.6)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from records.run import RunHeader

METADATA = "ro-crate-metadata.json"
#: What a crate has besides its descriptions: the folders of the run and of its report, a file.
RUN, REPORT, CAMPAIGN = "run/", "report/", "campaign.yaml"
_CONTEXT = "https://w3id.org/ro/crate/1.3"
_PROFILE = "https://w3id.org/ro/wfrun/process/0.6"
#: Licence of data, by its SPDX name -> its text.
LICENSES = {
    "CC-BY-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "CC-BY-SA-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "CC0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
}
_README = """\
{title}

Check it:    sha256sum -c manifest-sha256.txt
             nimc verify FILE.zip
Repeat it:   nimc reproduce FILE.zip --analysis-only    results and page from the samples
             nimc reproduce FILE.zip --machine M        the same plan, measured again

run/        header, samples, counters, provenance, kept output, locks of what Spack built
report/     its page and results, made from run/
campaign.yaml    what was asked, as run/run.json has it
"""


@dataclass(frozen=True)
class About:
    """What the packer states of a crate: its licence, and its authors (`Family, Given`)."""

    license: str
    authors: Sequence[str]


def descriptions(header: RunHeader, about: About) -> dict[str, bytes]:
    """The files that describe a crate."""
    title = f"{header.run}: network-induced memory contention on {header.machine}"
    graph = _graph(header, about, title)
    cited = _citation(header, about, title)
    texts = {
        "README.txt": _README.format(title=title),
        "LICENSE": f"The data of this crate: {about.license}, {LICENSES[about.license]}\n",
        "CITATION.cff": "".join(f"{key}: {json.dumps(value)}\n" for key, value in cited.items()),
        METADATA: json.dumps({"@context": f"{_CONTEXT}/context", "@graph": graph}, indent=1) + "\n",
    }
    return {name: text.encode() for name, text in texts.items()}


def _citation(header: RunHeader, about: About, title: str) -> dict[str, Any]:
    """Citation File Format 1.2.0; JSON is YAML."""
    names = [name.partition(", ") for name in about.authors]
    return {
        "cff-version": "1.2.0",
        "message": "If you use this data, please cite it.",
        "type": "dataset",
        "title": title,
        "authors": [
            {"family-names": first, "given-names": given} if comma else {"name": first}
            for first, comma, given in names
        ],
        "license": about.license,
        "date-released": _ended(header)[:10],
    }


def _moment(unix_s: float) -> str:
    return datetime.fromtimestamp(int(unix_s), timezone.utc).isoformat()


def _ended(header: RunHeader) -> str:
    return _moment(header.finished_s or header.started_s)


def _graph(header: RunHeader, about: About, title: str) -> list[dict[str, Any]]:
    """The crate and the run that gave it, then what they name."""
    version, commit = header.versions.get("nimc", "unknown"), header.commit or "commit unknown"
    parts = [
        _entity(RUN, "Dataset", "header, samples, counters, provenance and kept output of the run"),
        _entity(REPORT, "Dataset", "page and results, made from the run"),
        _entity(CAMPAIGN, "File", "what was asked", encodingFormat="application/yaml"),
    ]
    authors = [
        _entity(f"#author-{number}", "Person" if ", " in name else "Organization", name)
        for number, name in enumerate(about.authors)
    ]
    root = _entity(
        *("./", "Dataset", title),
        description=(
            f"One run of the campaign {header.campaign} by nimc {version} at {commit}: slowdown of"
            " applications by one-sided writes into their nodes' memory."
        ),
        datePublished=_ended(header),
        license=_to(LICENSES[about.license]),
        author=_to_all(authors),
        conformsTo=_to(_PROFILE),
        hasPart=_to_all(parts),
        mentions=_to("#run"),
    )
    action = _entity(
        *("#run", "CreateAction", f"nimc run of {header.campaign}"),
        description=f"The campaign {header.campaign}, run on the machine {header.machine}",
        startTime=_moment(header.started_s),
        endTime=_ended(header),
        agent=root["author"],
        instrument=_to("#nimc"),
        object=_to(CAMPAIGN),
        result=_to(RUN),
    )
    return [
        {"@id": METADATA, "@type": "CreativeWork", "about": _to("./"), "conformsTo": _to(_CONTEXT)},
        *(root, action),
        _software(f"{version}, {commit}", header.commit),
        _entity(_PROFILE, ["CreativeWork", "Profile"], "Process Run Crate", version="0.6"),
        _entity(LICENSES[about.license], "CreativeWork", about.license),
        *(*authors, *parts),
    ]


def _software(version: str, commit: str | None) -> dict[str, Any]:
    """nimc; its address is its commit, by which Software Heritage identifies sources anywhere."""
    # RO-Crate asks for `version`, and Process Run Crate for `softwareVersion`.
    named = {"softwareVersion": version, "version": version}
    revision = (commit or "").partition("+")[0]
    address = {"url": f"swh:1:rev:{revision}"} if len(revision) == 40 else {}
    return _entity("#nimc", "SoftwareApplication", "nimc", **named, **address)


def _entity(place: str, kind: str | list[str], name: str, **more: Any) -> dict[str, Any]:
    return {"@id": place, "@type": kind, "name": name, **more}


def _to(identifier: str) -> dict[str, str]:
    return {"@id": identifier}


def _to_all(entities: Sequence[dict[str, Any]]) -> Any:
    """Links to entities; to a single one without a list, as RO-Crate recommends."""
    links = [_to(entity["@id"]) for entity in entities]
    return links[0] if len(links) == 1 else links
