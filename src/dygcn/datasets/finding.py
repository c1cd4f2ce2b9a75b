"""Where a data set lies: the folder that was named, DYGCN_DATA, or the package itself."""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dygcn.datasets.registry import shipped_names
from dygcn.errors import DatasetError

if TYPE_CHECKING:
    from os import PathLike

    from dygcn.datasets.registry import DatasetInfo

VARIABLE = "DYGCN_DATA"
OWN, LAB = "dygcn.datasets", "dygcn_lab.datasets"  # packages that bring copies
EDGES, NODES = "edges.parquet", "nodes.parquet"


def find(about: DatasetInfo, folder: str | PathLike[str] | None) -> Path | None:
    """Return the file with the edges of a set, or None for the copy that comes with dygcn or its laboratory.

    A folder that is named must hold the set. A folder that only DYGCN_DATA names may lack it.
    """
    if folder is not None:
        looked = _places(about, Path(folder).expanduser(), alone=True)
    elif variable := os.environ.get(VARIABLE):
        looked = _places(about, Path(variable).expanduser(), alone=False)
    else:
        looked = []
    for place in looked:
        if place.is_file():
            return place
    if folder is None and about.ships_in and find_spec(about.ships_in.partition(".")[0]):
        return None
    raise DatasetError(_not_found(about, looked))


def _places(about: DatasetInfo, root: Path, alone: bool) -> list[Path]:
    """List the files that would do. `alone`: the folder may also be that of this one set."""
    if about.original and root.suffix == Path(about.original.file).suffix:
        return [root]
    wanted = [EDGES] if about.original is None else [EDGES, about.original.file]
    places = [root / about.name / file for file in wanted]
    return places + [root / file for file in wanted if alone or file != EDGES]


def _not_found(about: DatasetInfo, looked: list[Path]) -> str:
    where = "looked for " + " and ".join(map(str, looked)) if looked else f"{VARIABLE} is not set"
    found = f"the data set {about.name} was not found: {where}. "
    if about.ships_in == LAB:
        return found + "A copy comes with the laboratory: pip install dygcn-lab"
    if about.ships_in:
        return found + "Without folder= the copy that comes with dygcn is loaded"
    original = f" or {about.original.file}" if about.original else ""
    return found + (
        f"Only {' and '.join(shipped_names(OWN))} comes with dygcn. This one is published by "
        f"{about.publisher}, {about.address}. Put {EDGES}{original} into a folder called {about.name}, and "
        f"name the parent of that folder in {VARIABLE} or as folder=. docs/datasets.md describes the files"
    )


def read_checked(path: Path, about: DatasetInfo) -> bytes:
    """Return the content of a file, if it is the one that the registry knows."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} of the data set {about.name} cannot be read: {error.strerror}") from error
    check(content, about.sha256[path.name], str(path), about)
    return content


def read_shipped(about: DatasetInfo) -> bytes:
    """Return the content of the copy that comes with dygcn, or with its laboratory."""
    file = about.shipped_file
    content = files(about.ships_in).joinpath("shipped", file).read_bytes()
    check(content, about.sha256[file], f"{file} of this installation", about)
    return content


def check(content: bytes, expected: str, what: str, about: DatasetInfo) -> None:
    """Refuse what is not the content that the registry knows.

    Examples
    --------
    >>> from dygcn.datasets.registry import info
    >>> check(b"abc", "5" * 64, "edges.parquet", info("chess"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    dygcn.errors.DatasetError: edges.parquet is not the chess that dygcn knows: expected sha256 555555555...
    """
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DatasetError(
            f"{what} is not the {about.name} that dygcn knows: expected sha256 {expected[:12]}..., found "
            f"{found[:12]}.... It is damaged, of another version, or another set: get it again. Events that "
            f"are yours need no registry; give the path of their file to dygcn.fit"
        )
