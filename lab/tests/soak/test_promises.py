"""Every check of a promise in its quick size, behind `slow` at full length: it holds, bugs are noticed."""

import pytest

from dygcn.engine.filter.head import MOST_EDGES
from dygcn.engine.models.state import State
from dygcn.live.shared import can_share
from dygcn.serving.service.app import ROUTES
from dygcn_lab.soak.promises import function_of_graph, points
from dygcn_lab.soak.promises.damage import DETECTED, REPORTED
from dygcn_lab.soak.promises.failed_writes import HARMLESS
from dygcn_lab.soak.promises.hostile_files import cases
from dygcn_lab.soak.run import find_checks
from dygcn_lab.testbed.seeding import small_model

CHECKS, _ = find_checks()
BY_THE_CLOCK = "load", "restart"  # how fast it is, is for quiet machines; overload waits for `slow`
NO_SHARING = not can_share(State(small_model()))  # readers need Linux and compiled loops
OF_A_FOLDER = "manifest.json", "model.safetensors", "graph.safetensors", "log.sqlite3", "log.watermark"
ROUTES_READ = "one", "many", "nearest", "scores", "changes"


def files_are_hit(figures):
    files = figures["files"]
    each = [
        sum(files[f"{state}: {name}"].values()) for state in ("closed", "crashed") for name in OF_A_FOLDER
    ]
    return min(*each, files["crashed: log.sqlite3-wal"][DETECTED]) > 5 and figures[REPORTED] > 20


SEEN = {  # what else the figures of a quick run must show, as (size, figures)
    "aged": lambda size, found: (
        min(found[name] for name in ("edges that expired", "restarts", "trials", "added up from a dict"))
        >= 20
    ),
    "bad_input": lambda size, found: (
        (found["applied"], found["dead letters"]) == (size - size // 1000, size // 1000)
    ),
    "damage": lambda size, found: files_are_hit(found),
    "doors": lambda size, found: found["routes"] == len(ROUTES) and found["doors tried"] > 2_000,
    "exactly_once": lambda size, found: (
        found["messages"] > 1000 and min(found[name] for name in ("repeated", "gaps", "crashes")) > 5
    ),
    "failed_writes": lambda size, found: found["writes refused by a named error"] > 0,
    "function_of_graph": lambda size, found: found["dense"] >= 18,
    "hostile": lambda size, found: size == len(cases()) > 100 and found["most memory, MB"] < 256,
    "interrupted": lambda size, found: found["refused, and healed"] > 0 and found["exact afterwards"] > 0,
    "kills": lambda size, found: found["kills during recovery"] > 0,
    "load": lambda size, found: (
        min(found[name] for name in ("reads_a_second", "bare_a_second", "sequence")) > 0
    ),
    "mirror": lambda size, found: found["restarts"] > 0,
    "reads": lambda size, found: (
        set(found) == {"batches written", *(f"reads, {route}" for route in ROUTES_READ)}
    ),
    "refit": lambda size, found: (
        [one["status"] for one in found.values()] == ["new", "rewritten", "same", "rewritten"]
    ),
    "restart": lambda size, found: len(found["seconds"]) == 3,
}


@pytest.mark.parametrize("name", sorted(CHECKS.keys() - {"overload"}))
def test_it_holds_and_bugs_would_be_noticed(name):
    if name == "reads" and NO_SHARING:
        pytest.skip("needs Linux and compiled loops")
    check = CHECKS[name]
    finding = check.run(check.quick, 0)
    assert finding.bad == 0, finding
    assert finding.holds or name in BY_THE_CLOCK, finding
    assert finding.mutant_caught, finding
    assert SEEN.get(name, lambda size, found: True)(finding.size, finding.figures), finding.figures
    if name in ("aged", "damage", "exactly_once", "function_of_graph", "power_loss"):
        assert finding.size == check.quick


LONG = (
    *("aged", "bad_input", "damage", "doors", "exactly_once", "failed_writes", "function_of_graph"),
    *("interrupted", "kills", "overload", "power_loss", "reads"),
)
AT_LENGTH = {
    "aged": lambda found: found["most edges of one who asks"] > MOST_EDGES,
    "bad_input": lambda found: (found["applied"], found["dead letters"]) == (99_900, 100),
    "failed_writes": lambda found: (
        {on.rstrip() for on in found["failures without consequence"]}
        <= {
            *(on.rstrip() for on in HARMLESS),
            *(
                f"{call} {file}"
                for call in ("fdatasync", "ftruncate", "pwrite")
                for file in ("log.sqlite3", "log.sqlite3-wal")
            ),
        }
    ),
    "kills": lambda found: (
        found["kills during recovery"] >= 100 and set(points.POINTS) <= set(found["kills by place"])
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", LONG)
def test_it_holds_at_full_length(name):
    check = CHECKS[name]
    finding = check.run(check.full, 1)
    assert finding.holds, finding
    assert finding.mutant_caught, finding
    assert AT_LENGTH.get(name, lambda found: True)(finding.figures), finding.figures


@pytest.mark.slow  # it is judged by the clock
def test_overload_sheds_in_small():
    finding = CHECKS["overload"].run(CHECKS["overload"].quick, 0)
    assert finding.holds, finding.notes
    assert finding.mutant_caught
    assert finding.figures["accepted and lost"] == 0
    assert finding.figures["refused"] > finding.figures["accepted"] / 2


def test_a_function_of_the_graph_is_walked_by_all_ways():
    check = CHECKS["function_of_graph"]
    ways = function_of_graph.BATCHES, function_of_graph.THREADS
    assert (check.full, *ways) == (15_000, (1, 7, 100, 10_000), (1, 2))
