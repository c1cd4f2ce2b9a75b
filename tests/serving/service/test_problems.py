"""Every error has a type, and every refusal looks the same."""

import re
from pathlib import Path

import pytest

import dygcn.serving
from dygcn import errors
from dygcn.errors import DygcnError
from dygcn.serving.observing.request_ids import REQUEST_ID
from dygcn.serving.service import events
from dygcn.serving.service.ingest_queue import Overloaded
from dygcn.serving.service.problems import BY_NAME, OF_ERRORS, TYPES, problem, refusal, type_of
from tests.serving.service.serving import is_problem

ALL = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, DygcnError)]


def test_names_are_unique_and_fit_into_an_address():
    assert len(BY_NAME) == len(TYPES)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in BY_NAME)


@pytest.mark.parametrize("error", ALL, ids=lambda one: one.__name__)
def test_every_error_has_the_type_of_its_nearest_class(error):
    found = type_of(error.__new__(error))
    nearest = [one for one in error.__mro__ if one in OF_ERRORS]
    assert OF_ERRORS[nearest[0]] == found.name


def test_every_name_that_is_used_is_in_the_table():
    folder = Path(dygcn.serving.__file__).parent
    source = "".join(file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
    used = set(re.findall(r'\bproblem\(\s*"([a-z-]+)"', source)) | {
        "unauthorized",
        "forbidden",
        "misdirected",
        *(name for name, _ in events._REFUSALS.values()),
    }
    raised = set(OF_ERRORS.values())
    assert used <= set(BY_NAME)
    assert set(BY_NAME) - raised <= used | {"not-found", "method-not-allowed"}


def test_members_are_there_when_they_say_something():
    told = refusal(Overloaded(7, "much waits"))
    assert (told.headers["retry-after"], told.headers["content-type"]) == ("7", "application/problem+json")
    assert b'"retry_after":7' in told.body
    assert b"expected" not in told.body
    assert b"instance" not in told.body


def test_a_problem_names_its_request():
    mark = REQUEST_ID.set("r-1")
    try:
        assert b'"instance":"r-1"' in problem("too-large", "of 3 bytes").body
    finally:
        REQUEST_ID.reset(mark)


def test_a_node_that_is_not_there_is_named(serve):
    served = serve()
    answer = served.get("/v1/vectors/77")
    assert is_problem(answer, 404, "unknown-node").startswith("77 is not in the graph")
    assert answer.json()["node"] == 77
