"""Optional packages: the error for a missing one has the command that installs it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from dygcn.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def extra(name: str, of: str = "dygcn") -> Iterator[None]:
    """Raise `MissingExtra`, with the command that installs it, if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise MissingExtra(f'{missing.name} is not installed. Run: pip install "{of}[{name}]"') from missing
