"""Records in files that users write: how strictly they are read, and fields with units."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nimc.base import units
from nimc.base.errors import InputError


class Record(BaseModel):
    """A mapping without unknown keys; nothing in it is converted or changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def quantity(read: Callable[[str, str], float], text: object) -> float:
    """What `read`, of `nimc.base.units`, makes of a field. Raises ValueError."""
    try:
        return read(str(text), "value")
    except InputError as error:
        raise ValueError(str(error).removeprefix("value: ")) from None


#: Quantities with their units, above zero.
Duration = Annotated[float, BeforeValidator(partial(quantity, units.duration_s)), Field(gt=0)]
Size = Annotated[int, BeforeValidator(partial(quantity, units.size_b)), Field(gt=0)]
Rate = Annotated[float, BeforeValidator(partial(quantity, units.rate_b_s)), Field(gt=0)]
