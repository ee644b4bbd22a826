"""A validator of RO-Crates accepts a crate: nothing is missing that the standards require.

The validator fetches the meaning of terms from the web. A stand-in answers for the terms that a
crate uses. The validator knows Process Run Crate only up to version 0.5, which is based on RO-Crate
1.1. Version 0.6 has the same rules, so for this profile the test writes the older versions into the
crate.
"""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from nimc.crate.archive import read_zip

pytest.importorskip("rocrate_validator")
pytestmark = pytest.mark.slow

_SCHEMA_ORG = (
    "Dataset CreativeWork CreateAction SoftwareApplication PropertyValue Person Organization name"
    " description datePublished license author hasPart mentions identifier about startTime endTime"
    " agent instrument object result actionStatus softwareVersion version url encodingFormat"
    " propertyID value"
)
CONTEXT = {
    **{term: f"http://schema.org/{term}" for term in _SCHEMA_ORG.split()},
    "File": "http://schema.org/MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
    "Profile": "http://www.w3.org/ns/dx/prof/Profile",
}


@pytest.fixture(autouse=True)
def _web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import urllib3
    from requests.adapters import HTTPAdapter

    body = json.dumps({"@context": CONTEXT}).encode()

    def send(self: HTTPAdapter, request: Any, **_: Any) -> Any:
        assert re.fullmatch("https://w3id.org/ro/crate/1.[13]/context", request.url)
        raw = urllib3.HTTPResponse(
            io.BytesIO(body),
            headers={"Content-Type": "application/ld+json"},
            status=200,
            preload_content=False,
        )
        return self.build_response(request, raw)

    monkeypatch.setattr(HTTPAdapter, "send", send)
    monkeypatch.setenv("HOME", str(tmp_path))


def faults(folder: Path, profile: str) -> list[str]:
    from rocrate_validator import models, services

    settings = services.ValidationSettings(
        rocrate_uri=str(folder),
        profile_identifier=profile,
        requirement_severity=models.Severity.REQUIRED,
        cache_path=folder.parent / "cache",
    )
    validation = services.validate(settings)
    return [f"{issue.check.identifier}: {issue.message}" for issue in validation.get_issues()]


@pytest.mark.parametrize(
    ("profile", "set_back"),
    [
        ("ro-crate-1.3", {}),
        ("process-run-crate-0.5", {"ro/crate/1.3": "ro/crate/1.1", "process/0.6": "process/0.5"}),
    ],
)
def test_the_validator_finds_only_the_license_missing_that_the_test_removes(
    profile: str, set_back: dict[str, str], crate: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "crate"
    for name, content in read_zip(crate.read_bytes()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    metadata = folder / "ro-crate-metadata.json"
    text = metadata.read_text()
    for today, earlier in set_back.items():
        assert today in text
        text = text.replace(today, earlier)
    document = json.loads(text)
    (root,) = (entity for entity in document["@graph"] if entity["@id"] == "./")
    del root["license"]
    metadata.write_text(json.dumps(document))
    missing = faults(folder, profile)
    assert missing
    assert [fault for fault in missing if "license" not in fault] == []
