"""`python -m dygcn.serving.observing DEPLOY DOCS`: write the files that follow from the tables.

The alert rules and the dashboard go into the folder DEPLOY, the lists of metrics and log events into pages of
the folder DOCS.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dygcn.serving.observing.alerts import as_rules
from dygcn.serving.observing.dashboard import as_dashboard
from dygcn.serving.observing.events import as_table as table_of_events
from dygcn.serving.observing.metrics import as_table as table_of_metrics

BEGIN, END = "<!-- {name}: begin -->", "<!-- {name}: end -->"


def files(deploy: Path, docs: Path) -> dict[Path, str]:
    """Return every file with what should be in it."""
    settings, monitoring = docs / "configuration.md", docs / "how-to" / "monitoring.md"
    return {
        deploy / "prometheus" / "alerts.yml": as_rules(),
        deploy / "grafana" / "dashboard.json": as_dashboard(),
        settings: with_block(settings.read_text(encoding="utf-8"), "metrics", table_of_metrics()),
        monitoring: with_block(monitoring.read_text(encoding="utf-8"), "log events", table_of_events()),
    }


def with_block(page: str, name: str, block: str) -> str:
    r"""Return a page with another text between the two comments that carry a name.

    Examples
    --------
    >>> with_block("<!-- a: begin -->\nold\n<!-- a: end -->", "a", "new")
    '<!-- a: begin -->\nnew\n<!-- a: end -->'
    """
    begin, end = BEGIN.format(name=name), END.format(name=name)
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{block}\n{end}{after}"


def main(deploy: str, docs: str) -> None:
    """Write the files."""
    for path, text in files(Path(deploy), Path(docs)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
