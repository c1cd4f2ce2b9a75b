"""Blocks of a page that a command writes, between two marks, and leaves the rest alone; results as JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dygcn.errors import DygcnError


def put_between(text: str, marks: tuple[str, str], block: str) -> str:
    r"""Return the text with another block between two marks.

    Examples
    --------
    >>> put_between("a <b> old </b> c", ("<b>", "</b>"), "new")
    'a <b>\nnew\n</b> c'
    """
    begin, end = marks
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise DygcnError(f"the page has no place for the table; put {begin} and {end} around one")
    return f"{before}{begin}\n{block}\n{end}{after}"


def with_blocks(page: Path, blocks: dict[str, str]) -> str:
    """Return a page with other blocks, by the names in their marks."""
    text = page.read_text(encoding="utf-8")
    for name, block in blocks.items():
        text = put_between(text, (f"<!-- {name}: begin -->", f"<!-- {name}: end -->"), block)
    return text


def write_json(found: object, file: Path) -> None:
    """Write a result as a file that people can read, too."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
