"""The page for people, read as text."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from dygcn.serving.service.app import ROUTES, page_rules
from dygcn.serving.service.node_map import COMMUNITIES
from dygcn.serving.service.web import V1

PAGE = (files("dygcn.serving.service") / "page.html").read_text(encoding="utf-8")


class Parts(HTMLParser):
    """What a browser finds in a page."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.attributes, self.tags, self._in = {}, [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self._in = tag
        self.tags.append((tag, dict(attrs)))
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.setdefault(self._in, []).append(data)

    def handle_endtag(self, tag):
        self._in = ""


PARTS = Parts(PAGE)
[SCRIPT], [STYLE] = PARTS.texts["script"], PARTS.texts["style"]


def test_the_page_is_small_and_whole():
    assert len(PAGE.encode()) < 65_000
    assert PAGE.startswith("<!doctype html>")
    assert "\r" not in PAGE
    ids = [value for name, value in PARTS.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:byId|put)\(\"([\w-]+)\"", SCRIPT)) <= set(ids)


def external(page):
    """Return whatever would be asked of another place."""
    return re.findall(r"\w+://|url\(|@import|\bsrc=|WebSocket|EventSource|sendBeacon|[\"'`(]//", page)


def test_nothing_comes_from_elsewhere():
    assert external(PAGE) == []
    assert external('<link href="https://fonts.example/a.css">') == ["https://"]
    paths = {route.path for route in ROUTES if route.method == "GET"}
    for _, attributes in PARTS.tags:
        href = attributes.get("href", "#")
        assert href.startswith(("#", "data:image/png;base64,")) or f"/{href}" in paths


def risky(page):
    """Return whatever could turn data into markup or code."""
    words = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|srcdoc|DOMParser"
    return re.findall(rf"{words}|createContextualFragment|setHTML|\son\w+=|javascript:|\sstyle=", page)


def test_data_can_become_neither_markup_nor_code():
    assert risky(PAGE) == []
    assert len(risky("a.innerHTML = b; eval(c)")) == 2
    assert [name for name, _ in PARTS.attributes if name.startswith("on") or name == "style"] == []


def asked(script):
    """Return the routes that a script asks, as the table of routes spells them."""
    found = re.findall(r"\bask\((?:\"([^\"]*)\"|`([^`]*)`)((?:, [\w]+, \{)?)", script)
    for plain, template, body in found:
        path = re.sub(r"\$\{[^}]*\}", "{id}", (plain or template).partition("?")[0])
        yield "POST" if body else "GET", f"{V1}/{path}"


def test_every_route_that_is_asked_exists():
    wanted = set(asked(SCRIPT))
    assert wanted <= {(route.method, route.path) for route in ROUTES}
    assert {path for _, path in wanted} >= {
        "/v1/status", "/v1/map", "/v1/changes", "/v1/nearest/{id}", "/v1/vectors/{id}",
        "/v1/nearest", "/v1/vectors", "/v1/history", "/v1/explain/{id}", "/v1/recommend/{id}",
        "/v1/dead-letters", "/v1/dead-letters/replay"
    }  # fmt: skip
    assert SCRIPT.count("fetch(") == 1, "everything is asked through ask()"


def test_the_rules_let_in_the_hashes_and_nothing_else():
    rules = page_rules(PAGE.encode())
    policy = dict(part.strip().partition(" ")[::2] for part in rules["Content-Security-Policy"].split(";"))

    def digest(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy["script-src"] == digest(SCRIPT)
    assert policy["style-src"] == digest(STYLE)
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in rules["Content-Security-Policy"]
    assert rules["X-Content-Type-Options"] == "nosniff"
    changed = page_rules(PAGE.replace('"use strict";', '"use strict"; alert(1);').encode())
    assert changed["Content-Security-Policy"] != rules["Content-Security-Policy"]
    assert "script-src 'none'; style-src 'none'" in page_rules(b"<p>")["Content-Security-Policy"]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_is_sufficient_by_day_and_by_night():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    schemes = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        found = {
            name: "#" + (value if len(value) > 3 else "".join(2 * c for c in value))
            for name, value in re.findall(r"--([\w-]+): #([0-9a-f]{3,6})\b", scheme)
        }
        for back in ("panel", "back"):
            for ink in ("text", "quiet", "accent", "bad", "warn"):
                assert contrast(found[ink], found[back]) >= 4.5, (ink, back)
        assert contrast(found["bad"], found["bad-wash"]) >= 4.5
        assert contrast(found["warn"], found["warn-wash"]) >= 4.5
        assert contrast(found["text"], found["grey-wash"]) >= 4.5
        for mark in ("hot", "accent", "good", "point", *(f"c{i}" for i in range(COMMUNITIES))):
            assert contrast(found[mark], found["panel"]) >= 2.9, mark
