import pytest

from analysis.counts.roles import COUNTS, ROLES, counts, groups, lacking
from nimc.machine.host import FAMILIES


def test_every_row_names_a_role_and_families_that_exist():
    for row in COUNTS:
        assert row.role in ROLES
        assert row.families
        assert set(row.families) <= set(FAMILIES)
        assert row.events
        assert row.source in ("kernel", "likwid", "papi")


def test_no_role_is_counted_in_two_ways_by_one_group_of_one_family():
    seen = [(row.tool, row.group, row.role, family) for row in COUNTS for family in row.families]
    assert len(seen) == len(set(seen))


def test_a_group_covers_either_ranks_or_nodes():
    for tool, group in {(row.tool, row.group) for row in COUNTS}:
        scopes = {ROLES[row.role].scope for row in COUNTS if (row.tool, row.group) == (tool, group)}
        assert len(scopes) == 1
        assert groups(tool)[group] in scopes


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("A64FX", "Grace")])
def test_a_group_of_perf_stat_fits_the_counters_of_its_processor(family):
    # Intel cores have four general counters per hardware thread with hyperthreading on, and fixed
    # ones for cycles and instructions; AMD's Zen cores have six general counters and no fixed ones.
    # Memory controllers have four each (Intel, AMD), the CHA of a Xeon four.
    general = 6 if family.startswith("Zen") else 4
    for group in ("memory", "dram", "devices"):
        fixed = () if family.startswith("Zen") else ("cycles", "instructions")
        events = {e for row in counts("perf_stat", group, family) for e in row.events}
        limit = general if group == "memory" else 4
        assert len(events - set(fixed)) <= limit, group


def value_of(role: str, family: str, tool: str = "perf_stat"):
    (row,) = (r for r in COUNTS if r.tool == tool and r.role == role and family in r.families)
    return row.events, row.factor


def test_events_of_the_literature():
    # Kernel event lists: a CAS command moves one line of 64 B; IIO payload counts 4 B.
    assert value_of("DRAM read", "Cascade Lake") == (("unc_m_cas_count.rd",), 64)
    assert value_of("DRAM written", "Zen 4") == (("umc_cas_cmd.wr",), 64)
    assert value_of("device writes", "Skylake-SP")[1] == 4
    assert value_of("device writes", "Sapphire Rapids") == (
        ("unc_cha_tor_inserts.io_itom", "unc_cha_tor_inserts.io_itomcachenear"),
        64,
    )
    assert value_of("memory stalls", "Cascade Lake")[0] == ("cycle_activity.stalls_l3_miss",)


def test_what_a_processor_lacks_is_known():
    assert "memory stalls" in lacking("perf_stat", "Zen 2")
    assert "memory stalls" not in lacking("perf_stat", "Cascade Lake")
    assert "DDIO misses" in lacking("perf_stat", "Cascade Lake")
    assert "PCIe stalls" in lacking("perf_stat", "Sapphire Rapids")
    assert lacking("perf_stat", None) == list(ROLES)
    assert lacking("mpip", "Zen 4") == list(ROLES)
