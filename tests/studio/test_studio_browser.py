"""The studio in a real browser: Chromium, without a window, driven by Selenium."""

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("selenium")  # part of the dev extra; users of the library do without

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait
from studios import log_of, running

import stationary as st

pytestmark = pytest.mark.slow

PAGES = ["answer", "what-if", "data", "models", "checks"]


@pytest.fixture(scope="module")
def studio(plan, tmp_path_factory):
    saved = tmp_path_factory.mktemp("plans") / "checkout"
    plan.save(saved)
    with running(saved, output=tmp_path_factory.mktemp("studio")) as started:
        yield started


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser of our own, with a profile that nobody used before."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        missing = "chromium and chromedriver are not installed"
        if os.environ.get("CI_REQUIRES_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    downloads = tmp_path_factory.mktemp("downloads")
    for flag in (
        *("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "disable-dev-shm-usage"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(f"--{flag}")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver)) as opened:
        opened.downloads = downloads
        yield opened


@pytest.fixture
def page(browser, studio):
    """Open a page; afterwards the console is empty and nothing outside was asked for."""

    def open_page(path, width=1200, height=900, scheme="light"):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
        browser.get(studio.address + path)
        return browser

    browser.get_log("browser"), browser.get_log("performance")
    yield open_page
    errors = [each for each in browser.get_log("browser") if "status of 400" not in each["message"]]
    assert errors == []
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [
        each["params"]["request"]["url"]
        for each in asked
        if each["method"] == "Network.requestWillBeSent"
    ]
    outside = [u for u in urls if not u.startswith((studio.address, "data:", "chrome:", "blob:"))]
    assert outside == []


def wait(browser, condition, seconds=90):
    return WebDriverWait(browser, seconds, 0.1).until(lambda _: condition())


def text(browser, name):
    return browser.find_element(By.ID, name).text


def answered(browser):
    """Wait until the sentence with its interval stands, and the bands are drawn."""
    wait(browser, lambda: "interval" in text(browser, "answer"))
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "path.band"))


def settled(browser, name):
    """Wait until all that a page asks for is there."""
    if name == "answer":
        answered(browser)
    last = {"what-if": "path.band", "data": "#windows tr"}.get(name, "main h1")
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, last))


def limit_of(browser):
    """Return the limit that the page shows, of three digits."""
    shown = "return document.querySelector('#facts dd')?.textContent ?? 'nan'"
    return float(browser.execute_script(shown))


def test_the_answer_of_the_plan(page, plan):
    browser = page("")
    answered(browser)
    assert browser.current_url.split("?")[0].endswith("plans/checkout/answer")
    assert limit_of(browser) == pytest.approx(plan.limit.load, rel=4e-3)
    rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#reading tr")]
    assert len(rows) == 8  # every measure
    assert all(" to " in row for row in rows)
    assert len(browser.find_elements(By.CSS_SELECTOR, "path.band")) == 4  # loss, p50, p95, p99
    ends = [number["aria-valuetext"] for number in sliders(browser)]
    assert "loss < 1%" in ends
    assert "p99 < 800 ms" in ends


def test_windows_without_a_loss_lie_on_the_edge_of_the_chart(page, plan):
    browser = page("plans/checkout/answer")
    answered(browser)
    places = browser.execute_script("""
        const chart = document.querySelector('#chart-0-clip').closest('svg');
        const edge = Number(chart.querySelector('.axis[x2][y1]').getAttribute('y1'));
        return [...chart.querySelectorAll('circle')].map(
            each => Number(each.getAttribute('cy')) - edge)
    """)
    measured = plan.windows.counts[:, -1] > 0
    assert max(places) == 0
    assert 0 < sum(place < 0 for place in places) <= int(measured.sum())


def sliders(browser):
    script = """return [...document.querySelectorAll('[role=slider]')].map(each =>
        Object.fromEntries([...each.attributes].map(a => [a.name, a.value])))"""
    return browser.execute_script(script)


def test_a_bound_is_dragged_and_the_limit_follows(page, plan):
    browser = page("plans/checkout/answer")
    answered(browser)
    grip = browser.find_element(By.CSS_SELECTOR, "[aria-label='Bound on loss'] .grip")
    ActionChains(browser).drag_and_drop_by_offset(grip, 0, -30).perform()
    # The headline follows the curves at once; the server's sentence comes after it.
    wait(browser, lambda: browser.find_element(By.ID, "slo-loss").get_attribute("value") != "1%")
    bound = browser.find_element(By.ID, "slo-loss").get_attribute("value")
    expected = plan.max_load(f"loss<{bound}", "p99<800ms").load
    assert float(bound.rstrip("%")) > 1.5
    wait(browser, lambda: limit_of(browser) == pytest.approx(expected, rel=4e-3))
    assert f"slo=loss%3C{bound.replace('%', '%25')}" in browser.current_url
    # The address is the view: another tab shows the same.
    browser.get(browser.current_url)
    answered(browser)
    assert browser.find_element(By.ID, "slo-loss").get_attribute("value") == bound
    assert limit_of(browser) == pytest.approx(expected, rel=4e-3)


def test_while_a_bound_moves_the_curves_tell_the_limit_that_the_server_confirms(page):
    browser = page("plans/checkout/answer?slo=loss%3C1%25")
    answered(browser)
    exact = limit_of(browser)
    handle = browser.find_element(By.CSS_SELECTOR, "[aria-label='Bound on loss']")
    handle.send_keys(Keys.ARROW_UP, Keys.ARROW_DOWN)
    words = text(browser, "answer").split()
    told = float(words[words.index("to") + 1])
    assert told == pytest.approx(exact, rel=0.02)


def test_the_load_cursor_reads_every_measure(page, plan):
    browser = page("plans/checkout/answer")
    answered(browser)
    box = browser.find_element(By.ID, "load")
    box.clear()
    box.send_keys("16", Keys.ENTER)
    row = plan.forecast([16.0], measures=["loss"]).iloc[0]
    shown = browser.find_element(By.CSS_SELECTOR, "#reading tr td:nth-child(2)").text
    assert float(shown.rstrip("%")) == pytest.approx(100 * row["loss"], rel=0.05)
    assert "load=16" in browser.current_url


def test_a_what_if_shows_its_curve_and_then_its_interval(page, plan):
    browser = page("plans/checkout/what-if")
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "path.band"))
    browser.find_element(By.ID, "dies").click()
    wait(browser, lambda: "instead of 2" in text(browser, "answer"))
    assert "servers=1" in browser.current_url
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "path.band.accent"))
    assert browser.find_elements(By.CSS_SELECTOR, "path.line.before")
    assert limit_of(browser) == pytest.approx(plan.what_if(servers=1).limit.load, rel=4e-3)
    box = browser.find_element(By.ID, "patience")
    box.send_keys("500 ms", Keys.ENTER)
    expected = plan.what_if(servers=1, patience=0.5).limit.load
    wait(browser, lambda: limit_of(browser) == pytest.approx(expected, rel=4e-3))
    apart = browser.execute_script("""
        return [...document.querySelectorAll('svg')].flatMap(chart => {
            const [one, other] = [...chart.querySelectorAll('text.name')].map(
                each => each.getBoundingClientRect().top);
            return Math.abs(one - other);
        })
    """)
    assert min(apart) > 11


def test_what_must_hold_stays_on_the_way_to_another_page(page, plan):
    browser = page("plans/checkout/answer")
    answered(browser)
    box = browser.find_element(By.ID, "slo-p99")
    box.clear()
    box.send_keys("600 ms", Keys.ENTER)
    expected = plan.max_load("loss<1%", "p99<600ms").load
    wait(browser, lambda: limit_of(browser) == pytest.approx(expected, rel=4e-3))
    browser.find_element(By.LINK_TEXT, "What if").click()
    wait(browser, lambda: limit_of(browser) == pytest.approx(expected, rel=4e-3))


def test_no_bound_a_wrong_bound_and_no_server_get_a_sentence(page):
    browser = page("plans/checkout/answer")
    answered(browser)
    for name in ("slo-loss", "slo-p99"):
        box = browser.find_element(By.ID, name)
        box.clear()
        box.send_keys(Keys.ENTER)
    assert "Set a bound" in text(browser, "answer")
    assert browser.find_elements(By.CSS_SELECTOR, "#facts dd") == []
    box.send_keys("soon", Keys.ENTER)
    assert "soon is not a bound" in text(browser, "slo-error")
    box.clear()
    box.send_keys("200", Keys.ENTER)
    assert "200 has no unit" in text(browser, "slo-error")
    assert "Set a bound" in text(browser, "answer")
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    try:
        box.clear()
        box.send_keys("500 ms", Keys.ENTER)
        wait(browser, lambda: "is it still running?" in text(browser, "slo-error"))
    finally:
        online = {**offline, "offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", online)
        browser.get_log("browser")


def test_windows_are_left_out_and_the_plan_is_computed_again(page, plan, studio):
    browser = page("plans/checkout/data")
    wait(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "#windows tr")) > 5)
    for place in ("loads", "over-time", "over-load"):
        assert len(browser.find_elements(By.CSS_SELECTOR, f"#{place} circle")) == len(plan.windows)
    about = "return document.querySelector('#loads title').textContent"
    assert browser.execute_script(about).startswith("Window 1, load 4.")
    browser.find_element(By.CSS_SELECTOR, "#windows input").click()
    start = browser.find_element(By.ID, "start")
    assert start.text == "Plan again without 1 window"
    start.click()
    wait(browser, lambda: "…" in text(browser, "progress"))
    wait(browser, lambda: "/answer" in browser.current_url, 200)
    name = browser.current_url.split("/plans/")[1].split("/")[0]
    assert len(st.load(studio.output / name).windows) == len(plan.windows) - 1


def test_from_an_upload_to_the_report(page, tmp_path):
    browser = page("new")
    browser.find_element(By.ID, "file").send_keys(str(log_of(tmp_path)))
    wait(browser, lambda: browser.find_element(By.ID, "form").is_displayed())
    assert len(browser.find_elements(By.CSS_SELECTOR, "#rows tbody tr")) == 6
    chosen = browser.execute_script("return document.getElementById('column-arrival').value")
    assert chosen == "arrival"
    for name, value in (("servers", "2"), ("capacity", "12"), ("title", "From a browser")):
        browser.find_element(By.ID, name).send_keys(value)
    browser.find_element(By.ID, "start").click()
    wait(browser, lambda: browser.find_element(By.ID, "cancel").is_displayed())
    wait(browser, lambda: "left out" in text(browser, "notes"))
    wait(browser, lambda: "plans/from-a-browser/answer" in browser.current_url, 200)
    answered(browser)
    browser.find_element(By.PARTIAL_LINK_TEXT, "Report").click()
    report = Path(browser.downloads, "report.html")
    wait(browser, report.exists, 120)
    assert "Capacity report" in report.read_text() or "From a browser" in report.read_text()


def test_a_plan_in_the_making_is_found_again_and_cancelled(page):
    browser = page("plans/checkout/data")
    wait(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "#windows tr")) > 5)
    browser.find_element(By.CSS_SELECTOR, "#windows input").click()
    browser.find_element(By.ID, "start").click()
    wait(browser, browser.find_element(By.ID, "cancel").is_displayed)
    page("new")
    cancel = browser.find_element(By.ID, "cancel")
    wait(browser, cancel.is_displayed)
    cancel.click()
    wait(browser, lambda: text(browser, "error") == "Cancelled.")
    assert not cancel.is_displayed()


def test_a_bad_upload_says_so_and_the_next_one_is_taken(page, tmp_path):
    browser = page("new")
    packed = tmp_path / "logs.zip"
    packed.write_bytes(b"PK\x03\x04" + b"\0" * 99)
    box = browser.find_element(By.ID, "file")
    box.send_keys(str(packed))
    wait(browser, lambda: "logs.zip" in text(browser, "error"))
    assert not browser.find_element(By.ID, "form").is_displayed()
    good = tmp_path / "good.csv"
    good.write_text("arrival,response\n" + "".join(f"{k},0.1\n" for k in range(99)))
    box.send_keys(str(good))
    wait(browser, lambda: browser.find_element(By.ID, "form").is_displayed())
    assert text(browser, "error") == ""


def test_the_keyboard_alone(page, plan):
    browser = page("plans/checkout/answer")
    answered(browser)
    seen = []
    for _ in range(30):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        active = browser.switch_to.active_element
        name = active.get_attribute("aria-label") or active.get_attribute("id") or active.text
        seen.append(name)
        if name == "Bound on loss":
            ActionChains(browser).send_keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.PAGE_DOWN).perform()
    assert seen[0] == "Skip to the content"
    wanted = ["Answer", "What if", "Bound on loss", "Load", "Bound on p99", "slo-loss", "load"]
    assert [name for name in seen if name in wanted][: len(wanted)] != []
    assert set(wanted) <= set(seen)
    bound = browser.find_element(By.ID, "slo-loss").get_attribute("value")
    assert 0 < float(bound.rstrip("%")) < 1
    expected = plan.max_load(f"loss<{bound}", "p99<800ms").load
    wait(browser, lambda: limit_of(browser) == pytest.approx(expected, rel=4e-3))
    focus = browser.execute_script("""
        const grip = document.querySelector('[aria-label="Bound on loss"] .grip');
        grip.parentNode.focus({focusVisible: true});
        return getComputedStyle(grip).strokeWidth;
    """)
    assert focus == "4px"


@pytest.mark.parametrize("name", [*PAGES, "new"])
def test_a_phone_does_not_scroll_sideways(page, name):
    path = "new" if name == "new" else f"plans/checkout/{name}"
    browser = page(path, 360, 740)
    settled(browser, name)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 360
    small = browser.execute_script("""
        return [...document.querySelectorAll('svg text')].map(
            text => parseFloat(getComputedStyle(text).fontSize)).filter(size => size < 11)
    """)
    assert small == []


@pytest.fixture(scope="module")
def axe():
    """The source of axe-core, which `make lint` installs with npm."""
    build = Path(__file__).parents[2] / "build" / "node"
    file = build / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        missing = "axe-core is not installed: run `make lint` where there is npm"
        if os.environ.get("CI_REQUIRES_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [*PAGES, "new"])
def test_nothing_hinders_anybody(page, axe, name, scheme):
    browser = page("new" if name == "new" else f"plans/checkout/{name}", scheme=scheme)
    settled(browser, name)
    browser.execute_script(axe)
    found = browser.execute_async_script("""
        const done = arguments[arguments.length - 1];
        const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
        axe.run({runOnly: tags}).then(result => done(result.violations.map(
            each => [each.id, each.help, each.nodes.map(node => node.html)])));
    """)
    assert found == []


def test_the_first_page_is_small_and_its_curve_stands_at_once(page, browser):
    browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    page("plans/checkout/answer")
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "path.line"))
    sizes = browser.execute_script("""
        return performance.getEntries().filter(each => each.transferSize && !each.name.includes(
            '/api/')).map(each => each.transferSize)
    """)
    assert 10_000 < sum(sizes) < 200_000
