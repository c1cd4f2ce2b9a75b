"""Opens the built pages in Chromium: none may scroll sideways on a phone; eight are photographed.

From the root of a clone::

    python -m sphinx -W -q -b html docs build/html
    python docs/pictures/screenshots.py build/html                      # check every page
    python docs/pictures/screenshots.py build/html --out docs/images/pages  # and photograph eight

A wide table has to scroll inside its own box, as a picture or a block of code has to.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

DESKTOP, PHONE = (1280, 900), (390, 844)
PAGES = (
    "index.html",
    "quickstart.html",
    "how-to/from-pandas.html",
    "how-to/deletion-requests.html",
    "concepts/orders.html",
    "api.html",
    "results.html#what-the-vectors-add",
    "costs.html#where-a-rerun-becomes-cheaper",
)
COLOURS = 64  # of a palette: a picture stays below 60 kB or so
GENERATED = ("_modules", "_static")
_WIDER = """() => {
    const room = document.documentElement.clientWidth;
    const outside = [...document.querySelectorAll('article *')].filter(one => {
        if (one.getBoundingClientRect().right <= room + 1) return false;
        for (let box = one.parentElement; box; box = box.parentElement)
            if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(box).overflowX)) return false;
        return true;
    });
    if (document.documentElement.scrollWidth <= room && !outside.length) return '';
    const first = outside[0];
    return first ? first.tagName.toLowerCase() + ' ' + first.textContent.trim().slice(0, 40) : 'the page';
}"""

_SCROLL = """id => window.scrollTo({
    top: document.getElementById(id).getBoundingClientRect().top - 70, behavior: 'instant'
})"""


def wider_than_screen(page: Page) -> str:
    """Return the first thing that sticks out of the screen, empty if nothing does."""
    found: str = page.evaluate(_WIDER)
    return found


def check_pages(browser: Browser, html: Path) -> list[str]:
    """Return what sticks out on a phone, for each page."""
    bad = []
    with _opened(browser, PHONE) as page:
        for file in sorted(html.rglob("*.html")):
            name = file.relative_to(html).as_posix()
            if name.split("/")[0] in GENERATED:
                continue
            page.goto(file.resolve().as_uri())
            if found := wider_than_screen(page):
                bad.append(f"{name}: {found}")
    return bad


def photograph(browser: Browser, html: Path, out: Path) -> None:
    """Write a picture of each of the pages, as wide as a desktop and as a phone."""
    out.mkdir(parents=True, exist_ok=True)
    for kind, size in (("desktop", DESKTOP), ("phone", PHONE)):
        with _opened(browser, size) as page:
            for name in PAGES:
                file, _, anchor = name.partition("#")
                page.goto((html / file).resolve().as_uri())
                if anchor:
                    page.evaluate(_SCROLL, anchor)
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                target = out / f"{file.removesuffix('.html').replace('/', '-')}-{kind}.png"
                few_colours(picture).save(target, optimize=True)


def few_colours(picture: Image.Image) -> Image.Image:
    """Return the picture with a palette; its most frequent colours, the backgrounds, are kept exactly."""
    counted = picture.getcolors(picture.width * picture.height) or []
    frequent = [level for _, colour in sorted(counted, reverse=True)[: COLOURS // 4] for level in colour]
    others = picture.quantize(COLOURS * 3 // 4, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette(frequent + others)
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


@contextmanager
def _opened(browser: Browser, size: tuple[int, int]) -> Iterator[Page]:
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, is_mobile=width < 600)
    yield page
    page.close()


@contextmanager
def started() -> Iterator[Browser]:
    """Start the system's Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def main() -> int:
    """Check all pages; photograph some, if a folder is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("html", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with started() as browser:
        bad = check_pages(browser, asked.html)
        if asked.out is not None:
            photograph(browser, asked.html, asked.out)
    sys.stderr.writelines(f"wider than a phone: {one}\n" for one in bad)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
