"""Every new name on the page of renamed things exists, and no old one does."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

import dygcn
from dygcn.client import Client
from dygcn.cluster import ClusterEmbedding
from dygcn.engine.events import ColumnOptions
from dygcn.live.durable.feed import Feed
from dygcn.schema import answers, requests
from dygcn.serving.service.app import ROUTES
from tests.test_verbs import DURABLE, LIVE

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "renamed.md").read_text(encoding="utf-8")
ROOTS = {
    "live": dygcn.LiveEmbedding,
    "durable": dygcn.DurableEmbedding,
    "cluster": ClusterEmbedding,
    "client": Client,
    "status": answers.ServiceStatus,
    "answers": answers,
}
KINDS = {"model": dygcn.Model, "traffic": answers.TrafficStatus}  # of attributes


def section(name):
    rest = PAGE.split(f"\n{name}\n")[1].split("\n## ")[0]
    return rest.split("\n### ")[0] if name.startswith("###") else rest


def tables(text, columns):
    """Return the code in the cells of all tables with so many columns."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    return [
        [re.findall("`([^`]+)`", cell) for cell in row]
        for row in lines
        if len(row) == columns and "`" in row[0]
    ]


def find(chain):
    """Return what a name with dots is, or raise."""
    first, *rest = chain.split(".")
    if first == "settings":
        sinks, sources = (importlib.import_module(f"dygcn.serving.{name}") for name in ("sinks", "sources"))
        made = [*sinks.SINKS.values(), *sources.SOURCES.values()]
        return [getattr(one, *rest) for one in made].pop()
    found = ROOTS.get(first)
    if found is None:
        found = importlib.import_module(first)
    for place, name in enumerate(rest):
        if found is dygcn.DurableEmbedding and name == "feed":
            found = Feed  # every instance has one
        elif inspect.ismodule(found) and not hasattr(found, name):
            found = importlib.import_module(".".join([first, *rest[: place + 1]]))
        elif inspect.isclass(found) and issubclass(found, msgspec.Struct):
            found = get_type_hints(found)[name]
        else:
            found = getattr(found, name)
        found = KINDS.get(name, found) if place < len(rest) - 1 else found
    return found


def options(function):
    names = set(inspect.signature(function).parameters)
    return names | (set(ColumnOptions.__annotations__) if "names" in names else set())


def exists(text):
    """Return whether each name of an expression, and each option of its calls, is there."""
    tree = ast.parse(text, mode="eval").body
    if isinstance(tree, ast.Subscript):  # answers were dicts
        return False
    called = tree.func if isinstance(tree, ast.Call) else tree
    try:
        found = find(ast.unparse(called))
    except (AttributeError, ImportError, KeyError):
        return False
    given = {one.arg for one in tree.keywords} if isinstance(tree, ast.Call) else set()
    return not given or given <= options(found)


PYTHON = [(row[0][0], row[1][0]) for row in tables(section("## Python"), 3)]
ROUTE = {f"{one.method} {one.path}": one for one in ROUTES}


@pytest.mark.parametrize(("before", "now"), PYTHON)
def test_a_name_of_python(before, now):
    if now.startswith("dygcn_lab"):
        pytest.importorskip("dygcn_lab")
    assert exists(now)
    assert not exists(before)


def test_routes():
    rows = tables(section("### Routes"), 3)
    assert len(rows) == 2
    for (before,), (now,), _ in rows:
        assert now in ROUTE
        assert before not in ROUTE


def fields(kind):
    """Return the names of the fields of a struct, and of those that it lists."""
    found = set()
    for one in msgspec.structs.fields(kind):
        inner = [kind for kind in getattr(one.type, "__args__", ()) if hasattr(kind, "__struct_fields__")]
        found |= {one.name}.union(*map(fields, inner))
    return found


def test_fields():
    rows = tables(section("### Fields"), 4)
    assert len(rows) == 3
    for (route,), (before,), (now,), _ in rows:
        there = set().union(*map(fields, [*ROUTE[route].shapes, *filter(None, [ROUTE[route].body])]))
        assert now in there
        assert before not in there


def test_names_of_the_json():
    rows = tables(section("### Names of the JSON"), 3)
    assert len(rows) == 25
    for *before, now in rows:
        assert all(hasattr(answers, name) or hasattr(requests, name) for name in now)
        gone = {*before[0], *before[1]} - {*now}
        assert not any(hasattr(answers, name) or hasattr(requests, name) for name in gone)


def test_the_option_of_the_command_line():
    command = importlib.import_module("dygcn.cli.main").main.get_command(None, "dead-letters")
    known = {name for one in command.params for name in one.opts}
    (before, now) = tables(section("## Command line"), 3)[0][:2]
    assert set(re.findall("--[a-z]+", now[0])) <= known
    assert not set(re.findall("--[a-z]+", before[0])) & known


def test_the_key_of_the_settings():
    limits = importlib.import_module("dygcn.serving.service.settings").Limits
    (((before,), (now,), _),) = tables(section("## Settings, metrics, log events"), 3)
    assert now.split()[1] in limits.__struct_fields__
    assert before.split()[1] not in limits.__struct_fields__


def test_names_that_are_gone():
    for gone, _ in tables(section("## What is gone"), 2):
        for name in gone:
            if name.split(".")[0] in ROOTS and "." in name:
                assert not exists(name), name


def test_how_many_names_there_are():
    assert f"{len(LIVE)} names, and {len(DURABLE)} of a durable" in PAGE


def test_a_name_that_is_missing_would_be_noticed():
    assert not exists("live.scores_of_all(a, b)")
    assert not exists("live.publish(tolerate=1)")
