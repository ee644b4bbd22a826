"""The page of workloads is what their records say."""

from reframe_tests.describe import PAGE, page
from reframe_tests.workload import load, names


def test_page_is_fresh():
    assert PAGE.read_text() == page(PAGE.read_text()), "stale: python -m reframe_tests.describe"


def test_rows_are_made_from_the_records():
    assert len(names()) == 15
    lines = PAGE.read_text().splitlines()
    bare = "\n".join(line for line in lines if not line.startswith(("| `", "- **")))
    made = page(f"{bare}\n")
    for name in names():
        row = load(name)
        assert f"| `{name}`: {row.title} | {row.fom} | {row.unit} | {row.better} |" in made
        assert f"- **{name}**: {row.sanity}." in made
