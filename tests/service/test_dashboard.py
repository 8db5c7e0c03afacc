"""The dashboard: what is served, and what somebody sees who looks at it with a browser."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from importlib.resources import files

import httpx
import numpy as np
import pytest

from discreet import live
from discreet.client import Client
from discreet.errors import InvalidInput
from discreet.service.access import KeyFile
from discreet.service.endpoints import ENDPOINTS
from discreet.service.pages import PAGES
from tests.live.people import MDP, WORLD, config
from tests.service.browser import chromium
from tests.service.conftest import until

DASHBOARD = files("discreet.service").joinpath("dashboard")
NAMES = sorted(each.name for each in DASHBOARD.iterdir())
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
#: What a viewer's key opens, and so all that the page may ask for.
LOOKS = r"/v1/(deployments(/steps/(statement|plans/\d+))?|ledger)"
#: How much of the page has moved by itself since it was loaded.
SHIFTS = """
const [wait, done] = arguments;
let sum = 0;
const add = list => list.getEntries().forEach(entry => { if (!entry.hadRecentInput) sum += entry.value; });
new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
setTimeout(() => done(sum), wait);
"""


class Seen(HTMLParser):
    """Collects what a page loads, and whatever the policy would refuse."""

    def __init__(self):
        super().__init__()
        self.loads, self.inline, self.inside = [], [], None

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.loads += [given[name] for name in ("src", "href") if name in given and tag in ("script", "link", "img")]
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        self.inside = tag

    def handle_data(self, data):
        if self.inside in ("script", "style") and data.strip():
            self.inline.append(data)


def test_pages_are_served_with_a_policy_that_they_keep(deployed):
    service = deployed()
    with httpx.Client(base_url=service.url) as http:
        for path in ("/", "/api", *(f"/static/{name}" for name in NAMES)):
            found = http.get(path)
            name = {"/": "index.html", "/api": "api.html"}.get(path, path.rpartition("/")[2])
            assert found.status_code == 200, path
            assert found.headers["content-type"] == f"{KINDS[name.rpartition('.')[2]]}; charset=utf-8"
            policy = found.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert found.headers["x-content-type-options"] == "nosniff"
            assert found.content == DASHBOARD.joinpath(name).read_bytes()
        for path in ("/static/none.js", "/static/..%2fapp.py", "/static/app.py", "/static/.html"):
            assert http.get(path).status_code == 404


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".html")])
def test_pages_load_their_own_files_only(name):
    seen = Seen()
    seen.feed(DASHBOARD.joinpath(name).read_text())
    assert not seen.inline
    assert seen.loads
    assert {each.removeprefix("/static/") for each in seen.loads} <= set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith((".js", ".css"))])
def test_scripts_reach_no_other_place_and_put_in_text_only(name):
    text = DASHBOARD.joinpath(name).read_text()
    assert "://" not in text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|@import", text)
    assert len(text.splitlines()) <= 300


def test_the_pages_are_routes():
    assert [route.path for route in PAGES] == ["/", "/api", "/static/{name}", "/openapi.json"]


@pytest.mark.parametrize(
    "labels",
    [{"actions": ["one"]}, {"states": "abc"}, {"actions": ["", "b"]}, {"actions": ["a", 2]}, {"steps": []}, ["a"]],
)
def test_labels_are_one_for_each(labels):
    world = {**WORLD, "labels": {"states": ["a", "b", "c"], "actions": ["left", "right"]}}
    assert live.read(config(world=world)).to_document()["world"] == world
    with pytest.raises(InvalidInput, match=r"world\.labels"):
        live.read(config(world={**WORLD, "labels": labels}))


class Looked:
    """A browser that looks at a service."""

    def __init__(self, browser, url):
        self.browser, self.url = browser, url

    def js(self, code, *given):
        return self.browser.execute_script(code, *given)

    def text(self, name):
        return self.js("return document.getElementById(arguments[0])?.textContent", name)

    def click(self, name):
        self.browser.find_element("id", name).click()

    def visible(self, name):
        return self.browser.find_element("id", name).is_displayed()

    def enter(self, key):
        field = until(lambda: self.visible("key") and self.browser.find_element("id", "key"))
        field.send_keys(key)
        field.submit()

    def picture(self):
        """Returns the actions that are drawn, (H, S), and which of them are marked as changed."""
        rows = self.js(
            "return [...document.querySelectorAll('#picture tbody tr')].map(tr => "
            "[...tr.querySelectorAll('td')].map(td => [td.textContent, td.classList.contains('changed')]))"
        )
        return [np.array([[cell[i] for cell in row] for row in rows]).T.astype(int).tolist() for i in (0, 1)]

    def colours(self):
        """Returns which action has which colour in the picture."""
        cells = self.js(
            "return [...document.querySelectorAll('#picture td')].map(td => "
            "[td.textContent, getComputedStyle(td).backgroundColor])"
        )
        return {tuple(each) for each in cells}

    def size(self, width):
        given = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", given)

    def network(self, offline):
        given = {"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.browser.execute_cdp_cmd("Network.emulateNetworkConditions", given)

    def asked(self):
        """Returns where the page has sent requests since this was last asked."""
        found = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        sent = [each["params"]["request"]["url"] for each in found if each["method"] == "Network.requestWillBeSent"]
        return [each for each in sent if not each.startswith(("data:", "blob:", "chrome"))]

    def complaints(self):
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture
def looked(tmp_path):
    """Opens a browser at a URL."""
    folder = tmp_path / "browser"
    folder.mkdir()
    browser = chromium(folder)

    def at(url):
        browser.get(url)
        return Looked(browser, url)

    yield at
    browser.quit()


@pytest.fixture
def service(deployed, tmp_path):
    """A service with a deployment, a viewer's key and a client's."""
    keys = KeyFile(tmp_path / "keys.json")
    found = {scope: keys.add([scope]) for scope in ("viewer", "client")}
    world = {**WORLD, "labels": {"actions": ["rest", "swim"]}}
    return deployed("dp-ucbvi", "--keys", "keys.json", simulation=True, seed=1, world=world), found


def changed(now, before):
    return (np.array(now["rest"]) != np.array(before["rest"])).astype(int).tolist()


def test_a_viewer_sees_the_policy_change_when_a_batch_closes(service, looked):
    """A real browser, with a key that opens viewer endpoints only, stays on the page while people come."""
    running, keys = service
    page = looked(running.url)
    page.enter(keys["viewer"])
    until(lambda: page.visible("frame") and page.text("shown-version") == "0")
    assert page.text("name") == "steps"
    assert page.text("epsilon") == "ε = 1"
    assert (page.text("issued"), page.text("slots")) == ("0", "5")
    assert "Nothing is learned yet" in page.text("policy-says")
    assert "rest" in page.text("legend") or "swim" in page.text("legend")
    page.js("document.querySelector('#picture td').dataset.mine = 'kept'; document.getElementById('who').focus()")
    rng, marks = np.random.default_rng(0), 0
    with Client(running.url, keys["client"], "steps", trusted=True) as client, running.client(keys["viewer"]) as http:
        for version in (1, 2, 3):
            for k in range(5):
                episode = client.start(person=f"{version}.{k}")
                client.report(episode, MDP.sample(episode.policy, rng))
            until(lambda version=version: page.text("shown-version") == str(version))
            plans = [http.get(f"/v1/deployments/steps/plans/{v}").json() for v in (version, version - 1)]
            until(lambda plans=plans: page.picture() == [plans[0]["rest"], changed(*plans)])
            marks += np.sum(changed(*plans))
        until(lambda: page.js("return document.querySelectorAll('#releases tbody tr').length") == 3)
        statement = http.get("/v1/deployments/steps/statement").json()
        assert marks > 0  # the seed's: else nothing was tried
    until(lambda: [len(set(part)) for part in zip(*page.colours(), strict=True)] == [2, 2])  # when they have faded over
    assert len(page.colours()) == 2
    assert page.text("words") == "".join(statement["promise"]["words"])
    assert all(line[1:] in page.text("assumptions") for line in statement["promise"]["guarantee"]["assumptions"])
    # nodes were changed in place, and the focus stayed where it was
    assert page.js("return document.querySelector('#picture td').dataset.mine") == "kept"
    assert page.js("return document.activeElement.id") == "who"
    page.click("older")
    until(lambda: page.text("shown-version") == "2")
    asked = page.asked()
    assert all(url.startswith(running.url) for url in asked)
    paths = [url.removeprefix(running.url) for url in asked if "/v1/" in url]
    assert all(re.fullmatch(LOOKS, path) for path in paths), paths
    assert page.complaints() == []


def test_the_statement_that_is_downloaded_holds(service, looked, tmp_path):
    running, keys = service
    page = looked(running.url)
    page.enter(keys["viewer"])
    until(lambda: page.visible("frame") and page.text("shown-version") == "0")
    page.js("document.getElementById('download').scrollIntoView()")
    page.click("download")
    file = tmp_path / "browser" / "steps-statement.json"
    until(file.exists)
    assert live.verify(file.read_text()).holds
    assert page.text("command") == "discreet verify steps-statement.json"


def test_dark_and_narrow(service, looked):
    running, keys = service
    page = looked(running.url)
    page.enter(keys["viewer"])
    until(lambda: page.visible("frame") and page.text("shown-version") == "0")
    colour = "return getComputedStyle(document.body).backgroundColor"
    page.size(390)
    light = page.js(colour)
    page.click("theme")
    assert page.js("return document.documentElement.dataset.theme") == "dark"
    assert page.js("return document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    assert page.js(colour) != light
    page.browser.refresh()
    until(lambda: page.visible("frame") and page.text("shown-version") == "0")
    assert page.js("return document.documentElement.dataset.theme") == "dark"
    time.sleep(4)  # longer than between two looks
    assert page.browser.execute_async_script(SHIFTS, 500) < 0.01
    for path in ("/", "/api", "/static/verify.html"):
        page.browser.get(running.url + path)
        until(lambda: page.js("return document.readyState") == "complete")
        time.sleep(0.3)
        assert page.js("return document.documentElement.scrollWidth <= innerWidth"), path
    page.browser.get(running.url + "/api")
    until(lambda: page.js("return document.querySelectorAll('.operation').length") == len(ENDPOINTS))
    assert page.complaints() == []


def test_it_is_used_with_a_keyboard_and_without_deployments(run, looked):
    from selenium.webdriver.common.keys import Keys

    running = run("serve", "--database", "memory:")
    page = looked(running.url)
    until(lambda: page.js("return document.activeElement.id") == "key")
    page.browser.switch_to.active_element.send_keys(running.key, Keys.ENTER)
    until(lambda: page.visible("nothing"))
    assert not page.visible("detail")
    assert page.js("return document.activeElement.id") == "nothing"
    page.browser.refresh()
    until(lambda: page.visible("nothing"))
    reached = []
    for _ in range(6):
        page.browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(page.js("const at = document.activeElement; return at.id || at.className || at.textContent"))
        if reached[-1] == "theme":
            break
    assert reached == ["skip", "brand", "API", "leave", "theme"]
    assert page.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.browser.switch_to.active_element.send_keys(Keys.SPACE)
    assert page.js("return document.documentElement.dataset.theme") == "dark"
    assert page.complaints() == []


def test_keys_that_do_not_open_it_are_refused_and_forgotten(service, looked):
    running, keys = service
    page = looked(running.url)
    page.enter("dk_00000000_nothing")
    until(lambda: "does not know" in page.text("wrong"))
    page.enter(keys["client"])
    until(lambda: "may not look" in page.text("wrong"))
    assert page.js("return sessionStorage.length + localStorage.length") == 0
    page.enter(keys["viewer"])
    until(lambda: page.visible("frame") and page.text("name") == "steps")
    assert page.js("return localStorage.length") == 0
    page.click("leave")
    assert page.visible("gate")
    assert page.js("return sessionStorage.length") == 0


def test_a_service_that_goes_away_is_told_and_comes_back(service, looked):
    running, keys = service
    page = looked(running.url)
    page.enter(keys["viewer"])
    until(lambda: page.visible("frame") and page.text("name") == "steps")
    page.network(offline=True)
    until(lambda: page.visible("notice") and "does not answer" in page.text("notice"))
    assert page.text("name") == "steps"  # what was known stays
    assert page.visible("frame")
    page.network(offline=False)
    until(lambda: not page.visible("notice") and page.text("pulse-says") == "live")
