"""What a package index shows: links that lead somewhere without the files of the repository beside them."""

import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "lab/README.md")
SETTINGS = ("pyproject.toml", "lab/pyproject.toml")


def urls(root, name="pyproject.toml"):
    return tomllib.loads((root / name).read_text())["project"]["urls"]


def links(text):
    """Return where links and pictures lead, as an index draws the page."""
    drawn = pytest.importorskip("markdown_it").MarkdownIt("commonmark").render(text)
    return re.findall(r'<(?:a|img)[^>]* (?:href|src)="([^"]*)"', drawn)


def copy(folder):
    (folder / "lab").mkdir()
    for name in (*PAGES, *SETTINGS):
        shutil.copy(ROOT / name, folder / name)


def test_the_packages_name_the_repository():
    of_all = [urls(ROOT, name) for name in SETTINGS]
    assert set(of_all[0]) == {"Source", "Documentation", "Issues", "Changelog"}
    assert {one["Source"] for one in of_all} == {of_all[0]["Source"]}
    assert all(page.startswith(of_all[0]["Source"]) for page in of_all[0].values())


@pytest.mark.parametrize("page", PAGES)
def test_no_link_or_picture_is_relative(page):
    text = (ROOT / page).read_text()
    assert links(text)
    assert [link for link in links(text) if not link.startswith(("https://", "http://127.0.0.1"))] == []
    assert not re.findall(r"\]\[|\[[^\]]+\](?=[ ,;.:·\n])", undrawn(text)), "a link that is not defined"


def undrawn(text):
    """Return the text that is drawn, without links and code: brackets that are left name no link."""
    drawn = pytest.importorskip("markdown_it").MarkdownIt("commonmark").render(text)
    return re.sub(r"(?s)<(a|code)\b.*?</\1>|<[^>]*>", "", drawn)


def test_links_of_the_readme_lead_to_files():
    source, text = urls(ROOT)["Source"], (ROOT / "README.md").read_text()
    ours = [link for link in (*links(text), *urls(ROOT).values()) if "/main/" in link]
    assert len(ours) > 10
    for link in ours:
        path, _, anchor = re.fullmatch(rf"{source}/(?:blob|raw)/main/(.*)", link)[1].partition("#")
        assert (ROOT / path).exists(), path
        headings = re.findall(r"(?m)^#+ (.*)$", (ROOT / path).read_text()) if anchor else []
        assert not anchor or anchor in {re.sub(r"\W+", "-", one.lower()).strip("-") for one in headings}


def test_a_release_leads_to_its_repository_and_its_tag(tmp_path):
    copy(tmp_path)
    runpy.run_path(str(ROOT / ".ci" / "addresses"))["main"](tmp_path, "https://example.org/a/dygcn/", "v1")
    found = [*links((tmp_path / "README.md").read_text()), *urls(tmp_path).values()]
    ours = [link for link in found if "127.0.0.1" not in link]
    assert all(link.startswith("https://example.org/a/dygcn") for link in ours)
    assert not [link for link in ours if "/main/" in link]
    assert "https://example.org/a/dygcn/raw/v1/docs/images/idea.png" in ours
    assert {urls(tmp_path, name)["Source"] for name in SETTINGS} == {"https://example.org/a/dygcn"}


@pytest.mark.parametrize(
    "wrong", ["[costs](docs/costs.md)", "![idea](docs/images/idea.png)", "[no such link]."]
)
def test_a_relative_link_would_be_noticed(monkeypatch, tmp_path, wrong):
    copy(tmp_path)
    page = tmp_path / "README.md"
    page.write_text(page.read_text() + f"\nSee {wrong}\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    with pytest.raises(AssertionError):
        test_no_link_or_picture_is_relative("README.md")
