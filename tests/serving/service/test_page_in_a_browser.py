"""The page for people, opened in a real browser beside a real service that is fed."""

import json
import random
import re
import resource
import socket
import urllib.error
from contextlib import ExitStack
from importlib.resources import files
from urllib.parse import quote, urlsplit

import pytest

import dygcn
from dygcn.serving.service.app import ROUTES, page_rules
from dygcn.serving.service.auth import new_token
from tests.serving.service.browser import PATIENCE, Heard, start_chromium, wait
from tests.serving.service.paged import HOSTILE, IMAGE, LARGE, Served, people
from tests.serving.service.streams import until

expect = pytest.importorskip("playwright.sync_api").expect
PAGE = (files("dygcn.serving.service") / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service for each kind of ids, on a graph with every id that could do harm."""
    found = {}
    try:
        for kind in ("string", "int64"):
            ids, draw = people(kind), random.Random(3)
            edges = [(one, draw.choice(ids[:40])) for one in ids for _ in range(3)]
            folder = tmp_path_factory.mktemp(kind) / "graph"
            dygcn.fit([(a, b) for a, b in edges if a != b], dim=8).save(folder)
            found[kind] = Served(folder)
        yield found
    finally:
        for one in found.values():
            one.stop()


@pytest.fixture(scope="module")
def devices():
    """A desk and a phone of one browser."""
    with start_chromium() as browser:
        phone = browser.new_context(is_mobile=True, has_touch=True, device_scale_factor=2)
        found = {"desk": browser.new_context(), "phone": phone}
        for one in found.values():
            one.set_default_timeout(PATIENCE)
        yield found


@pytest.fixture
def page(devices, request):
    """A window that is 1280 wide, or as wide as a parameter of the test says."""
    width = getattr(request, "param", 1280)
    with devices["phone" if width < 600 else "desk"].new_page() as opened:
        opened.set_viewport_size({"width": width, "height": 844 if width < 600 else 900})
        yield opened


@pytest.fixture
def heard(page):
    return Heard(page)


def show(page, served):
    page.goto(f"{served.address}/")
    wait(page, "points.size > 0 && status !== null")


def replace(page, served, text, headers):
    """Have another page in the place of ours, as if it were served from there."""
    page.route(
        f"{served.address}/",
        lambda route: route.fulfill(body=text, content_type="text/html; charset=utf-8", headers=headers),
    )


def write(page, text):
    page.fill("#ask", text)
    page.press("#ask", "Enter")


def choose(page, name):
    """Ask for an id in the field, and wait for its neighbours."""
    write(page, str(name))
    wait(page, f"node.vector.length > 0 && node.id === {json.dumps(str(name))}")


def texts(page, *names):
    return [page.text_content(f"#{name}") for name in names]


def neighbours(page):
    return page.evaluate(
        "[...byId('near').children].map((row) => [row.children[0].value, row.children[2].textContent])"
    )


def expected(served, name):
    found = served.get(f"nearest/{quote(str(name), safe='')}")["nodes"]
    return [[str(one["id"]), f"{one['score']:.3f}"] for one in found]


# ---- what a person sees ---------------------------------------------------------------------------------


def test_numbers_move_while_events_come(page, heard, served):
    one = served["string"]
    show(page, one)
    names = ("nodes", "edges", "sequence", "total-events", "total-reads")
    before = {name: int(page.text_content(f"#{name}").replace(",", "")) for name in names}
    on_map = page.evaluate("points.size")
    with one.fed(people("string")[:40]) as sent:
        wait(page, "byId('moved').children.length >= 10")
        for name, was in before.items():
            wait(page, f"Number(byId('{name}').textContent.replaceAll(',', '')) > {was}")
        wait(page, "Number(byId('events').textContent) > 0 && Number(byId('reads').textContent) > 0")
        expect(page.locator("#lag")).to_have_text(re.compile("ms$"))
        wait(page, f"points.size > {on_map}")
        wait(page, "hot.size > 0")
        versions = page.evaluate(
            "[...byId('moved').children].map((row) => Number(row.children[2].textContent))"
        )
        assert versions == sorted(versions, reverse=True)
        assert before["sequence"] < versions[0] <= one.get("status")["sequence"]
        drawn = "byId('events-chart').getContext('2d').getImageData(0, 0, 400, 40).data.some((x) => x > 0)"
        assert wait(page, drawn)
    assert sum(sent) > 0
    status = one.get("status")
    expect(page.locator("#nodes")).to_have_text(str(status["nodes"]))
    expect(page.locator("#sequence")).to_have_text(str(status["sequence"]))
    wait(page, "hot.size === 0")
    assert texts(page, "kind", "dim", "dead", "index-kind") == ["string", "8", "0", "exact"]
    assert texts(page, "state", "failure", "lost") == ["taking events", "", ""]
    assert heard.complaints == heard.dialogs == []


def test_only_routes_of_this_service_are_asked(page, heard, served):
    one = served["string"]
    with page.expect_request("**/changes?since=*"):
        show(page, one)
        choose(page, "p7")
    one.post([{"src": "p7", "dst": "p8"}])
    wait(page, "following")
    patterns = {
        (route.method, re.sub(r"\\\{id\\\}", ".+", re.escape(route.path)))
        for route in ROUTES
    }  # fmt: skip
    assert len(heard.requests) > 5
    for request in heard.requests:
        method, _, url = request.partition(" ")
        if url.startswith("data:image/png"):
            continue
        assert url.startswith(f"{one.address}/"), url
        path = urlsplit(url).path
        assert any(method == known and re.fullmatch(shape, path) for known, shape in patterns), request


def test_a_chosen_node_shows_its_neighbours(page, heard, served):
    one = served["string"]
    show(page, one)
    choose(page, "p3")
    assert neighbours(page) == expected(one, "p3")
    assert page.evaluate("node.vector") == pytest.approx(one.get("vectors/p3")["vector"])
    assert page.is_visible("#node-shown")
    widths = page.evaluate(
        "[...document.querySelectorAll('#near .bar i')].map((bar) => parseFloat(bar.style.width))"
    )
    scores = [float(score) for _, score in neighbours(page)]
    assert widths == pytest.approx([100 * max(score, 0) for score in scores], abs=0.06)
    first = neighbours(page)[0][0]
    page.click("#near button")
    wait(page, f"node.vector.length > 0 && node.id === {json.dumps(first)}")
    assert neighbours(page) == expected(one, first)
    assert page.input_value("#ask") == first
    assert heard.complaints == []


def spot(page, name):
    """Return where a node is on the map, in the window."""
    wait(page, "!turned && !drawing")  # before that, points have no place on the canvas
    return page.evaluate(
        "(name) => { const box = canvas.getBoundingClientRect(), one = points.get(name);"
        " return [box.left + one.px, box.top + one.py]; }",
        name,
    )


def test_the_map_is_hovered_and_clicked(page, served):
    show(page, served["string"])
    wait(page, "!turned && !drawing")
    lonely = page.evaluate(
        "[...points.values()].map((one) => [one.id, Math.min(...[...points.values()].filter((o) => o !== one)"
        ".map((o) => Math.hypot(o.px - one.px, o.py - one.py)))]).sort((a, b) => b[1] - a[1])[0][0]"
    )
    x, y = spot(page, lonely)
    page.mouse.move(x + 1, y + 1)
    wait(page, "byId('tip').textContent")
    assert page.text_content("#tip") == page.evaluate("shown", lonely)
    page.mouse.click(x + 1, y + 1)
    wait(page, f"node.id === {json.dumps(lonely)} && node.vector.length > 0")
    page.mouse.move(2, 2)
    expect(page.locator("#tip")).to_be_empty()


@pytest.mark.parametrize("page", [390], indirect=True)
def test_a_tap_on_the_map_chooses(page, served):
    show(page, served["string"])
    page.evaluate("canvas.scrollIntoView({ block: 'center' })")
    page.touchscreen.tap(*spot(page, "p5"))
    wait(page, "node.id !== null && node.vector.length > 0")
    wait(page, "byId('tip').textContent !== ''")


def test_an_unknown_id_is_told_and_found_once_it_comes(page, served):
    one = served["string"]
    show(page, one)
    write(page, "nobody yet")
    expect(page.locator("#node-says")).to_contain_text("is not in the graph now")
    assert page.is_hidden("#node-shown")
    one.post([{"src": "nobody yet", "dst": "p1"}])
    wait(page, "!byId('node-shown').hidden && byId('near').children.length === 10")
    one.post([{"src": "nobody yet", "dst": "p1", "op": -1}])
    wait(page, "!byId('node-says').hidden && node.near.length === 0")
    expect(page.locator("#moved > li", has_text=re.compile("^nobody yetleft"))).to_have_count(1)


def test_a_link_opens_with_its_node(page, served):
    one = served["string"]
    page.goto(f"{one.address}/#{quote(HOSTILE[3], safe='')}")
    wait(page, f"node.vector.length > 0 && node.id === {json.dumps(HOSTILE[3])}")
    assert neighbours(page) == expected(one, HOSTILE[3])


def test_a_list_that_is_pointed_at_stays(page, served):
    one = served["string"]
    show(page, one)
    one.post([{"src": "p1", "dst": "p20"}])
    wait(page, "byId('moved').children.length > 0")
    page.hover("#moved", position={"x": 9, "y": 9})
    before = page.text_content("#moved")
    one.post([{"src": "p1", "dst": "late"}])
    expect(page.locator("#moved-note")).to_have_text(re.compile("^held"))
    assert page.text_content("#moved") == before
    page.mouse.move(2, 2)
    one.post([{"src": "p1", "dst": "later"}])
    expect(page.locator("#moved")).to_contain_text("later")


# ---- ids that could do harm -----------------------------------------------------------------------------


def test_any_id_is_text_and_can_be_chosen(page, heard, served):
    one = served["string"]
    show(page, one)
    for name in HOSTILE:
        page.evaluate("choose", name)
        wait(page, "node.vector.length > 0 && byId('near').children.length === 10")
        if name not in ("", ".", ".."):
            assert neighbours(page) == expected(one, name)
            vector = one.get(f"vectors/{quote(name, safe='')}")["vector"]
            assert page.evaluate("node.vector") == pytest.approx(vector)
        assert name not in [other for other, _ in neighbours(page)]
        assert page.locator("img, svg, script").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert heard.complaints == heard.dialogs == [], name


def move_hostile(served):
    """Make all hostile ids move, so that they are in the lists."""
    for name in HOSTILE:
        served.post([{"src": name, "dst": "hub"}])


def test_hostile_ids_among_those_that_moved_are_text(page, heard, served):
    one = served["string"]
    show(page, one)
    move_hostile(one)
    expect(page.locator("#moved").get_by_text(IMAGE, exact=True)).to_have_count(1)
    choose(page, "hub")
    page.wait_for_timeout(500)
    assert page.locator("img, svg, script").count() == 1
    assert heard.complaints == heard.dialogs == []


MARKUP = PAGE.replace("found.textContent = text;", "found.innerHTML = text;")


def test_ids_as_markup_would_be_noticed(page, heard, served):
    assert MARKUP != PAGE
    one = served["string"]
    replace(page, one, MARKUP, {})
    show(page, one)
    with page.expect_event("dialog", lambda dialog: dialog.message == "1"):
        move_hostile(one)
    assert page.locator("img").count() > 0
    assert "1" in heard.dialogs


def test_the_rules_alone_stop_ids_as_markup(page, heard, served):
    one = served["string"]
    replace(page, one, MARKUP, page_rules(MARKUP.encode()))
    page.goto(f"{one.address}/")
    page.wait_for_timeout(1500)
    assert page.locator("img, svg").count() == 0
    assert heard.dialogs == []
    assert any("TrustedHTML" in one for one in heard.complaints)


def test_another_script_is_not_run(page, heard, served):
    one = served["string"]
    with_more = PAGE.replace("</main>", "</main><script>window.ran = 1</script><p onclick='ran = 2'>", 1)
    replace(page, one, with_more, page_rules(PAGE.encode()))
    show(page, one)
    page.evaluate("[...document.querySelectorAll('p')].pop().click()")
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in one for one in heard.complaints)


@pytest.mark.parametrize("name", LARGE)
def test_large_ids_are_not_rounded(page, heard, served, name):
    one = served["int64"]

    def is_drawn():  # a map that another test's events changed is made beside
        show(page, one)
        drawn = page.evaluate("[...points.keys()]")
        return drawn == [str(point["id"]) for point in one.get("map")["points"]]

    until(is_drawn)
    choose(page, name)
    assert neighbours(page) == expected(one, name)
    one.post([{"src": name, "dst": 10**9 + abs(name) % 1000}])
    wait(page, f"last.some((one) => one.id === '{name}')")
    expect(page.locator(f"#moved .id[value='{name}']")).to_have_count(1)
    assert heard.complaints == []


def test_rounded_ids_would_be_noticed(page, served):
    one = served["int64"]
    rounding = PAGE.replace("return JSON.parse(text.replace(", "return JSON.parse(text); (text.replace(")
    assert rounding != PAGE
    replace(page, one, rounding, {})
    show(page, one)
    assert not page.evaluate(f"points.has('{LARGE[0]}')")
    assert page.evaluate(f"points.has('{LARGE[0] - 1}')")


def test_reading_json_changes_nothing_but_large_numbers(page, served):
    show(page, served["string"])
    kept = {
        "a": [1, -2, 1.5, 1e300, 0.1234567890123456789, 2**53 - 1, "9007199254740993", "\\", '\\"', '"id":1']
    }
    assert page.evaluate("(text) => JSON.stringify(parse(text))", json.dumps(kept)) == page.evaluate(
        f"JSON.stringify({json.dumps(kept)})"
    )
    text = '{"id":9007199254740993,"b":[-9223372036854775808, 12],"c":"\\",9007199254740993,"}'
    assert page.evaluate("parse", text) == {
        "id": "9007199254740993",
        "b": ["-9223372036854775808", 12],
        "c": '",9007199254740993,',
    }


def test_a_written_number_is_the_id_that_it_means(page, served):
    show(page, served["int64"])
    write(page, " 007 ")
    wait(page, "node.id === '7' && node.vector.length > 0")
    write(page, "seven")
    expect(page.locator("#node-says")).to_contain_text("int64")


# ---- sizes, light and motion ----------------------------------------------------------------------------


@pytest.mark.parametrize("page", [320, 768, 1920], indirect=True)
def test_nothing_is_wider_than_the_window(page, heard, served):
    one, width = served["string"], page.viewport_size["width"]
    show(page, one)
    choose(page, HOSTILE[-2])
    move_hostile(one)
    wait(page, "byId('moved').children.length > 9")
    assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    assert page.evaluate("scrollTo(500, 0), scrollX") == 0
    boxes = "[...document.querySelectorAll('section')].map((one) => one.getBoundingClientRect().right)"
    assert max(page.evaluate(boxes)) <= width
    assert heard.complaints == []


def test_it_follows_the_scheme_of_the_system(page, served):
    back = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        show(page, served["string"])
        back[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert page.evaluate("paint.accent").startswith("#")
    assert back["light"] != back["dark"]


def test_nothing_moves_for_who_wants_it_so(page, served):
    style = "getComputedStyle(document.querySelector('.meter > i')).transitionDuration"
    for motion, seconds, moves in (("no-preference", "0.3s", True), ("reduce", "0s", False)):
        page.emulate_media(reduced_motion=motion)
        show(page, served["string"])
        assert page.evaluate(style) == seconds
        page.evaluate("takeMap({ sequence: 1, nodes: 1, points: [{ id: 'p1', x: 9, y: 9 }] })")
        assert page.evaluate("turned > 0") is moves


def test_it_can_be_used_without_seeing_it(page, served):
    show(page, served["string"])
    choose(page, "p1")
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    found = {(one["role"]["value"], one.get("name", {}).get("value", "")) for one in tree if "role" in one}
    assert {("textbox", "Id"), ("button", "Ask"), ("heading", "Map"), ("list", "Nearest nodes")} <= found
    assert {("meter", "Events in the queue"), ("meter", "Rows in the queue")} <= found
    assert not [
        role for role, name in found if role in ("button", "textbox", "link", "image", "meter") and not name
    ]
    expect(page.locator("#failure")).to_have_attribute("aria-live", "assertive")
    expect(page.locator("#lost")).to_have_attribute("aria-live", "polite")
    page.focus("#ask")
    expect(page.locator("#ask")).to_have_css("outline-style", "solid")


# ---- who may come in, and when something is wrong -------------------------------------------------------


def test_a_service_that_goes_away_and_comes_back(page, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    one = Served(tmp_path / "graph")
    try:
        show(page, one)
        choose(page, 3)
        one.post([{"src": 3, "dst": 4}])
        port = urlsplit(one.address).port
        one.stop()
        expect(page.locator("#lost")).to_contain_text("cannot be reached")
        assert page.evaluate("document.body.classList.contains('stale')")
        assert page.text_content("#state") == "not reached"
        page.evaluate("choose('5')")
        wait(page, "byId('node-shown').hidden && byId('node-says').textContent.startsWith('No answer')")
        one = Served(tmp_path / "graph", port)
        wait(page, "byId('lost').textContent === '' && byId('state').textContent === 'taking events'")
        wait(page, "node.vector.length > 0 && !byId('node-shown').hidden")
        assert neighbours(page) == expected(one, 5)
        one.post([{"src": 3, "dst": 99}])
        expect(page.locator("#moved .id[value='99']")).to_have_count(1)
        expect(page.locator("#sequence")).to_have_text(str(one.get("status")["sequence"]))
    finally:
        one.stop()


def test_a_token_in_the_address_opens_the_page(page, heard, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    secret, token = new_token("people", ["read"])
    listed = f'[[http.tokens]]\nname = "people"\nsha256 = "{token.sha256}"\nscopes = ["read"]\n'
    (tmp_path / "tokens.toml").write_text(listed)
    one = Served(tmp_path / "graph", 0, "--tokens", str(tmp_path / "tokens.toml"))
    try:
        page.goto(one.address.replace("//", f"//me:{secret}@") + "/")
        wait(page, "points.size === 30")
        choose(page, 3)
        assert heard.complaints == []
        assert not [request for request in heard.requests[1:] if secret in request]
    finally:
        one.stop()


def test_a_disk_that_cannot_be_written_is_told_in_red(page, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    one = Served(tmp_path / "graph")
    try:
        one.post([{"src": 1, "dst": 2}])
        show(page, one)
        expect(page.locator("#failure")).to_have_css("display", "none")
        resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (1, 1))
        with pytest.raises(urllib.error.HTTPError):
            one.post([{"src": 1, "dst": 5}])
        expect(page.locator("#failure")).to_have_text(re.compile("^Events are not taken: "))
        expect(page.locator("#failure")).to_have_css("display", "block")
        assert page.text_content("#state") == "not taking events"
        assert page.title() == "dygcn: not taking events"
        choose(page, 3)
        assert neighbours(page) == expected(one, 3)
    finally:
        one.process.kill()
        one.stop()


def test_a_feed_that_is_full_is_replaced_by_the_status(page, served):
    one = served["string"]
    place = urlsplit(one.address)
    stream = f"GET /v1/changes HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: text/event-stream\r\n\r\n"
    one.post([{"src": "p1", "dst": "p29"}])  # lets go of pages that were closed while they waited
    page.wait_for_timeout(500)
    with ExitStack() as others:
        answer = b""
        while answer != b"HTTP/1.1 429":
            other = others.enter_context(socket.create_connection((place.hostname, place.port), timeout=60))
            other.sendall(stream.encode())
            answer = other.recv(12)
        with page.expect_response(lambda response: response.status == 429):
            show(page, one)
        one.post([{"src": "p1", "dst": "p30"}])
        result = [str(name) for name in one.get("status")["moved_last"]]
        names = "[...byId('moved').children].map((row) => row.firstChild.value)"
        wait(page, f"{names}.length > 0")
        assert set(page.evaluate(names)) <= set(result)
        assert page.evaluate("following") is False
    one.post([{"src": "p1", "dst": "p31"}])  # lets go of the others
    with page.expect_request("**/changes?since=*"):
        pass
    one.post([{"src": "p1", "dst": "p32"}])
    wait(page, "following")
