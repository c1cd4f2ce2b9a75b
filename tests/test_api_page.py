"""The page of the API: whatever is public is there, and nothing else is."""

import inspect
import re
from pathlib import Path

import pytest

import dygcn
from dygcn import errors

PAGE = Path(__file__).parents[1] / "docs" / "api.rst"
CLASSES = ("EmbeddingView", "LiveEmbedding", "DurableEmbedding", "PastEmbedding", "Change", "Refit")


def on_page(text):
    """Return what each directive documents: its name -> its members, None where it has them all."""
    found = {}
    for name, options in re.findall(r"^\.\. auto\w+:: ([\w.]+)\n((?:[ ]+.*\n?)*)", text, re.MULTILINE):
        members = re.search(r":members:([\w,\s]*)", options)
        listed = re.findall(r"\w+", members.group(1)) if members else []
        found[name] = None if members and not listed else set(listed)
    return found


def own_members(kind):
    """Return what a class has beside what it inherits from a class that is on the page itself."""
    others = {object} | (set(dygcn.EmbeddingView.__mro__) if kind is not dygcn.EmbeddingView else set())
    return {member for base in kind.__mro__ if base not in others for member in vars(base)}


def missing(text):
    """Return the public names that the page does not have, and those of its names that are not public."""
    page = on_page(text)
    wrong = []
    for name in dygcn.__all__:
        error = inspect.isclass(getattr(dygcn, name)) and issubclass(getattr(dygcn, name), errors.DygcnError)
        place = "dygcn.errors" if error else f"dygcn.{name}"
        if place not in page or (error and page[place] is not None and name not in page[place]):
            wrong.append(name)
    for name in CLASSES:
        public = {member for member in own_members(getattr(dygcn, name)) if not member.startswith("_")}
        listed = page.get(f"dygcn.{name}", set())
        wrong += [f"{name}.{member}" for member in sorted(public ^ (public if listed is None else listed))]
    return wrong


def test_whatever_is_public_is_on_the_page():
    assert missing(PAGE.read_text()) == []


@pytest.mark.parametrize(
    ("line", "less", "lost"),
    [
        (".. autofunction:: dygcn.open\n", "", ["open"]),
        ("bulk, set_features", "set_features", ["LiveEmbedding.bulk", "DurableEmbedding.bulk"]),
        ("snapshot, track", "track", ["DurableEmbedding.snapshot"]),
        ("ids, orders, left, vectors", "ids, orders, left, vectors, magic", ["Change.magic"]),
        (".. automodule:: dygcn.errors\n   :members:\n", "", None),
    ],
)
def test_what_is_not_on_the_page_is_noticed(line, less, lost):
    text = PAGE.read_text()
    assert line in text
    found = missing(text.replace(line, less))
    assert found == lost if lost else {"errors", "EventError", "StaleChange"} <= set(found)


def undescribed(kind, name):
    """Return the parameters of a method that its docstring does not name in a section."""
    method = getattr(kind, name)
    section = re.search(r"Parameters\n-+\n(.*?)(\n\n\w+\n-+\n|\Z)", inspect.getdoc(method), re.DOTALL)
    heads = re.findall(r"^\S.*$", section[1], re.MULTILINE) if section else []
    described = {one.strip(" *") for head in heads for one in head.split(",")}
    return [one for one in inspect.signature(method).parameters if one not in described | {"self"}]


def test_sections_of_parameters_are_complete():
    wrong = {}
    for name in CLASSES:
        kind = getattr(dygcn, name)
        for method, _ in inspect.getmembers(kind, inspect.isfunction):
            sections = "Parameters\n---" in (inspect.getdoc(getattr(kind, method)) or "")
            if not method.startswith("_") and sections and (lost := undescribed(kind, method)):
                wrong[f"{name}.{method}"] = lost
    assert wrong == {}
    assert undescribed(dygcn.EmbeddingView, "to_pandas") == []
    assert undescribed(dygcn.EmbeddingView, "vectors") == ["ids"]  # it has no such section
