"""The page for people, opened in a real browser beside a real service that is fed."""

import json
import random
import re
import resource
import socket
import time
import urllib.error
from contextlib import ExitStack
from importlib.resources import files
from urllib.parse import quote, urlsplit

import pytest

import dygcn
from dygcn.serving.service.app import page_rules
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.routes import ROUTES
from tests.serving.service.chromium import find_chromium, open_tab
from tests.serving.service.paged import HOSTILE, IMAGE, LARGE, Served, people

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
def browser():
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium is installed here")
    with open_tab(program) as tab:
        yield tab


@pytest.fixture
def tab(browser):
    yield browser
    browser.do("Fetch.disable")


def show(tab, served, width=1280, height=900, **options):
    tab.go(f"{served.address}/", width, height, **options)
    tab.wait("points.size > 0 && status !== null")


def choose(tab, name):
    """Ask for an id in the field, and wait for its neighbours."""
    tab.write("ask", str(name))
    tab.wait(f"node.vector.length > 0 && node.id === {json.dumps(str(name))}")


def neighbours(tab):
    return tab.ask(
        "[...byId('near').children].map((row) => [row.children[0].value, row.children[2].textContent])"
    )


def expected(served, name):
    found = served.get(f"nearest/{quote(str(name), safe='')}?k=10")["neighbours"]
    return [[str(one["id"]), f"{one['score']:.3f}"] for one in found]


# ---- what a person sees ---------------------------------------------------------------------------------


def test_numbers_move_while_events_come(tab, served):
    one = served["string"]
    show(tab, one)
    before = {
        name: tab.number(name) for name in ("nodes", "edges", "sequence", "total-events", "total-reads")
    }
    on_map = tab.ask("points.size")
    with one.fed(people("string")[:40]) as sent:
        tab.wait("byId('moved').children.length >= 10")
        for name, was in before.items():
            tab.wait(f"Number(byId({json.dumps(name)}).textContent.replaceAll(',', '')) > {was}")
        tab.wait("Number(byId('events').textContent) > 0 && Number(byId('reads').textContent) > 0")
        tab.wait("byId('lag').textContent.endsWith('ms')")
        tab.wait(f"points.size > {on_map}")
        tab.wait("hot.size > 0")
        versions = tab.ask("[...byId('moved').children].map((row) => Number(row.children[2].textContent))")
        assert versions == sorted(versions, reverse=True)
        assert before["sequence"] < versions[0] <= one.get("status")["sequence"]
        drawn = "byId('events-chart').getContext('2d').getImageData(0, 0, 400, 40).data.some((x) => x > 0)"
        assert tab.wait(drawn)
    assert sum(sent) > 0
    status = one.get("status")
    tab.wait(f"byId('nodes').textContent === '{status['nodes']}'")
    tab.wait(f"byId('sequence').textContent === '{status['sequence']}'")
    tab.wait("hot.size === 0")
    assert (tab.text("kind"), tab.text("dim"), tab.text("dead")) == ("string", "8", "0")
    assert tab.text("index-kind") == "exact"
    assert tab.text("state") == "taking events"
    assert (tab.text("failure"), tab.text("lost")) == ("", "")
    assert tab.complaints == tab.dialogs == []


def test_only_routes_of_this_service_are_asked(tab, served):
    one = served["string"]
    show(tab, one)
    choose(tab, "p7")
    tab.wait("following")
    patterns = {
        (route.method, re.sub(r"\\\{id\\\}", ".+", re.escape(route.path)))
        for route in ROUTES
    }  # fmt: skip
    assert len(tab.requests) > 5
    for request in tab.requests:
        method, _, url = request.partition(" ")
        if url.startswith("data:image/png"):
            continue
        assert url.startswith(f"{one.address}/"), url
        path = urlsplit(url).path
        assert any(method == known and re.fullmatch(shape, path) for known, shape in patterns), request


def test_a_chosen_node_shows_its_neighbours(tab, served):
    one = served["string"]
    show(tab, one)
    choose(tab, "p3")
    assert neighbours(tab) == expected(one, "p3")
    assert tab.ask("node.vector") == pytest.approx(one.get("vectors/p3")["vector"])
    assert tab.ask("byId('node-shown').hidden") is False
    widths = tab.ask(
        "[...document.querySelectorAll('#near .bar i')].map((bar) => parseFloat(bar.style.width))"
    )
    scores = [float(score) for _, score in neighbours(tab)]
    assert widths == pytest.approx([100 * max(score, 0) for score in scores], abs=0.06)
    first = neighbours(tab)[0][0]
    tab.ask("document.querySelector('#near button').click()")
    tab.wait(f"node.vector.length > 0 && node.id === {json.dumps(first)}")
    assert neighbours(tab) == expected(one, first)
    assert tab.ask("byId('ask').value") == first
    assert tab.complaints == []


def spot(tab, name):
    """Return where a node is on the map, in the window."""
    tab.wait("!turned && !drawing")
    return tab.ask(
        f"(() => {{ const box = canvas.getBoundingClientRect(), one = points.get({json.dumps(name)});"
        " return [box.left + one.px, box.top + one.py]; })()"
    )


def test_the_map_is_hovered_and_clicked(tab, served):
    one = served["string"]
    show(tab, one)
    tab.wait("!turned && !drawing")  # before that, points have no place on the canvas
    lonely = tab.ask(
        "[...points.values()].map((one) => [one.id, Math.min(...[...points.values()].filter((o) => o !== one)"
        ".map((o) => Math.hypot(o.px - one.px, o.py - one.py)))]).sort((a, b) => b[1] - a[1])[0][0]"
    )
    x, y = spot(tab, lonely)
    tab.do("Input.dispatchMouseEvent", type="mouseMoved", x=x + 1, y=y + 1)
    tab.wait("byId('tip').textContent")
    assert tab.text("tip") == tab.ask(f"shown({json.dumps(lonely)})")
    tab.click(x + 1, y + 1)
    tab.wait(f"node.id === {json.dumps(lonely)} && node.vector.length > 0")
    tab.do("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    tab.wait("byId('tip').textContent === ''")


def test_a_tap_on_the_map_chooses(tab, served):
    show(tab, served["string"], 390, 844)
    tab.ask("canvas.scrollIntoView({ block: 'center' })")
    tab.tap(*spot(tab, "p5"))
    tab.wait("node.id !== null && node.vector.length > 0")
    tab.wait("byId('tip').textContent !== ''")


def test_an_unknown_id_is_told_and_found_once_it_comes(tab, served):
    one = served["string"]
    show(tab, one)
    tab.write("ask", "nobody yet")
    tab.wait("byId('node-says').textContent.includes('is not in the graph now')")
    assert tab.ask("byId('node-shown').hidden") is True
    one.post([{"src": "nobody yet", "dst": "p1"}])
    tab.wait("!byId('node-shown').hidden && byId('near').children.length === 10")
    one.post([{"src": "nobody yet", "dst": "p1", "op": -1}])
    tab.wait("!byId('node-says').hidden && node.near.length === 0")
    tab.wait("[...byId('moved').children].some((row) => row.textContent.startsWith('nobody yetleft'))")


def test_a_link_opens_with_its_node(tab, served):
    one = served["string"]
    tab.go(f"{one.address}/#{quote(HOSTILE[3], safe='')}")
    tab.wait(f"node.vector.length > 0 && node.id === {json.dumps(HOSTILE[3])}")
    assert neighbours(tab) == expected(one, HOSTILE[3])


def test_a_list_that_is_pointed_at_stays(tab, served):
    one = served["string"]
    show(tab, one)
    one.post([{"src": "p1", "dst": "p20"}])
    tab.wait("byId('moved').children.length > 0")
    x, y = tab.ask(
        "(() => { const b = byId('moved').getBoundingClientRect(); return [b.left + 9, b.top + 9]; })()"
    )
    tab.do("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    before = tab.text("moved")
    one.post([{"src": "p1", "dst": "late"}])
    tab.wait("byId('moved-note').textContent.startsWith('held')")
    assert tab.text("moved") == before
    tab.do("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    one.post([{"src": "p1", "dst": "later"}])
    tab.wait("byId('moved').textContent.includes('later')")


# ---- ids that could do harm -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_any_id_is_text_and_can_be_chosen(tab, served, name):
    one = served["string"]
    show(tab, one)
    tab.ask(f"choose({json.dumps(name)})")
    tab.wait("node.vector.length > 0 && byId('near').children.length === 10")
    if name not in ("", ".", ".."):
        assert neighbours(tab) == expected(one, name)
        assert tab.ask("node.vector") == pytest.approx(one.get(f"vectors/{quote(name, safe='')}")["vector"])
    assert name not in [other for other, _ in neighbours(tab)]
    assert tab.ask("document.querySelectorAll('img, svg, script').length") == 1
    assert tab.ask("document.documentElement.scrollWidth <= innerWidth")
    assert tab.complaints == tab.dialogs == []


def move_hostile(served):
    """Make all hostile ids move, so that they are in the lists."""
    for name in HOSTILE:
        served.post([{"src": name, "dst": "hub"}])


def test_hostile_ids_among_those_that_moved_are_text(tab, served):
    one = served["string"]
    show(tab, one)
    move_hostile(one)
    tab.wait(f"[...byId('moved').children].some((row) => row.firstChild.textContent === {json.dumps(IMAGE)})")
    choose(tab, "hub")
    time.sleep(0.5)
    assert tab.ask("document.querySelectorAll('img, svg, script').length") == 1
    assert tab.complaints == tab.dialogs == []


MARKUP = PAGE.replace("found.textContent = text;", "found.innerHTML = text;")


def test_ids_as_markup_would_be_noticed(tab, served):
    assert MARKUP != PAGE
    one = served["string"]
    tab.replace(f"{one.address}/", MARKUP.encode(), {})
    show(tab, one)
    move_hostile(one)
    tab.wait("document.querySelectorAll('img').length > 0")
    until = time.monotonic() + 20
    while not tab.dialogs and time.monotonic() < until:
        tab.ask("1")
    assert "1" in tab.dialogs


def test_the_rules_alone_stop_ids_as_markup(tab, served):
    one = served["string"]
    tab.replace(f"{one.address}/", MARKUP.encode(), page_rules(MARKUP.encode()))
    tab.go(f"{one.address}/")
    tab.ask("new Promise((done) => setTimeout(done, 1500))")
    assert tab.ask("document.querySelectorAll('img, svg').length") == 0
    assert tab.dialogs == []
    assert any("TrustedHTML" in one for one in tab.complaints)


def test_another_script_is_not_run(tab, served):
    one = served["string"]
    with_more = PAGE.replace("</main>", "</main><script>window.ran = 1</script><p onclick='ran = 2'>", 1)
    tab.replace(f"{one.address}/", with_more.encode(), page_rules(PAGE.encode()))
    show(tab, one)
    tab.ask("[...document.querySelectorAll('p')].pop().click()")
    assert tab.ask("window.ran") is None
    assert any("Content Security Policy" in one for one in tab.complaints)


@pytest.mark.parametrize("name", LARGE)
def test_large_ids_are_not_rounded(tab, served, name):
    one = served["int64"]
    show(tab, one)
    assert tab.ask("[...points.keys()]") == [str(point["id"]) for point in one.get("map")["points"]]
    choose(tab, name)
    assert neighbours(tab) == expected(one, name)
    one.post([{"src": name, "dst": 10**9 + abs(name) % 1000}])
    tab.wait(f"last.some((one) => one.id === '{name}')")
    tab.wait(f"[...byId('moved').children].some((row) => row.firstChild.value === '{name}')")
    assert tab.complaints == []


def test_rounded_ids_would_be_noticed(tab, served):
    one = served["int64"]
    rounding = PAGE.replace("return JSON.parse(text.replace(", "return JSON.parse(text); (text.replace(")
    assert rounding != PAGE
    tab.replace(f"{one.address}/", rounding.encode(), {})
    show(tab, one)
    assert not tab.ask(f"points.has('{LARGE[0]}')")
    assert tab.ask(f"points.has('{LARGE[0] - 1}')")


def test_reading_json_changes_nothing_but_large_numbers(tab, served):
    show(tab, served["string"])
    kept = {
        "a": [1, -2, 1.5, 1e300, 0.1234567890123456789, 2**53 - 1, "9007199254740993", "\\", '\\"', '"id":1']
    }
    assert tab.ask(f"JSON.stringify(parse({json.dumps(json.dumps(kept))}))") == tab.ask(
        f"JSON.stringify({json.dumps(kept)})"
    )
    text = '{"id":9007199254740993,"b":[-9223372036854775808, 12],"c":"\\",9007199254740993,"}'
    assert tab.ask(f"parse({json.dumps(text)})") == {
        "id": "9007199254740993",
        "b": ["-9223372036854775808", 12],
        "c": '",9007199254740993,',
    }


def test_a_written_number_is_the_id_that_it_means(tab, served):
    show(tab, served["int64"])
    tab.write("ask", " 007 ")
    tab.wait("node.id === '7' && node.vector.length > 0")
    tab.write("ask", "seven")
    tab.wait("byId('node-says').textContent.includes('int64')")


# ---- sizes, light and motion ----------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_nothing_is_wider_than_the_window(tab, served, width):
    one = served["string"]
    show(tab, one, width, 844)
    choose(tab, HOSTILE[-2])
    move_hostile(one)
    tab.wait("byId('moved').children.length > 9")
    assert tab.ask("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    assert tab.ask("scrollTo(500, 0), scrollX") == 0
    boxes = "[...document.querySelectorAll('section')].map((one) => one.getBoundingClientRect().right)"
    assert max(tab.ask(boxes)) <= width
    assert tab.complaints == []


def test_it_follows_the_scheme_of_the_system(tab, served):
    back = {}
    for scheme in ("light", "dark"):
        show(tab, served["string"], scheme=scheme)
        back[scheme] = tab.ask("getComputedStyle(document.body).backgroundColor")
        assert tab.ask("paint.accent").startswith("#")
    assert back["light"] != back["dark"]


def test_nothing_moves_for_who_wants_it_so(tab, served):
    one = served["string"]
    for motion, seconds in ((True, "0.3s"), (False, "0s")):
        show(tab, one, motion=motion)
        assert tab.ask("getComputedStyle(document.querySelector('.meter > i')).transitionDuration") == seconds
        tab.ask("takeMap({ sequence: 1, nodes: 1, points: [{ id: 'p1', x: 9, y: 9 }] })")
        assert tab.ask("turned > 0") is motion


def test_it_can_be_used_without_seeing_it(tab, served):
    show(tab, served["string"])
    choose(tab, "p1")
    tree = tab.do("Accessibility.getFullAXTree")["nodes"]
    found = {(one["role"]["value"], one.get("name", {}).get("value", "")) for one in tree if "role" in one}
    assert {("textbox", "Id"), ("button", "Ask"), ("heading", "Map"), ("list", "Nearest nodes")} <= found
    assert {("meter", "Events in the queue"), ("meter", "Rows in the queue")} <= found
    assert not [
        role for role, name in found if role in ("button", "textbox", "link", "image", "meter") and not name
    ]
    live = dict(tab.ask("[...document.querySelectorAll('[aria-live]')].map((one) => [one.id, one.ariaLive])"))
    assert (live["failure"], live["lost"]) == ("assertive", "polite")
    tab.ask("byId('ask').focus()")
    assert tab.ask("getComputedStyle(byId('ask')).outlineStyle") == "solid"


# ---- who may come in, and when something is wrong -------------------------------------------------------


def test_a_service_that_goes_away_and_comes_back(tab, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    one = Served(tmp_path / "graph")
    try:
        show(tab, one)
        choose(tab, 3)
        one.post([{"src": 3, "dst": 4}])
        port = urlsplit(one.address).port
        one.stop()
        tab.wait("byId('lost').textContent.includes('cannot be reached')")
        assert tab.ask("document.body.classList.contains('stale')")
        assert tab.text("state") == "not reached"
        tab.ask("choose('5')")
        tab.wait("byId('node-shown').hidden && byId('node-says').textContent.startsWith('No answer')")
        one = Served(tmp_path / "graph", port)
        tab.wait("byId('lost').textContent === '' && byId('state').textContent === 'taking events'")
        tab.wait("node.vector.length > 0 && !byId('node-shown').hidden")
        assert neighbours(tab) == expected(one, 5)
        one.post([{"src": 3, "dst": 99}])
        tab.wait("[...byId('moved').children].some((row) => row.firstChild.value === '99')")
        tab.wait(f"byId('sequence').textContent === '{one.get('status')['sequence']}'")
    finally:
        one.stop()


def test_a_token_in_the_address_opens_the_page(tab, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    secret, token = new_token("people", ["read"])
    listed = f'[[tokens]]\nname = "people"\nsha256 = "{token.sha256}"\nscopes = ["read"]\n'
    (tmp_path / "tokens.toml").write_text(listed)
    one = Served(tmp_path / "graph", 0, "--tokens", str(tmp_path / "tokens.toml"))
    try:
        tab.go(one.address.replace("//", f"//me:{secret}@") + "/")
        tab.wait("points.size === 30")
        choose(tab, 3)
        assert tab.complaints == []
        assert not [request for request in tab.requests[1:] if secret in request]
    finally:
        one.stop()


def test_a_disk_that_cannot_be_written_is_told_in_red(tab, tmp_path):
    dygcn.fit([(i, (i * 7 + 1) % 30) for i in range(30)], dim=8).save(tmp_path / "graph")
    one = Served(tmp_path / "graph")
    try:
        one.post([{"src": 1, "dst": 2}])
        show(tab, one)
        assert tab.ask("getComputedStyle(byId('failure')).display") == "none"
        resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (1, 1))
        with pytest.raises(urllib.error.HTTPError):
            one.post([{"src": 1, "dst": 5}])
        tab.wait("byId('failure').textContent.startsWith('Events are not taken: ')")
        assert tab.ask("getComputedStyle(byId('failure')).display") == "block"
        assert tab.text("state") == "not taking events"
        assert tab.ask("document.title") == "dygcn: not taking events"
        choose(tab, 3)
        assert neighbours(tab) == expected(one, 3)
    finally:
        one.process.kill()
        one.stop()


def test_a_feed_that_is_full_is_replaced_by_the_status(tab, served):
    one = served["string"]
    place = urlsplit(one.address)
    stream = f"GET /changes HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: text/event-stream\r\n\r\n"
    tab.go("data:text/html,")
    one.post([{"src": "p1", "dst": "p29"}])  # lets go of pages that were closed while they waited
    time.sleep(0.5)
    with ExitStack() as others:
        answer = b""
        while answer != b"HTTP/1.1 429":
            other = others.enter_context(socket.create_connection((place.hostname, place.port), timeout=60))
            other.sendall(stream.encode())
            answer = other.recv(12)
        show(tab, one)
        tab.wait("performance.getEntriesByType('resource').some((one) => one.responseStatus === 429)")
        one.post([{"src": "p1", "dst": "p30"}])
        told = [str(name) for name in one.get("status")["moved_last"]]
        names = "[...byId('moved').children].map((row) => row.firstChild.value)"
        tab.wait(f"{names}.length > 0")
        assert set(tab.ask(names)) <= set(told)
        assert tab.ask("following") is False
    one.post([{"src": "p1", "dst": "p31"}])
    tab.wait("following")
