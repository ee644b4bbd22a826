from pathlib import Path

import pytest

from nimc.base.checkout import ROOT
from nimc.base.errors import InputError
from nimc.cli.options import CampaignPath


def path_of(given: str) -> Path:
    return CampaignPath().convert(given, None, None)


def test_a_name_is_a_campaign_of_the_checkout():
    assert path_of("quick") == ROOT / "campaigns" / "quick.yaml"


@pytest.mark.parametrize("given", ["quick.yaml", "./quick", "mine/quick", "/dev/stdin"])
def test_a_path_stays_a_path(given):
    assert path_of(given) == Path(given)


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(
        InputError, match=r"^unknown campaign 'quik', did you mean 'quick'\?; .*numa"
    ):
        path_of("quik")
