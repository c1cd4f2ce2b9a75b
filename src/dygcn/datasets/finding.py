"""The files of a data set: in a named folder, in the folder of DYGCN_DATA, or in a package."""

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
OWN, LAB = "dygcn.datasets", "dygcn_lab.datasets"  # packages that contain copies
EDGES, NODES = "edges.parquet", "nodes.parquet"


def find(about: DatasetInfo, folder: str | PathLike[str] | None) -> Path | None:
    """Return the file with the edges of a set, or None for the copy that comes with dygcn or dygcn-lab.

    Raises `DatasetError` if there is neither. If `folder` is given, the set must be in it.
    """
    if folder is not None:
        candidates = _candidates(about, Path(folder).expanduser(), alone=True)
    elif variable := os.environ.get(VARIABLE):
        candidates = _candidates(about, Path(variable).expanduser(), alone=False)
    else:
        candidates = []
    for file in candidates:
        if file.is_file():
            return file
    if folder is None and about.ships_in and find_spec(about.ships_in.partition(".")[0]):
        return None
    raise DatasetError(_not_found(about, candidates))


def _candidates(about: DatasetInfo, root: Path, alone: bool) -> list[Path]:
    """Return the possible files. `alone`: the folder may also be that of this set alone."""
    if about.original and root.suffix == Path(about.original.file).suffix:
        return [root]
    wanted = [EDGES] if about.original is None else [EDGES, about.original.file]
    inside = [root / about.name / file for file in wanted]
    return inside + [root / file for file in wanted if alone or file != EDGES]


def _not_found(about: DatasetInfo, candidates: list[Path]) -> str:
    where = "looked for " + " and ".join(map(str, candidates)) if candidates else f"{VARIABLE} is not set"
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
    """Return the content of a file; raise `DatasetError` if its checksum is not the registry's."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} of the data set {about.name} cannot be read: {error.strerror}") from error
    check(content, about.sha256[path.name], str(path), about)
    return content


def read_shipped(about: DatasetInfo) -> bytes:
    """Return the content of the copy that comes with dygcn or dygcn-lab."""
    file = about.shipped_file
    content = files(about.ships_in).joinpath("shipped", file).read_bytes()
    check(content, about.sha256[file], f"{file} of this installation", about)
    return content


def check(content: bytes, expected: str, what: str, about: DatasetInfo) -> None:
    """Raise `DatasetError` if a content has not the expected checksum.

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
            f"{found[:12]}.... It is damaged, of another version, or another set: get it again. For your own "
            f"events, pass the path of their file to dygcn.fit"
        )
