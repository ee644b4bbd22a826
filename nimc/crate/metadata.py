"""Makes the files that describe a crate: RO-Crate metadata, licence and how to use the crate.

A crate is a zip with the run of a campaign. It follows RO-Crate 1.3 and the profile Process Run
Crate (https://w3id.org/ro/wfrun/process/0.6), which describes that one program, nimc, was run on a
campaign. The other RO-Crate profiles for runs require a file in a workflow language. A campaign's
file is not in such a language. This module reads no files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from records.calls import PACKED_CAMPAIGN
from records.run import RunHeader

METADATA_FILE = "ro-crate-metadata.json"
#: Folders of a crate with the run and its report. The campaign's file (`PACKED_CAMPAIGN`) is in the
#: folder above them.
RUN_FOLDER, REPORT_FOLDER = "run/", "report/"
_CONTEXT = "https://w3id.org/ro/crate/1.3"
_PROFILE = "https://w3id.org/ro/wfrun/process/0.6"
#: SPDX name of a licence for data -> address of its text.
LICENSES = {
    "CC-BY-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "CC-BY-SA-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "CC0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
}
#: Number of digits of a Git commit's full name.
_COMMIT_DIGITS = 40
_README = """\
{title}

Check it:    sha256sum -c manifest-sha256.txt
             nimc verify FILE.zip
Repeat it:   nimc reproduce FILE.zip --analysis-only    results and page from the samples
             nimc reproduce FILE.zip --machine M        the same plan, measured again
"""


def descriptions(header: RunHeader, license_: str, authors: Sequence[str]) -> dict[str, bytes]:
    """Return name -> content of the files that describe a crate.

    `license_` is the SPDX name of the data's licence. Each author is a person, written
    `Family, Given`, or an institution.
    """
    title = f"{header.run}: network-induced memory contention on {header.machine}"
    graph = _graph(header, title, license_, authors)
    texts = {
        "README.txt": _README.format(title=title),
        "LICENSE": f"The data of this crate: {license_}, {LICENSES[license_]}\n",
        METADATA_FILE: json.dumps({"@context": f"{_CONTEXT}/context", "@graph": graph}, indent=1)
        + "\n",
    }
    return {name: text.encode() for name, text in texts.items()}


def _graph(
    header: RunHeader, title: str, license_: str, authors: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the entities of the metadata: the crate, its run, and the entities that they name."""
    version = header.versions.get("nimc", "unknown")
    commit = header.commit or "commit unknown"
    start = _iso_time(header.started_s)
    end = _iso_time(header.finished_s or header.started_s)
    author_entities = [
        _entity(f"#author-{number}", "Person" if ", " in name else "Organization", name)
        for number, name in enumerate(authors)
    ]
    references = [_reference(entity["@id"]) for entity in author_entities]
    # RO-Crate recommends that a single author is not written as a list.
    author = references if len(references) > 1 else references[0]
    root = _entity("./", "Dataset", title) | {
        "description": (
            f"One run of the campaign {header.campaign} by nimc {version} at {commit}: slowdown of"
            " applications by one-sided writes into their nodes' memory."
        ),
        "datePublished": end,
        "license": _reference(LICENSES[license_]),
        "author": author,
        "conformsTo": _reference(_PROFILE),
        "hasPart": [_reference(RUN_FOLDER), _reference(REPORT_FOLDER), _reference(PACKED_CAMPAIGN)],
        "mentions": _reference("#run"),
    }
    action = _entity("#run", "CreateAction", f"nimc run of {header.campaign}") | {
        "description": f"The campaign {header.campaign}, run on the machine {header.machine}",
        "startTime": start,
        "endTime": end,
        "agent": author,
        "instrument": _reference("#nimc"),
        "object": _reference(PACKED_CAMPAIGN),
        "result": _reference(RUN_FOLDER),
    }
    return [
        {
            "@id": METADATA_FILE,
            "@type": "CreativeWork",
            "about": _reference("./"),
            "conformsTo": _reference(_CONTEXT),
        },
        root,
        action,
        _software(f"{version}, {commit}", header.commit),
        _entity(_PROFILE, ["CreativeWork", "Profile"], "Process Run Crate") | {"version": "0.6"},
        _entity(LICENSES[license_], "CreativeWork", license_),
        *author_entities,
        _entity(
            RUN_FOLDER,
            "Dataset",
            "header, samples, counters, provenance and kept output of the run",
        ),
        _entity(REPORT_FOLDER, "Dataset", "page and results, made from the run"),
        _entity(PACKED_CAMPAIGN, "File", "what was asked") | {"encodingFormat": "application/yaml"},
    ]


def _software(version: str, commit: str | None) -> dict[str, Any]:
    """Return the entity of the program nimc.

    Its address names the commit in the form of Software Heritage, if the commit is known.
    """
    revision = (commit or "").partition("+")[0]
    address = {"url": f"swh:1:rev:{revision}"} if len(revision) == _COMMIT_DIGITS else {}
    # RO-Crate requires `version`, and Process Run Crate `softwareVersion`.
    versions = {"softwareVersion": version, "version": version}
    return _entity("#nimc", "SoftwareApplication", "nimc") | versions | address


def _iso_time(unix_s: float) -> str:
    return datetime.fromtimestamp(int(unix_s), timezone.utc).isoformat()


def _entity(identifier: str, entity_type: str | list[str], name: str) -> dict[str, Any]:
    return {"@id": identifier, "@type": entity_type, "name": name}


def _reference(identifier: str) -> dict[str, str]:
    return {"@id": identifier}
