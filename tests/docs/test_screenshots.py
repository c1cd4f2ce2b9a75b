"""The check of the built pages notices what is wider than a phone."""

import importlib.util
from pathlib import Path

import pytest

from tests.serving.service.browser import start_chromium

pytest.importorskip("playwright.sync_api")
pytest.importorskip("PIL")
DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = DOCS / "pictures" / "screenshots.py"
STYLE = (DOCS / "_static" / "custom.css").read_text(encoding="utf-8")
TABLE = "<table class='docutils'><tr>" + "<td>a_long_word_in_a_cell</td>" * 12 + "</tr></table>"


@pytest.fixture(scope="module")
def script():
    found = importlib.util.spec_from_file_location("screenshots", SCRIPT)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def write_pages(folder, **bodies):
    for name, body in bodies.items():
        head = f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style>"
        page = f"<!doctype html><head>{head}</head><body><article>{body}</article></body>"
        (folder / f"{name}.html").write_text(page, encoding="utf-8")


def test_wide_things_are_noticed(script, tmp_path):
    write_pages(
        tmp_path,
        bare=TABLE,
        boxed=f"<div class='table-wrapper'>{TABLE}</div>",
        picture="<img width=900 height=10 alt=''>",
        text="<p>words " * 200,
        wide="<div style='width: 700px'>too wide</div>",
        word=f"<p>{'x' * 200}</p>",
        code=f"<p><code>{'x' * 200}</code></p>",
    )
    with start_chromium() as browser:
        found = script.check_pages(browser, tmp_path)
    assert [one.partition(".html")[0] for one in found] == ["bare", "wide", "word"]
    assert found[1] == "wide.html: div too wide"


def test_pictures_are_small(script, tmp_path):
    for name in script.PAGES:
        file = tmp_path / name.partition("#")[0]
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"<!doctype html><h1 id='{name.partition('#')[2]}'>A page</h1>", encoding="utf-8")
    with start_chromium() as browser:
        script.photograph(browser, tmp_path, tmp_path / "out")
    made = {file.name: file.stat().st_size for file in (tmp_path / "out").iterdir()}
    assert set(made) == {file.name for file in (DOCS / "images" / "pages").iterdir()}
    assert max(made.values()) < 60_000
