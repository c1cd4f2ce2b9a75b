import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("0*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name[:4])
def test_a_decision_has_a_status_a_date_and_alternatives(page):
    text = page.read_text()
    assert re.search(
        r"\A# .+\n\nStatus: (accepted|superseded by \[\d{4}\]\(.+\.md\))\. Date: 20\d\d-\d\d-\d\d\.\n", text
    )
    section = text.partition("\n## Alternatives\n")[2].partition("\n## ")[0]
    assert re.search(r"^- \*\*", section, re.MULTILINE), "name what was turned down, and why"


def test_the_index_names_every_decision_with_its_title():
    index = (FOLDER / "index.md").read_text()
    for page in PAGES:
        title = page.read_text().partition("\n")[0].removeprefix("# ")
        assert f"- [{page.name[:4]}]({page.name}): {title}\n" in index
