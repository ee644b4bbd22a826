"""A validator of RO-Crates finds nothing required missing in a crate.

It asks the web for the meaning of the terms, which is answered here: for those of RO-Crate 1.1 that
a crate uses.
"""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from nimc.crate.zipped import unzipped

pytest.importorskip("rocrate_validator")

_SCHEMA_ORG = (
    "Dataset CreativeWork CreateAction SoftwareApplication PropertyValue Person Organization name"
    " description datePublished license author hasPart mentions identifier about startTime endTime"
    " agent instrument object result actionStatus softwareVersion version encodingFormat"
    " propertyID value"
)
CONTEXT = {
    **{term: f"http://schema.org/{term}" for term in _SCHEMA_ORG.split()},
    "File": "http://schema.org/MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
}


@pytest.fixture(autouse=True)
def _web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import urllib3
    from requests.adapters import HTTPAdapter

    body = json.dumps({"@context": CONTEXT}).encode()

    def send(self: HTTPAdapter, request: Any, **_: Any) -> Any:
        assert request.url == "https://w3id.org/ro/crate/1.1/context"
        raw = urllib3.HTTPResponse(
            io.BytesIO(body),
            headers={"Content-Type": "application/ld+json"},
            status=200,
            preload_content=False,
        )
        return self.build_response(request, raw)

    monkeypatch.setattr(HTTPAdapter, "send", send)
    monkeypatch.setenv("HOME", str(tmp_path))


def faults(folder: Path) -> list[str]:
    from rocrate_validator import models, services

    settings = services.ValidationSettings(
        rocrate_uri=str(folder),
        profile_identifier="process-run-crate-0.5",
        requirement_severity=models.Severity.REQUIRED,
        cache_path=folder.parent / "cache",
    )
    found = services.validate(settings)
    return [f"{issue.check.identifier}: {issue.message}" for issue in found.get_issues()]


def test_nothing_required_is_missing_but_what_was_removed(crate: Path, tmp_path: Path) -> None:
    folder = tmp_path / "crate"
    for name, content in unzipped(crate.read_bytes()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    metadata = folder / "ro-crate-metadata.json"
    document = json.loads(metadata.read_text())
    (root,) = (each for each in document["@graph"] if each["@id"] == "./")
    del root["license"]
    metadata.write_text(json.dumps(document))
    found = faults(folder)
    assert found
    assert [fault for fault in found if "license" not in fault] == []
