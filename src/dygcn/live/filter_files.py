"""A filter in a saved folder: its settings in the manifest, its rows in the file of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dygcn.engine.events.kinds import kinds_of
from dygcn.engine.filter.head import FilterHead
from dygcn.engine.models.folder import take_tensor
from dygcn.live.id_tensors import id_tensors, take_ids

if TYPE_CHECKING:
    from dygcn.engine.models.folder import Tensors

_MOST_COLUMNS = 1 << 14
_GREATEST_POWER = 100.0
_GREATEST_WEIGHT = 1e6  # the square of a step over that of a singular value: those of a fit are below 100
_LEAST_LIFE, _GREATEST = 1e-290, 1e300


class FilterSettings(msgspec.Struct, forbid_unknown_fields=True):
    """A filter, but for its rows and the weights of its columns; see `FilterHead`."""

    ridge: float
    half_life: float
    trend_half_life: float
    trend: float
    profile_half_life: float
    degree: float
    paths: float
    asks: tuple[str, ...]
    answers: tuple[str, ...]

    @staticmethod
    def of(head: FilterHead) -> FilterSettings:
        """Return the settings of a head."""
        return FilterSettings(*(getattr(head, name) for name in FilterSettings.__struct_fields__))


def filter_tensors(head: FilterHead | None) -> Tensors:
    """Return the rows of a filter, by their names in the file."""
    if head is None:
        return {}
    return {**id_tensors("filter_ids", head.ids), "filter_rows": head.rows, "filter_weights": head.weights}


def read_filter(
    settings: FilterSettings, tensors: Tensors, ids: str, directed: bool, unit: float | None
) -> FilterHead:
    """Take a filter out of the tensors of a model; a ValueError if no fit makes such a one."""
    names = take_ids(tensors, "filter_ids", ids)
    rows = take_tensor(tensors, "filter_rows", np.int8, 2)
    weights = take_tensor(tensors, "filter_weights", np.float32)
    lives = settings.half_life, settings.trend_half_life, settings.profile_half_life
    powers = settings.trend, settings.degree
    kinds = kinds_of(ids)
    known = () if kinds is None else kinds.names
    faults = {
        "rows that do not fit": rows.shape != (len(names), len(weights)) or len(weights) > _MOST_COLUMNS,
        "rows beyond 8 bits": bool(rows.min(initial=0) < -127),
        "weights that no product can have": not (np.abs(weights) < _GREATEST_WEIGHT).all(),
        "settings out of range": not all(
            0 <= one < _GREATEST for one in (*lives, settings.ridge, settings.paths)
        )
        or not all(0 <= one <= _GREATEST_POWER for one in powers),
        "half-lives without times": any(lives) and unit is None,
        "half-lives that are too short": any(0 < life < _LEAST_LIFE for life in lives),
        "other kinds than the graph": not {*settings.asks, *settings.answers} <= set(known)
        or not bool(settings.asks) == bool(settings.answers) == bool(known),
        "a graph with a direction": directed,
    }
    for fault, found in faults.items():
        if found:
            raise ValueError(f"a filter with {fault}")
    return FilterHead(names, rows, weights, **msgspec.structs.asdict(settings))
