"""The steps that fault tests write: decided by the seed alone, and no two states the same."""

import pytest

from dygcn.live.durable.opening import open as open_folder
from dygcn_lab.soak.promises.aged_twin import bits_of
from dygcn_lab.soak.promises.kills import RULES
from dygcn_lab.soak.promises.script import BULK, EVENTS, FEATURES, REFUSED, REMOVAL, STREAM, History, Script


@pytest.mark.parametrize("rule", RULES)
def test_steps_are_decided_by_the_seed(rule):
    one, same, other = Script(3, rule), Script(3, rule), Script(4, rule)
    assert [one.kind(i) for i in range(80)] == [same.kind(i) for i in range(80)]
    assert [one.begins(i) for i in range(80)] == [same.begins(i) for i in range(80)]
    assert one.batch(5).src.values.tolist() == same.batch(5).src.values.tolist()
    assert bits_of(one.begin()) == bits_of(same.begin())
    assert bits_of(one.begin()) != bits_of(other.begin())


def test_there_is_every_kind_of_step_and_the_rolling_rule_has_messages_alone():
    exact, rolling = Script(1), Script(1, "rolling")
    assert {exact.kind(i) for i in range(120)} == {EVENTS, REFUSED, BULK, FEATURES, REMOVAL}
    assert {rolling.kind(i) for i in range(120)} == {EVENTS, REFUSED}
    assert {Script(1, others=0).kind(i) for i in range(120)} == {EVENTS, REFUSED}


def test_requests_cover_every_step_once():
    script, number, groups = Script(2), 0, []
    while number < 200:
        group = script.group(number)
        assert group == list(range(number, number + len(group)))
        groups.append(group)
        number += len(group)
    assert max(map(len, groups)) > 1
    assert all(len(group) == 1 for group in groups if script.kind(group[0]) != EVENTS)
    for step in range(1, 150):
        first = script.before(step, 3)
        assert first <= max(step - 3, 0)
        assert script.begins(first)


def test_last_message():
    script = Script(1, others=5)
    assert script.kind(4) == BULK
    assert [script.last_message(i) for i in (-1, 3, 4, 5)] == [-1, 3, 3, 5]


@pytest.mark.parametrize("rule", RULES)
def test_no_two_states_are_the_same_but_for_steps_that_cannot_be_applied(rule):
    script = Script(7, rule)
    history = History(script)
    digests = {}
    for number in range(120):
        digest = history.digest(number)
        if digest and script.kind(number) not in (REFUSED, REMOVAL):
            assert digest not in digests, (number, digests.get(digest))
            digests[digest] = number


@pytest.mark.parametrize("rule", RULES)
def test_a_durable_run_comes_to_the_same_states(rule, tmp_path):
    script = Script(5, rule, others=7)
    history = History(script)
    script.begin().save(tmp_path / "folder")
    number = 0
    with open_folder(tmp_path / "folder", snapshot_every=30) as live:
        assert history.place(bits_of(live), -1, -1, 0) == -1
        while number < 60:
            group = script.group(number)
            assert set(script.send(live, group)) == {"applied"}
            number = group[-1] + 1
            assert history.digest(group[-1]) == bits_of(live)
            assert history.place(bits_of(live), live.streams.get(STREAM, -1), -1, 80) == group[-1]
    with open_folder(tmp_path / "folder") as live:
        assert bits_of(live) == history.digest(number - 1)


def test_a_place_is_looked_for_between_two_steps_only():
    history = History(Script(1))
    digest = history.digest(9)
    assert history.place(digest, 9, 0, 20) == 9
    assert history.place(digest, 9, 10, 20) is None
    assert history.place(digest, 8, 0, 20) is None
    assert history.place("elsewhere", 9, 0, 20) is None


@pytest.mark.parametrize("rule", RULES)
def test_an_old_message_that_is_applied_once_more_shows(rule):
    script = Script(6, rule, others=0)
    live = script.begin()
    for number in range(6):
        live._apply(script.batch(number), None)
    digest = bits_of(live)
    live._apply(script.batch(2), None)
    assert bits_of(live) != digest
