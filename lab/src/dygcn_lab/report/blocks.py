"""Blocks of a page that a command writes, between two marks, and leaves the rest alone."""

from __future__ import annotations

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
