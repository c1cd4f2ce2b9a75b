"""Errors that name arguments of Python, in the spelling of the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence


def with_options(message: str, names: Sequence[str]) -> str:
    """Return a message with options instead of keywords.

    Parameters
    ----------
    names
        The options that the command has, as Python spells them; other keywords stay.

    Examples
    --------
    >>> with_options('say which they are: src="user", dst="the item"', ["src", "dst"])
    "say which they are: --src user --dst 'the item'"
    >>> with_options("there is no column 'usr', as src= says", ["src", "dst"])
    "there is no column 'usr', as --src says"
    >>> with_options("say shared_ids=True", ["shared_ids"])
    'say --shared-ids'
    >>> with_options('say kinds=("user", "item")', ["kinds"])
    'say --kinds user,item'
    """
    if not names:
        return message
    keyword = rf"""\b({"|".join(map(re.escape, names))})=("[^"]*"|'[^']*'|True\b|\("\w+", "\w+"\))?"""
    run = rf"{keyword}(, {keyword})*".replace("(", "(?:").replace("\\(?:", "\\(")
    return re.sub(run, lambda found: " ".join(map(_option, re.findall(keyword, found[0]))), message)


def _option(keyword: tuple[str, str]) -> str:
    name, value = keyword
    text = [] if value in ("", "True") else [shlex.quote(value[1:-1].replace('", "', ",").strip('"'))]
    return " ".join([f"--{name.replace('_', '-')}", *text])
