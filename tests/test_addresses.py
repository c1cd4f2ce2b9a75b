"""What a package index shows: links that lead somewhere without the files of the repository beside them."""

import re
import runpy
import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_packages_name_the_repository(tmp_path):
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    runpy.run_path(str(ROOT / ".ci" / "addresses"))["main"](tmp_path, "https://example.org/a/dygcn/", "v1")
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    assert set(urls) == {"Source", "Documentation", "Issues", "Changelog"}
    links = re.findall(r"\]\(([^)]*)\)", (tmp_path / "README.md").read_text())
    assert len(links) > 10
    assert all(link.startswith("https://example.org/a/dygcn/") for link in links)
    assert "https://example.org/a/dygcn/raw/v1/docs/images/idea.png" in links


def test_links_of_the_readme_lead_to_files():
    for path in re.findall(r"\]\((?!http)([^)#]+)", (ROOT / "README.md").read_text()):
        assert (ROOT / path).exists(), path
