"""The base of all holders of arrays, which compiled loops read as typed attributes."""

from __future__ import annotations

from typing import Any


class Holder:
    """A holder of arrays that never grow or move: longer ones have another holder. A copy shares them."""

    def __init__(self, arrays: tuple[Any, ...]) -> None:
        self.arrays: Any = arrays

    def __reduce__(self) -> tuple[type[Holder], tuple[Any, ...]]:
        return type(self), self.arrays
