"""The page of fabrics, and the table in README, are written from the table in the code."""

from nimc.cluster import fabric_page
from records.machine.fabrics import FABRICS


def test_the_page_and_the_table_of_readme_are_up_to_date():
    hint = "written by `python -m nimc.cluster.fabric_page`"
    assert fabric_page.PAGE.read_text() == fabric_page.page(), hint
    readme = fabric_page.README.read_text()
    assert fabric_page.readme_table() in readme, hint
    assert fabric_page.with_table(readme) == readme
    other = readme.replace("| tried on |\n", "| tried on |\n| x | y |\n")
    assert fabric_page.with_table(other) == readme


def test_the_page_has_devices_counters_and_units_of_each_fabric():
    lines = fabric_page.page().splitlines()
    rows = {name: [line for line in lines if line.startswith(f"| {name} |")] for name in FABRICS}
    assert "| Slingshot | - | - | **first** | yes: the target's device places them |" in lines
    assert any("`-c SRD -x 0`" in line for line in rows["EFA"])
    assert any("`cxgb4` | `net:{interface}` |" in line for line in rows["iWARP"])
    assert any("4 B" in line for line in rows["InfiniBand"])
    # Nothing was tried on hardware.
    assert not any("hardware" in fabric.tried_on for fabric in FABRICS.values())
