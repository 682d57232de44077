"""The README and the pages of docs/ are run as a reader would run them."""

import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page, "python")), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "bash")], ids=lambda p: p.name)
def test_commands_run_in_order(page, tmp_path, monkeypatch, call):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for line in "".join(blocks(page, "bash")).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "stationary", f"{page.name} shows a command that no test runs: {line}"
        code, _, err = call(*arguments)
        assert code == 0, f"{line}\n{err}"


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_guarantee_names_tests_that_exist():
    files = list((ROOT / "tests").rglob("test_*.py"))
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    page = (ROOT / "tests" / "guarantees.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+(?:\.py)?)`", page))
    assert len(named) > 300
    assert named <= {*re.findall(r"def (test_\w+)", text), *(file.name for file in files)}


def test_every_file_of_tests_holds_a_guarantee():
    page = (ROOT / "tests" / "guarantees.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+(?:\.py)?)`", page))
    without = [
        file.name
        for file in (ROOT / "tests").rglob("test_*.py")
        if not named & {file.name, *re.findall(r"def (test_\w+)", file.read_text("utf-8"))}
    ]
    assert without == []
