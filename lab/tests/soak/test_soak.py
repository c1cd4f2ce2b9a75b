"""The command that runs every check, and the page that is written from what they found."""

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from dygcn.cli import main as dygcn_main
from dygcn.errors import DygcnError, OptionError
from dygcn_lab.soak import run as module
from dygcn_lab.soak.check import Check, Finding, Found
from dygcn_lab.soak.page import page_text, read_findings, read_prose, write_page
from dygcn_lab.soak.run import choose, find_checks, is_good, run_check, soak, table_of, write_finding

ROOT = Path(__file__).parents[3]
RESULTS = sorted((ROOT / "results" / "promises").glob("*.json"))
TIMED = ("load", "restart")  # what has no seeded bug
OURS = ("failed_writes", "kills", "power_loss")


def finding(**changes):
    plain = {
        "promise": "acknowledged is durable",
        "what": "kill -9",
        "size": 1000,
        "bad": 0,
        "holds": True,
        "mutant": "acknowledge before the commit",
        "mutant_caught": True,
        "seconds": 75.4,
        "seed": 3,
    }
    return Finding(**(plain | changes))


def a_check(name, look, quick=7, full=70):
    return Check(
        name, quick, full, "acknowledged is durable", "kill -9", "acknowledge before the commit", look
    )


def check(name="kills", bad=0, caught=True, notes=()):
    return a_check(name, lambda size, seed: Found(size, bad, caught, notes=notes))


@pytest.fixture
def checks(monkeypatch):
    """Put other checks in the place of ours."""

    def put(*others, missing=None):
        found = {one.name: one for one in others}
        monkeypatch.setattr(module, "find_checks", lambda: (found, missing or {}))

    return put


# ---- the command -------------------------------------------------------------------------------------------


def test_checks_are_found_by_walking_the_modules():
    found, _ = find_checks()
    assert set(OURS) <= set(found)
    for name, one in found.items():
        assert one.name == name
        assert 0 < one.quick <= one.full


def test_some_or_all_are_chosen(checks):
    checks(check("a"), check("b"))
    assert [one.name for one in choose([])] == ["a", "b"]
    assert [one.name for one in choose(["b"])] == ["b"]
    with pytest.raises(OptionError, match="there is no check 'c'; there are: a, b"):
        choose(["b", "c"])


def test_a_module_that_cannot_be_imported_is_not_passed_over(checks):
    checks(check("a"), missing={"streams": "nats is not installed"})
    assert [one.name for one in choose(["a"])] == ["a"]
    for only in ([], ["streams"]):
        with pytest.raises(OptionError, match="streams cannot be run: nats is not installed"):
            choose(only)


def test_sizes_seeds_and_files(tmp_path):
    for quick, size in ((True, 7), (False, 70)):
        found = soak([check("a"), check("b")], quick, 11, tmp_path, Console(file=StringIO()))
        assert list(found) == ["a", "b"]
        assert {(one.size, one.seed) for one in found.values()} == {(size, 11)}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]
        assert msgspec.json.decode((tmp_path / "a.json").read_bytes(), type=Finding) == found["a"]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_told(tmp_path, terminal):
    said = StringIO()
    soak(
        [check()],
        True,
        5,
        tmp_path,
        Console(file=said, width=200, force_terminal=terminal, color_system=None),
    )
    assert "1 of 1: kills, size 7, seed 5" in said.getvalue()
    assert "kills: holds after 0 s" in said.getvalue()


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    write_finding(finding(), tmp_path / "deep" / "kills.json")
    before = (tmp_path / "deep" / "kills.json").read_bytes()
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        write_finding(finding(bad=1), tmp_path / "deep" / "kills.json")
    assert (tmp_path / "deep" / "kills.json").read_bytes() == before


def main(arguments):
    """Return the exit code of the command."""
    with pytest.raises(SystemExit) as ended:
        dygcn_main(["soak", *arguments])
    return ended.value.code


@pytest.mark.parametrize(
    ("changes", "status"),
    [({}, 0), ({"bad": 2}, 1), ({"caught": False}, 1)],
    ids=["good", "it does not hold", "the mutant survived"],
)
def test_the_status_says_whether_all_is_well(checks, tmp_path, capsys, changes, status):
    checks(check("a"), check("b", **changes))
    assert main(["--quick", "--out", str(tmp_path)]) == status
    assert all(map(is_good, read_findings(tmp_path).values())) == (status == 0)
    out = capsys.readouterr().out
    assert "acknowledged" in out
    assert ("NO" in out) == (status == 1)


def test_seeds_and_notes_of_what_is_wrong_are_printed(checks, tmp_path, capsys):
    checks(check("a", notes=["all well"]), check("b", bad=1, notes=["seed 9, life 4: [lost]"]))
    assert main(["--seed", "9", "--quick", "--out", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert "b: seed 9, life 4: [lost]" in captured.out
    assert "all well" not in captured.out
    assert "seed 9" in captured.err


def test_a_check_that_ends_with_an_error_does_not_hold_and_others_are_run(checks, tmp_path):
    def fail(size, seed):
        raise DygcnError("no gcc")

    checks(a_check("a", fail), check("b"))
    assert main(["--quick", "--seed", "4", "--out", str(tmp_path)]) == 1
    found = read_findings(tmp_path)
    assert (found["a"].holds, found["a"].mutant_caught, found["a"].seed) == (False, False, 4)
    assert "no gcc" in found["a"].notes
    assert str(Path.cwd()) not in found["a"].notes
    assert found["b"].holds


def test_an_interrupt_is_not_a_finding():
    def interrupt(size, seed):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_check(a_check("a", interrupt), 1, 0)


def test_an_unknown_name_is_told_in_a_line(capsys):
    assert main(["nothing"]) == 2
    assert "there is no check 'nothing'" in capsys.readouterr().err


def test_it_takes_several_names(checks, tmp_path):
    checks(check("a"), check("b"), check("c"))
    assert main(["a", "c", "--quick", "--out", str(tmp_path)]) == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["a", "c"]


def test_the_table_has_a_row_for_each():
    said = StringIO()
    found = {"kills": finding(), "blind": finding(mutant_caught=False)}
    Console(file=said, width=200).print(table_of(found))
    assert re.search(
        r"kills\s+│ acknowledged is durable\s+│ 1,000\s+│ 0\s+│ yes\s+│ yes\s+│ 75", said.getvalue()
    )
    assert re.search(r"blind .* yes\s+│ NO", said.getvalue())


def test_it_is_a_command(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from dygcn.cli import main; main()",
            "soak",
            "--page",
            str(tmp_path / "page.md"),
            "--out",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "page.md").read_text() == page_text({})


# ---- the page ----------------------------------------------------------------------------------------------


def test_the_page_of_the_docs_is_written_from_the_results():
    assert (ROOT / "docs" / "promises.md").read_text() == page_text(
        read_findings(ROOT / "results" / "promises")
    )


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.name)
def test_results_are_findings_and_name_no_machine(file):
    text = file.read_text()
    found = msgspec.json.decode(text, type=Finding)
    assert found.mutant_caught  # a figure that is not reached is told on the page, as it is
    assert bool(found.mutant) == (file.stem not in TIMED)
    for word in ("/work", "/tmp", "/dev/shm", "/root", "/home"):
        assert word not in text


def test_every_promise_is_told_and_what_has_no_result_is_told_too():
    text = page_text({})
    _, promises, _ = read_prose()
    assert len(promises) >= 10
    for promise in promises:
        assert f"| **{promise.name}** | {promise.meaning} | {promise.proof} |" in text
        assert f"\n- {promise.name}\n" in text
    assert "Nothing yet" in text
    assert all(f"`{name}`" in text for name in TIMED)
    assert "## What is not promised" in text
    assert "shards: they do not exist yet" in text
    assert not any("shard" in promise.name.lower() for promise in promises)


def test_what_was_found_stands_in_the_order_of_the_promises():
    found = {
        "a_load": finding(promise="fresh and fast", what="reads", figures={"p99": 1.25}),
        "b_other": finding(promise="something else", what="more"),
        "c_kills": finding(
            figures={"lives": 1200, "at": {"commit": 3, "close": None}, "list": [1, 2], "none": {}}
        ),
    }
    text = page_text(found)
    places = [text.index(f"| `{name}` |") for name in ("c_kills", "a_load", "b_other")]
    assert places == sorted(places)
    assert "| `c_kills` | kill -9 | 1,000 | 0 | acknowledge before the commit | yes | 75 | 3 |" in text
    assert "- lives: 1,200\n- at: commit: 3; close: none\n- list: 1, 2\n- none: none" in text
    assert "\n- Fresh and fast\n" not in text
    assert "\n- Exactly once\n" in text
    assert "3 of 3 checks found nothing wrong. Every bug that was put in was noticed." in text


def test_what_is_wrong_is_not_hidden():
    found = {
        "a": finding(holds=False, bad=2, notes="two\nlines | and a bar"),
        "b": finding(mutant_caught=False),
    }
    text = page_text(found)
    assert "1 of 2 checks found nothing wrong; these did: `a`." in text
    assert "went unnoticed in `b`" in text
    assert "- two lines \\| and a bar" in text


def test_a_check_without_a_seeded_bug_claims_none():
    text = page_text({"load": finding(mutant="", what="reads"), "kills": finding()})
    assert "| `load` | reads | 1,000 | 0 | - | - | 75 | 3 |" in text
    assert "Every bug that was put in was noticed." in text
    said = StringIO()
    Console(file=said, width=200).print(table_of({"load": finding(mutant="")}))
    assert re.search(r"load .* │ yes\s+│ -\s+│ 75", said.getvalue())
    text = page_text({"load": finding(mutant="", mutant_caught=False, holds=False, bad=1)})
    assert "unnoticed" not in text


def test_the_page_is_the_same_every_time(tmp_path):
    for name in ("z", "a", "m"):
        write_finding(finding(figures={"size": 3}), tmp_path / f"{name}.json")
    write_page(tmp_path, tmp_path / "docs" / "one.md")
    write_page(tmp_path, tmp_path / "docs" / "two.md")
    text = (tmp_path / "docs" / "one.md").read_text()
    assert text == (tmp_path / "docs" / "two.md").read_text()
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_a_file_that_is_no_finding_is_refused(tmp_path):
    for content in ("{", "[]", '{"promise": "x"}', '{"unknown": 1}'):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(DygcnError, match=r"bad\.json is not what a check found"):
            read_findings(tmp_path)
