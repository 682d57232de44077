"""The studio in a real browser: time of a what-if, size and speed of the first page, findings.

``python -m benchmarks studio`` needs chromium and chromedriver; the accessibility findings are
those of axe-core, which `make lint` installs where there is npm.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import stationary as st
from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording

AXE = Path(__file__).parents[1] / "build/node/node_modules/axe-core/axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

# Moves the servers and the speed as a person does, and waits for the curve of each before the next.
CHANGES = """
const done = arguments[arguments.length - 1];
const took = [];
for (let k = 0; k < 60; k += 1) {
  const [name, value] = k % 2 ? ['faster', 0.5 + k / 40] : ['servers', 1 + (k / 2) % 4];
  const field = document.getElementById(name);
  field.value = value;
  delete document.body.dataset.took;
  const began = performance.now();
  field.dispatchEvent(new Event('input'));
  while (!document.body.dataset.took) await new Promise(requestAnimationFrame);
  took.push(performance.now() - began);
}
done(took);
"""

FIRST = """
const entries = performance.getEntries().filter(each => each.transferSize);
const page = entries.filter(each => !each.name.includes('/api/'));
const answered = performance.getEntriesByType('navigation')[0].responseStart;
return [page.reduce((sum, each) => sum + each.transferSize, 0),
        performance.getEntriesByName('first curve')[0].startTime - answered];
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "demo")
        seen = recording(latencies=True).between(None, LIGHT).observing(OBSERVED)
        plan = st.plan(seen, servers=1, capacity=CAPACITY, slo=["loss<0.1%", "p99<8ms"])
        plan.save(place)
        command = "from stationary.cli import main; main()"
        options = ["--no-browser", "-o", str(Path(folder, "new"))]
        with subprocess.Popen(
            [sys.executable, "-c", command, "studio", str(place), *options],
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            try:
                address = re.search(r"http://\S+", server.stdout.readline())[0]
                with browser(folder) as chrome:
                    measure(chrome, address, server.pid)
            finally:
                server.terminate()


def browser(folder):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("headless=new", "no-sandbox", "disable-gpu", f"user-data-dir={folder}/profile"):
        options.add_argument(f"--{flag}")
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def measure(chrome, address, server):
    chrome.set_script_timeout(300)
    firsts = []
    for _ in range(5):
        chrome.execute_cdp_cmd("Network.clearBrowserCache", {})
        chrome.get(f"{address}plans/demo/answer")
        while not chrome.execute_script(
            "return performance.getEntriesByName('first curve').length"
        ):
            time.sleep(0.05)
        firsts.append(chrome.execute_script(FIRST))
    size, first = np.median(firsts, 0)
    print(
        f"first page: {size / 1000:.0f} kB; its first curve stands {first:.0f} ms after the answer"
    )
    chrome.get(f"{address}plans/demo/what-if")
    while not chrome.find_elements("css selector", "path.band"):
        time.sleep(0.05)
    before = processor_time(server)
    took = chrome.execute_async_script(CHANGES)
    spent = (processor_time(server) - before) / len(took)
    p50, p95 = np.percentile(took, [50, 95])
    print(f"what-if, from the change to its curve: median {p50:.0f} ms, 95 % within {p95:.0f} ms")
    print(f"of it, processor time of the server: {1000 * spent:.0f} ms")
    if AXE.exists():
        print(f"accessibility findings on 6 pages: {findings(chrome, address)}")


def processor_time(process):
    """Seconds that a process has used, its children left out."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def findings(chrome, address):
    found = 0
    for page in ("answer", "what-if", "data", "models", "checks", "new"):
        chrome.get(address + ("new" if page == "new" else f"plans/demo/{page}"))
        time.sleep(3)
        chrome.execute_script(AXE.read_text(encoding="utf-8"))
        found += chrome.execute_async_script(
            f"const done = arguments[arguments.length - 1];"
            f"axe.run({{runOnly: {json.dumps(TAGS)}}}).then(r => done(r.violations.length));"
        )
    return found
