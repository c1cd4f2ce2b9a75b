"""What operators do on the page, in a real browser: look at an hour, find a node, replay dead letters."""

import json
import random

import pytest

import dygcn
from dygcn.serving.service.auth import new_token
from tests.serving.service.browser import PATIENCE, Heard, start_chromium, wait
from tests.serving.service.paged import Served

expect = pytest.importorskip("playwright.sync_api").expect
WIDTHS = [390, 1280]
NODES = 2_300  # more than the map draws


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A service on a graph of ten circles, larger than a map."""
    draw, folder = random.Random(3), tmp_path_factory.mktemp("large") / "graph"
    edges = [(a, a // 230 * 230 + draw.randrange(230)) for a in range(NODES) for _ in range(3)]
    dygcn.fit([(a, b) for a, b in edges if a != b], dim=16).save(folder)
    served = Served(folder)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def browser():
    with start_chromium() as found:
        yield found


@pytest.fixture
def page(browser, request):
    width = getattr(request, "param", 1280)
    small = width < 600
    with browser.new_context(
        is_mobile=small, has_touch=small, viewport={"width": width, "height": 844 if small else 900}
    ) as context:
        context.set_default_timeout(PATIENCE)
        yield context.new_page()


@pytest.fixture
def heard(page):
    return Heard(page)


def show(page, served, node=""):
    page.goto(f"{served.address}/{'#' if node else ''}{node}")
    wait(page, "points.size > 0 && status !== null")


def does_not_scroll_sideways(page):
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("page", WIDTHS, indirect=True)
def test_a_searched_node_is_drawn_though_the_map_is_of_others(page, heard, one):
    show(page, one)
    hidden = page.evaluate(
        f"Array.from({{ length: {NODES} }}, (_, i) => String(i)).find((id) => !points.has(id))"
    )
    page.fill("#ask", hidden)
    page.press("#ask", "Enter")
    wait(page, f"placed.has('{hidden}') && node.vector.length > 0 && !drawing && !turned")
    x, y = page.evaluate(f"[at('{hidden}').px, at('{hidden}').py]")
    width, height = page.evaluate("[canvas.clientWidth, canvas.clientHeight]")
    assert 0 <= x <= width
    assert 0 <= y <= height
    linked = {str(id) for id in one.get(f"neighbors/{hidden}")["neighbors"]}
    assert set(page.evaluate("linked")) == linked
    assert page.evaluate("linked.every((id) => at(id)) && node.near.every((near) => at(near.id))")
    colour = page.evaluate(
        "(name) => getComputedStyle(document.documentElement).getPropertyValue(name)", "--text"
    )
    ring = page.evaluate(
        "([x, y]) => { const s = devicePixelRatio || 1, found = new Set();"
        " const data = canvas.getContext('2d').getImageData((x - 12) * s, (y - 12) * s, 24 * s, 24 * s).data;"
        " for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 250)"
        " found.add('#' + [0, 1, 2].map((j) => data[i + j].toString(16).padStart(2, '0')).join(''));"
        " return [...found]; }",
        [x, y],
    )
    assert colour.strip() in ring
    wait(page, "byId('made').children.length > 0 && byId('likely').children.length > 0")
    made = one.get(f"explain/{hidden}?k=5")
    rows = page.evaluate("[...byId('made').children].map((row) => row.firstChild.value)")
    assert rows == [str(share["id"]) for share in made["neighbors"]]
    assert not set(page.evaluate("[...byId('likely').children].map((row) => row.firstChild.value)")) & linked
    assert does_not_scroll_sideways(page)
    assert heard.complaints == []


def test_the_map_is_moved_by_keys_buttons_and_pointer(page, one):
    show(page, one)
    page.focus("#map")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("zoom.k > 1 && zoom.x > 0")
    page.click("#whole")
    assert page.evaluate("[zoom.k, zoom.x, zoom.y]") == [1, 0, 0]
    page.click("#closer")
    box = page.locator("#map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y, steps=4)
    page.mouse.up()
    assert page.evaluate("zoom.x < 0 && node.id === null")
    page.click("#groups summary")
    rows = page.locator("#groups tbody tr")
    expect(rows.first).to_be_visible()
    drawn = [int(text.replace(",", "")) for text in rows.locator("td:nth-child(2)").all_text_contents()]
    assert sum(drawn) == page.evaluate("points.size")


@pytest.mark.parametrize("page", WIDTHS, indirect=True)
def test_a_page_that_is_opened_late_shows_what_was(page, heard, one):
    one.post([{"src": 1, "dst": n} for n in range(40, 60)])
    one.get("vectors/1")
    for _ in range(200):
        samples = one.get("history")["samples"]
        if any(sample["events_a_second"] for sample in samples):
            break
        page.wait_for_timeout(200)
    show(page, one)
    wait(page, f"hour.length >= {len(samples)}")
    assert page.evaluate("hour.map((one) => one.time)")[: len(samples)] == [one["time"] for one in samples]
    wait(page, "byId('lag-three').textContent.startsWith('p50')")
    expect(page.locator("#events-most")).to_contain_text("/s")
    page.click("#hour summary")
    expect(page.locator("#hour tbody tr").first).to_be_visible()
    assert does_not_scroll_sideways(page)
    if page.viewport_size["width"] > 600:
        page.hover("#events-chart")
        expect(page.locator("#events-most")).to_contain_text(":")
    times = page.evaluate("hour.map((one) => one.time)")
    assert times == sorted(set(times))
    assert heard.complaints == []


@pytest.mark.parametrize("page", [390], indirect=True)
def test_dead_letters_are_listed_replayed_and_discarded(page, heard, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    served = Served(tmp_path / "graph")
    try:
        served.post([{"src": 1, "dst": 900, "op": -1}, {"src": 1}, *[{"dst": n} for n in range(60)]])
        show(page, served)
        expect(page.locator("#alarms")).to_contain_text("Mass rejection")
        page.click("#letters-form button")
        total = served.get("dead-letters")["total"]
        expect(page.locator("#letters tbody tr")).to_have_count(total)
        page.fill("#letters-reason", "no dst")
        page.click("#letters-form button")
        expect(page.locator("#letters tbody tr")).to_have_count(1)
        assert does_not_scroll_sideways(page)
        page.check("#letters tbody input")
        page.click("#replay")
        page.click("#sure-no")
        assert served.get("dead-letters")["total"] == total
        page.click("#replay")
        expect(page.locator("#sure-says")).to_contain_text("again?")
        page.click("#sure-yes")
        expect(page.locator("#letters-says")).to_contain_text("0 applied, 1 dead still")
        page.fill("#letters-reason", "")
        page.click("#letters-form button")
        expect(page.locator("#letters tbody tr")).to_have_count(total)
        page.click("#letters-all")
        page.click("#discard")
        page.click("#sure-yes")
        expect(page.locator("#letters-says")).to_have_text(f"{total} discarded.")
        assert served.get("dead-letters")["total"] == 0
        assert heard.complaints == heard.dialogs == []
    finally:
        served.stop()


def test_a_letter_that_can_be_applied_now_is_applied(page, serve, tmp_path):
    dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [1.0, 2.0, 3.0]}, dim=8).save(tmp_path / "timed")
    served = serve(path=tmp_path / "timed", clock_jump=5.0)
    served.post([{"src": 1, "dst": 900, "t": 11.0}])  # its clock is fast
    served.post([{"src": 1, "dst": 3, "t": 7.0}])
    assert (served.get("/v1/vectors/900").status_code, len(served.letters())) == (404, 1)
    show(page, served)
    page.click("#letters-form button")
    page.check("#letters tbody input")
    page.click("#replay")
    page.click("#sure-yes")
    expect(page.locator("#letters-says")).to_contain_text("1 applied")
    assert (served.get("/v1/vectors/900").status_code, served.letters()) == (200, [])


def test_a_token_without_the_scope_is_told_so(page, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    secret, token = new_token("people", ["read"])
    listed = f'[[http.tokens]]\nname = "people"\nsha256 = "{token.sha256}"\nscopes = ["read"]\n'
    (tmp_path / "tokens.toml").write_text(listed)
    served = Served(tmp_path / "graph", 0, "--tokens", str(tmp_path / "tokens.toml"))
    try:
        page.goto(served.address.replace("//", f"//me:{secret}@") + "/")
        wait(page, "points.size === 30")
        page.click("#letters-form button")
        expect(page.locator("#letters-says")).to_contain_text("does not have the scope")
        assert page.is_hidden("#letters-shown")
    finally:
        served.stop()


def test_a_source_that_fails_is_told_with_its_time(page, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    served = Served(tmp_path / "graph", 0, "--source", "redis://127.0.0.1:1/events")
    try:
        show(page, served)
        expect(page.locator("#alarms")).to_contain_text("fails since")
        expect(page.locator("#sources tbody")).to_contain_text("fails since")
        [source] = served.get("status")["sources"]
        assert source["failing_since"] > 0
        assert json.dumps(source["worked_at"]) == "null"
    finally:
        served.stop()
