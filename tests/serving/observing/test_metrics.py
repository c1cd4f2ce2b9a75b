"""The table of metrics is what /metrics has, and the files that follow from it are current."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dygcn.serving.observing.metrics import COUNTER, GAUGE, HISTOGRAM, METRICS, Distribution, RequestCounts
from dygcn_lab.testbed.seeding import seeded
from tests.serving.service.streams import Kept, Listed, message, until


def load_script(path):
    """Import a script by its path; dataclasses in it look for their module by name."""
    spec = importlib.util.spec_from_file_location(f"deploy_{path.stem}", path)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROOT = Path(__file__).parents[3]
MONITORING = load_script(ROOT / "deploy" / "monitoring.py")
ALERTS, expressions = MONITORING.ALERTS, MONITORING.expressions
BY_NAME = {metric.name: metric for metric in (*METRICS, *MONITORING.PROCESS_METRICS)}
NAMES = re.compile(r"\b((?:dygcn|process)_[a-z_]+)")


@pytest.fixture
def busy(serve):
    """Return a service with a source, a sink, a dead letter and answers of several kinds."""
    source, sink = Listed([message(1, b'{"src": 1, "dst": 77}')]), Kept()
    served = serve(
        sources=[source],
        sinks=[sink],
    )
    served.post([{"src": 1, "dst": 9}, {"src": 1}])
    served.get("/v1/nearest/1")
    served.service.live.snapshot()
    until(lambda: served.service.sinks[0].behind() == 0 and served.service.sources[0].messages == 1)
    return served


def exposed(served):
    families = text_string_to_metric_families(served.get("/metrics").text)
    return {family.name: family for family in families}


def family_name(metric):
    return metric.name.removesuffix("_total") if metric.kind == COUNTER else metric.name


def test_what_is_exposed_is_the_table(busy):
    found = exposed(busy)
    assert set(found) - {"process_virtual_memory_bytes"} == {
        family_name(metric) for metric in BY_NAME.values()
    } - {"process_virtual_memory_bytes"}
    for metric in METRICS:
        family = found[family_name(metric)]
        assert family.type == metric.kind
        assert family.documentation.lower() == metric.about.lower()
        labels = {name for sample in family.samples for name in sample.labels if name != "le"}
        assert labels <= set(metric.labels)
        if family.samples:
            assert labels == set(metric.labels)


def test_everything_that_can_be_known_has_a_value(busy):
    found = exposed(busy)
    empty = {name for name, family in found.items() if not family.samples}
    assert empty <= {"dygcn_index_recall_ratio"}
    values = {name: family.samples[0].value for name, family in found.items() if len(family.samples) == 1}
    assert values["dygcn_ready"] == values["dygcn_accepting"] == values["dygcn_build_info"] == 1
    assert values["dygcn_connections"] >= 1
    assert values["dygcn_snapshots"] == 1
    assert values["dygcn_sink_backlog_sequences"] == values["dygcn_source_lag_messages"] == 0
    dead = {one.labels["reason"]: one.value for one in found["dygcn_dead_letters"].samples}
    assert dead == {"unreadable": 0, "malformed": 1, "refused": 0}
    counts = {
        sample.name: sample.value
        for family in found.values()
        for sample in family.samples
        if sample.name.endswith("_count") and "route" not in sample.labels
    }
    assert counts["dygcn_log_write_seconds_count"] == counts["dygcn_apply_seconds_count"] == 2
    assert counts["dygcn_batch_events_count"] == counts["dygcn_queue_wait_seconds_count"] == 2
    assert counts["dygcn_sink_write_seconds_count"] >= 1


def test_names_follow_the_conventions():
    assert len(BY_NAME) == len({metric.name for metric in BY_NAME.values()})
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == COUNTER)
        assert bool(metric.bounds) == (metric.kind == HISTOGRAM)
        assert metric.bounds == tuple(sorted(metric.bounds))
        unit = MONITORING.unit_of(metric)
        unit = {"timestamp": "timestamp_seconds"}.get(unit, unit)
        assert metric.name.removesuffix("_total").endswith(unit)
        assert metric.kind in (GAUGE, COUNTER, HISTOGRAM)


def test_promtool_reads_the_metrics_and_the_rules(busy):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (the system's package prometheus has it)")
    text = busy.get("/metrics").content
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    rules = ROOT / "deploy" / "prometheus" / "alerts.yml"
    done = subprocess.run([promtool, "check", "rules", rules], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    for metric in BY_NAME.values():  # panels are asked as Grafana would ask
        for expression, _ in expressions(metric):
            asked = expression.replace("$__rate_interval", "1m").replace("$instance", "one")
            check_expression(promtool, asked)


def check_expression(promtool, expression):
    rules = f"groups: [{{name: a, rules: [{{record: b, expr: {json.dumps(expression)}}}]}}]"
    done = subprocess.run(
        [promtool, "check", "rules", "/dev/stdin"], input=rules, capture_output=True, text=True
    )
    assert done.returncode == 0, (expression, done.stderr)


def unknown(text):
    """Return the names of metrics in a text that the table does not have."""
    parts = {f"{name}{part}" for name in BY_NAME for part in ("", "_bucket", "_count", "_sum")}
    return {name for name in NAMES.findall(text) if name not in parts}


def test_alerts_and_panels_name_what_there_is():
    for alert in ALERTS:
        assert not unknown(f"{alert.expression} {alert.what_to_do}"), alert.name
    panels = [panel for panel in json.loads(MONITORING.as_dashboard())["panels"] if panel["type"] != "row"]
    assert {panel["title"] for panel in panels} == set(BY_NAME)
    for panel in panels:
        for target in panel["targets"]:
            assert NAMES.findall(target["expr"])
            assert not unknown(target["expr"])
    assert unknown("rate(dygcn_nonsense_total[5m])") == {"dygcn_nonsense_total"}


def test_what_an_operator_is_called_for():
    names = {alert.name for alert in ALERTS}
    assert len(names) == len(ALERTS)
    wanted = (
        "NotReady NotAccepting SourceLagGrows SinkBehind SnapshotTooOld MassRejection Overloaded RecallLow"
    )
    assert {f"Dygcn{name}" for name in [*wanted.split(), "Restarts"]} <= names


def test_the_files_are_current():
    for path, text in MONITORING.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python deploy/monitoring.py"


CALLS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.sampled_from([200, 404]), st.floats(0, 20)),
    max_size=40,
)


def check_sums(calls):
    alone, shared = RequestCounts(), [RequestCounts() for _ in range(4)]
    for process, route, status, seconds in calls:
        alone.count(route, status, seconds)
        shared[process].count(route, status, seconds)
    sent = [msgspec.json.decode(msgspec.json.encode(one), type=RequestCounts) for one in shared[1:]]
    sums = shared[0].added(sent)
    assert sums.statuses == alone.statuses
    assert {route: one.counts for route, one in sums.seconds.items()} == {
        route: one.counts for route, one in alone.seconds.items()
    }
    for route, one in sums.seconds.items():
        assert one.total == pytest.approx(alone.seconds[route].total)
        assert one.cumulative()[-1] == ("+Inf", sum(alone.statuses[route].values()))


@given(CALLS)
def test_counts_of_processes_add_up(calls):
    check_sums(calls)


def test_a_process_that_is_left_out_would_be_noticed():
    with seeded(Distribution, "add", lambda self, other: None), pytest.raises(AssertionError):
        check_sums([(1, "a", 200, 0.1)])
