"""Rows of recommendations as files: means and costs in JSON, recall and NDCG of every user beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dygcn_lab.evaluation.paired import compare
from dygcn_lab.evaluation.recommending import Quality, Question
from dygcn_lab.report.tables import rows_table

Row = dict[str, Any]


class Results:
    """Rows in a JSON file, and recall and NDCG of every user in a file beside it."""

    def __init__(self, out: Path) -> None:
        self._out, self._users = out, out.with_suffix(".npz")
        self.found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
        self._values = dict(np.load(self._users)) if self._users.exists() else {}

    def add(self, question: Question, name: str, row: Row, found: Quality, ours: bool = False) -> None:
        """Take a row, compare it with those of the other side, and write both files."""
        about = self.found.setdefault(question.name, {"rows": {}, "ours minus": {}})
        sizes = {"fitted": len(question.fitted), "known": len(question.known)}
        about |= {**sizes, "users": len(question.users), "k": question.k}
        means = {"recall": round(float(found.recall.mean()), 4), "ndcg": round(float(found.ndcg.mean()), 4)}
        about["rows"][name] = means | {"ours": ours} | row
        self._values[f"{question.name}/{name}/recall"] = found.recall.astype(np.float32)
        self._values[f"{question.name}/{name}/ndcg"] = found.ndcg.astype(np.float32)
        self._compare(question.name, about)
        self.write()

    def _compare(self, question: str, about: dict[str, Any]) -> None:
        sides: dict[bool, list[str]] = {True: [], False: []}
        for name, row in about["rows"].items():
            if f"{question}/{name}/recall" in self._values:
                sides[row["ours"]].append(name)
        for ours in sides[True]:
            against = about["ours minus"].setdefault(ours, {})
            for theirs in sides[False]:
                against[theirs] = {
                    figure: self._paired(*(f"{question}/{name}/{figure}" for name in (ours, theirs)))
                    for figure in ("recall", "ndcg")
                }

    def _paired(self, ours: str, theirs: str) -> list[float]:
        found = compare(self._values[ours], self._values[theirs])
        return [round(number, 4) for number in (found.difference, found.low, found.high)]

    def write(self) -> None:
        """Write both files."""
        self._out.parent.mkdir(parents=True, exist_ok=True)
        self._out.write_text(json.dumps(self.found, indent=1) + "\n")
        np.savez_compressed(self._users, **self._values)


def table(results: dict[str, Any]) -> str:
    """Return the rows of all questions in Markdown.

    Examples
    --------
    >>> row = {"recall": 0.1, "ndcg": 0.2, "cpu s of fit": 3.0, "us a recommendation": 50.0}
    >>> print(table({"few": {"k": 10, "users": 9, "rows": {"EASE": row}, "ours minus": {}}}))
    | question | row | recall | NDCG | recall of ours minus it | CPU s of search | of fit | us each |
    |---|---|---|---|---|---|---|---|
    | few, at 10, 9 users | EASE | .1000 | .2000 |  | 0 | 3.0 | 50.0 |
    """
    columns = "question", "row", "recall", "NDCG", "recall of ours minus it", "CPU s of search", "of fit"
    lines = []
    for question, about in results.items():
        asked = f"{question}, at {about['k']}, {about['users']} users"
        for name, row in about["rows"].items():
            apart = "; ".join(
                "{}: {:+.4f} ({:+.4f} to {:+.4f})".format(ours, *one[name]["recall"])
                for ours, one in about["ours minus"].items()
                if name in one
            )
            figures = (f"{row[figure]:.4f}".lstrip("0") for figure in ("recall", "ndcg"))
            costs = row.get("cpu s of search", 0), row["cpu s of fit"], row["us a recommendation"]
            lines.append([asked, name, *figures, apart, *map(str, costs)])
    return rows_table((*columns, "us each"), lines)
