"""The report in a real browser: Chromium, without a window, driven by Selenium."""

import base64
import json
import os
import re
import shutil

import pytest

pytest.importorskip("selenium")  # part of the dev extra; users of the library do without

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from reports import FINDINGS, beside, demo_fit, found, losses

pytestmark = pytest.mark.slow

EVIL = "<img src=nowhere.png onerror=\"document.title='had'\">"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with every section, and names that would like to be markup."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    fit, heavy = demo_fit()
    several = beside(fit, name=f"slowing {EVIL}")
    several = found(several, [*several.findings, *FINDINGS])
    several.report(
        path,
        present=140.0,
        observed=losses(heavy),
        command=f"stationary report run/ -o report.html {EVIL} " + 80 * "x",
    )
    return path


@pytest.fixture(scope="module")
def chrome(tmp_path_factory):
    """A browser of our own, with a profile that nobody used before."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not browser or not driver:
        missing = "chromium and chromedriver are not installed"
        if os.environ.get("CI_REQUIRES_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (
        *("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "disable-dev-shm-usage"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver)) as opened:
        yield opened


@pytest.fixture
def show(chrome, report):
    """Open the report at a width and in a colour scheme; return the browser."""

    def open_at(width, scheme="light"):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
        chrome.get(report.as_uri())
        chrome.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        return chrome

    return open_at


VISIBLE = """
return [...document.querySelectorAll('svg')].filter(svg => svg.checkVisibility()).map(svg => {
  const box = svg.getBoundingClientRect();
  const scale = box.width / svg.viewBox.baseVal.width;
  const sizes = [...svg.querySelectorAll('text')].map(
    text => scale * parseFloat(getComputedStyle(text).fontSize));
  return {width: box.width, height: box.height, right: box.right, text: Math.min(...sizes),
          ratio: svg.viewBox.baseVal.width / svg.viewBox.baseVal.height,
          family: getComputedStyle(svg.querySelector('text')).fontFamily};
});
"""


SIZES = """
return [document.documentElement.scrollWidth,
        parseFloat(getComputedStyle(document.body).fontSize),
        [...document.querySelectorAll('.scroll[tabindex="0"]')].map(
          box => [box.ariaLabel, box.scrollWidth, box.clientWidth])];
"""

TABLES = ["Forecast", "Models compared", "What the data leave open", "Parameters"]


def test_it_loads_in_silence_and_alone(show, report):
    chrome = show(1100)
    chrome.get_log("browser")
    chrome.get_log("performance")
    chrome.get(report.as_uri())
    assert chrome.title.startswith("Capacity report: Loss < 0.1% holds")
    assert chrome.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    sent = [each for each in messages if each["method"] == "Network.requestWillBeSent"]
    asked = [each["params"]["request"]["url"] for each in sent]
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    # Names are shown and not run.
    assert chrome.execute_script("return document.querySelectorAll('img, script').length") == 0
    shown = chrome.execute_script("return document.querySelector('pre').textContent")
    assert EVIL in shown


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_every_picture_is_there_and_the_page_does_not_scroll_sideways(show, width):
    chrome = show(width)
    pictures = chrome.execute_script(VISIBLE)
    assert len(pictures) == 1 + 7 + 2 + 1  # one of the two sizes of the first
    for picture in pictures:
        assert picture["width"] > 250
        assert picture["width"] / picture["height"] == pytest.approx(picture["ratio"], rel=0.02)
        assert picture["right"] <= width
        assert picture["text"] >= 8
        assert "system-ui" in picture["family"]
    page, text, tables = chrome.execute_script(SIZES)
    assert page <= width
    assert text >= 14
    shown = [label for label, _, _ in tables if label != "What if"]
    assert shown == TABLES  # keyboards reach them
    if width == 1200:
        assert all(content <= room for _, content, room in tables)
    if width == 360:
        assert any(content > room for _, content, room in tables)  # they scroll by themselves


def luminance(color):
    """Relative luminance of an rgb() colour, as WCAG defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


COLOURS = """
const style = (selector, property) =>
  getComputedStyle(document.querySelector(selector)).getPropertyValue(property);
const texts = ['body', 'h1', 'figcaption', 'th', 'td small', '.caution h2', '.checks .mark',
               '.checks .warning .mark', 'dl.facts dd', 'header'];
const line = [...document.querySelectorAll('.wide path')].find(
  path => (path.getAttribute('style') || '').includes('stroke: var(--accent)'));
return {ground: style('body', 'background-color'),
        texts: Object.fromEntries(texts.map(name => [name, style(name, 'color')])),
        axis: style('.wide text', 'fill'), line: getComputedStyle(line).stroke};
"""


def test_light_and_dark_can_be_read(show):
    grounds, lines = {}, {}
    for scheme in ("light", "dark"):
        colours = show(1100, scheme).execute_script(COLOURS)
        grounds[scheme], lines[scheme] = colours["ground"], colours["line"]
        for name, color in colours["texts"].items():
            assert contrast(color, colours["ground"]) >= 4.5, (scheme, name)
        assert contrast(colours["axis"], colours["ground"]) >= 4.5
        assert contrast(colours["line"], colours["ground"]) >= 3
    assert luminance(grounds["light"]) > 0.8
    assert luminance(grounds["dark"]) < 0.05
    assert lines["light"] != lines["dark"]


def test_it_prints_light_on_several_pages_even_in_the_dark(show):
    chrome = show(1100, "dark")
    size = {"paperWidth": 8.27, "paperHeight": 11.69}
    pdf = base64.b64decode(chrome.execute_cdp_cmd("Page.printToPDF", size)["data"])
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 10
    dark = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    colours = chrome.execute_script(COLOURS)
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert luminance(colours["texts"]["body"]) < 0.1
    assert luminance(colours["ground"]) > 0.8
