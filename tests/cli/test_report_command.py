"""``stationary report``: from a saved run to a file, and what it prints."""

import math
from dataclasses import replace

import pytest

from reports import Page, no_pictures, small_fit


@pytest.fixture(scope="module")
def fit():
    return small_fit()


@pytest.fixture(scope="module")
def run(fit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit.save(folder)
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    no_pictures(monkeypatch)


def test_writes_the_report_and_prints_the_answer(call, fit, run, tmp_path):
    output = tmp_path / "r.html"
    limit = fit.max_load(loss=0.01)
    present = 0.5 * limit.load
    arguments = ["report", run, "-o", output, "--slo", "loss<0.01", "--present", present]
    code, out, err = call(*arguments)
    assert (code, err) == (0, "")
    said, headroom, wrote = out.splitlines()
    shown = replace(limit, present=math.nan, reason="")
    assert said == f"L{str(shown)[1:]}."
    assert "may grow by 100%" in headroom
    assert wrote == f"Wrote {output}."
    page = Page(output.read_text(encoding="utf-8"))
    assert page.text("h1") == said
    assert headroom in page.text("answer")
    made = f"stationary report {run} -o {output} --slo 'loss<0.01' --present {present}"
    assert page.text("pre") == made


def test_a_report_is_replaced(call, run, tmp_path):
    output = tmp_path / "r.HTML"
    output.write_text("old")
    code, out, _ = call("report", run, "-o", output, "--level", 0.5)
    assert code == 0
    assert "(50% interval" in out
    assert "<h1>" in output.read_text(encoding="utf-8")


def test_a_limit_that_is_missed_is_exit_code_1(call, run, tmp_path):
    arguments = ["report", run, "-o", tmp_path / "r.html", "--present", 500]
    code, out, _ = call(*arguments, "--slo", "loss<0.01")
    assert code == 1
    assert "is over the limit by" in out
    assert (tmp_path / "r.html").exists()
    assert call(*arguments)[0] == 0  # nobody asked for a limit


def test_a_fit_that_did_not_converge_is_exit_code_1(call, fit, tmp_path):
    replace(fit, converged=False, message="out of steps").save(tmp_path / "run")
    code, out, _ = call("report", tmp_path / "run", "-o", tmp_path / "r.html")
    assert code == 1
    assert "cannot be said to meet the limit" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "report.pdf"], "a report is HTML; give the file the ending .html"),
        (["-o", "nowhere/r.html"], "the report cannot be written: No such file or directory"),
        (["--slo", "loss"], "a limit is written measure<bound"),
        (["--slo", "delay<1"], "the model has no measure 'delay'"),
        (["--present", "-3"], "the present load must be positive and finite; got -3.0"),
        (["--level", "95"], "level must lie between 0 and 1"),
    ],
)
def test_bad_input_is_one_message(call, run, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("report", run, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_no_run_no_report(call, tmp_path):
    code, _, err = call("report", tmp_path / "none", "-o", tmp_path / "r.html")
    assert code == 2
    assert "none" in err


def test_the_ladder_is_fitted_once_or_not_at_all(call, run, tmp_path, monkeypatch):
    from stationary.report import models

    calls = []
    monkeypatch.setattr(models, "compare", lambda *given, **more: calls.append(given))
    assert call("report", run, "-o", tmp_path / "r.html", "--no-compare")[0] == 0
    assert calls == []
    assert call("report", run, "-o", tmp_path / "r.html")[0] == 0
    assert len(calls) == 1
    code, _, err = call("report", run, "-o", tmp_path / "r.pdf")
    assert (code, len(calls)) == (2, 1)
    assert "a report is HTML" in err


def test_a_report_of_a_what_if_says_what_it_can(fit, tmp_path):
    fit.what_if(capacity=3).report(tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "what if: capacity" in page.text("aside").lower()
    assert "No checks were run" in page.text("checks")
