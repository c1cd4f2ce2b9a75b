"""Settings that are read again: what is taken, what is refused, what needs a restart."""

import logging

import msgspec
import pytest

from dygcn.errors import OptionError
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.settings import CurrentSettings, Http, Limits, NearestSettings, ServiceSettings
from tests.serving.service.serving import is_problem

OLD = ServiceSettings(folder="friends", limits=Limits(ids=7))


def reloaded(caplog, settings):
    caplog.set_level(logging.INFO)
    current, told = CurrentSettings(OLD), []
    current.watch(lambda: told.append(current.limits.ids))

    def read():
        if isinstance(settings, Exception):
            raise settings
        return settings

    taken = current.reload(None if settings is None else read)
    return current, taken, told


def test_limits_tokens_and_names_are_taken(caplog):
    _, token = new_token("boss", ["admin"])
    new = ServiceSettings(
        folder="friends", limits=Limits(ids=8), http=Http(tokens=[token], names=["v.example"])
    )
    current, taken, told = reloaded(caplog, new)
    assert taken
    assert told == [7, 8]
    assert current.http == new.http
    assert "restart" not in caplog.text


def test_settings_that_cannot_be_used_change_nothing(caplog):
    current, taken, told = reloaded(caplog, OptionError("http.port is -1"))
    assert (taken, told, current.limits) == (False, [7], OLD.limits)
    assert "settings.refused" in caplog.text
    assert caplog.records[-1].fields == {"error": "http.port is -1"}


def test_without_a_file_nothing_is_read(caplog):
    assert reloaded(caplog, None)[1:] == (False, [7])
    assert "no settings file" in caplog.text


def test_what_needs_a_restart_is_named(caplog):
    new = ServiceSettings(
        folder="others", nearest=NearestSettings(exact_up_to=1), http=Http(port=1), limits=Limits(ids=9)
    )
    current, _, told = reloaded(caplog, new)
    assert told == [7, 9]
    assert current.http.port == OLD.http.port
    assert "folder, nearest, http.port" in caplog.text


# ---- everything that asks ------------------------------------------------------------------------------


def replace(served, **changes):
    settings = msgspec.structs.replace(served.service.settings, limits=Limits(**changes))
    served.service.current.replace(settings)


def test_every_limit_is_asked_again(serve):
    served = serve()
    assert served.ask("/v1/vectors", {"ids": [1, 2, 3]}).status_code == 200
    replace(
        served, ids=2, k=1, feeds=1, body_bytes=60, client_idle_seconds=5.0, query_rows=1, queued_events=7
    )
    is_problem(served.ask("/v1/vectors", {"ids": [1, 2, 3]}), 400)
    is_problem(served.get("/v1/nearest/1", k=2), 400)
    is_problem(served.get("/v1/recommend/1"), 400)
    is_problem(served.ask("/v1/vectors", {"ids": [1] * 60}), 413)
    assert served.service.live._offsets.idle_seconds == 5.0
    assert served.get("/v1/status").json()["queue"]["most_events"] == 7
    wanted = served.get("/openapi.json").json()["components"]["schemas"]["VectorsRequest"]
    assert wanted["properties"]["ids"]["maxItems"] == 2
    assert served.server._waiters.most == 1


def test_tokens_are_exchanged_while_requests_come(serve):
    old, first = new_token("old", ["read"])
    new, second = new_token("new", ["read"])
    served = serve(tokens=[first])

    def status(secret):
        return served.client.get("/v1/status", headers={"authorization": f"Bearer {secret}"}).status_code

    assert (status(old), status(new)) == (200, 401)
    http = msgspec.structs.replace(served.service.settings.http, tokens=[second])
    served.service.current.replace(msgspec.structs.replace(served.service.settings, http=http))
    assert (status(old), status(new)) == (401, 200)


def test_tokens_that_stay_would_be_noticed(serve, monkeypatch):
    monkeypatch.setattr(CurrentSettings, "watch", lambda self, watcher: watcher())
    with pytest.raises(AssertionError):
        test_tokens_are_exchanged_while_requests_come(serve)
