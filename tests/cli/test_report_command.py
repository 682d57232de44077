"""``stationary report``: from a saved run to a file, and what it prints."""

import errno
import json
import os
from dataclasses import replace

import pytest

from reports import Page, no_pictures, small_fit
from stationary import words
from stationary.learning import newton
from stationary.learning.estimate import End, Ended


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
    assert said == words.plan_answer(limit)
    assert "may grow by 100%" in headroom
    assert wrote == f"Wrote {output}."
    page = Page(output.read_text(encoding="utf-8"))
    assert said.startswith(page.text("h1"))
    assert headroom in page.text("answer")
    made = f"stationary report {run} -o {output} --slo 'loss<0.01' --present {present}"
    assert page.text("pre") == made


def test_a_report_is_replaced_only_when_asked(call, run, tmp_path):
    output = tmp_path / "r.HTML"
    output.write_text("old")
    code, out, err = call("report", run, "-o", output, "--level", 0.5)
    assert (code, out) == (2, "")
    assert "--overwrite" in err
    assert output.read_text(encoding="utf-8") == "old"
    code, out, _ = call("report", run, "-o", output, "--level", 0.5, "--overwrite")
    assert code == 0
    assert "(50% interval" in out
    assert "<h1>" in output.read_text(encoding="utf-8")


def test_a_limit_that_is_missed_is_exit_code_1(call, run, tmp_path):
    arguments = ["report", run, "-o", tmp_path / "r.html", "--present", 500]
    code, out, _ = call(*arguments, "--slo", "loss<0.01")
    assert code == 1
    assert "is over the limit by" in out
    assert (tmp_path / "r.html").exists()
    assert call(*arguments, "--overwrite")[0] == 0  # nobody asked for a limit


def test_a_fit_that_did_not_converge_is_exit_code_1(call, fit, tmp_path):
    ended = Ended(End.STALLED, converged=False, above=3.0)
    fit.having(fitted={fit.name: replace(fit.estimate, ended=ended)}).save(tmp_path / "run")
    args = ("report", tmp_path / "run", "-o", tmp_path / "r.html", "--present", 12)
    code, out, _ = call(*args)
    assert code == 1
    assert "cannot be said to meet the limit" in out


@pytest.fixture
def fits(monkeypatch):
    """Count the minimisations of likelihoods in this process."""
    calls = []
    minimise = newton.minimise

    def counted(*args, **options):
        calls.append(args)
        return minimise(*args, **options)

    monkeypatch.setattr(newton, "minimise", counted)
    return calls


def test_the_other_models_are_fitted_once_or_not_at_all(call, fit, fits, tmp_path):
    fit.save(tmp_path / "run")
    fits.clear()
    before = json.loads(call("forecast", tmp_path / "run", "--slo", "loss<0.1", "--json")[1])
    assert call("report", tmp_path / "run", "-o", tmp_path / "r.html", "--no-compare")[0] == 0
    code, _, err = call("report", tmp_path / "run", "-o", tmp_path / "r.pdf")
    assert (code, "ending .html" in err) == (2, True)
    assert not fits
    assert call("report", tmp_path / "run", "-o", tmp_path / "r.html", "--overwrite")[0] == 0
    assert fits
    assert "slowing" in (tmp_path / "r.html").read_text(encoding="utf-8")
    fits.clear()
    assert call("report", tmp_path / "run", "-o", tmp_path / "again.html")[0] == 0
    assert not fits
    assert "slowing" in (tmp_path / "again.html").read_text(encoding="utf-8")
    # The answers stay those of the model that was fitted.
    after = json.loads(call("forecast", tmp_path / "run", "--slo", "loss<0.1", "--json")[1])
    assert after == before


def test_a_run_that_may_only_be_read_has_a_report_all_the_same(call, fit, tmp_path, monkeypatch):
    fit.save(tmp_path / "run")

    def read_only(**_):  # root may write anywhere
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tempfile.TemporaryDirectory", read_only)
    code, out, err = call("report", tmp_path / "run", "-o", tmp_path / "r.html")
    assert code == 0
    assert "Wrote" in out
    assert "the other models are not kept" in err


def test_what_is_asked_of_a_saved_run_makes_no_fit(call, run, fits, tmp_path):
    slos = ("--slo", "loss<0.01", "--slo", "mean_queue<5")
    assert call("forecast", run, "--x", "10:30:10", *slos, "--next-experiment")[0] in (0, 1)
    assert call("forecast", run, "--x", "10:30:10", "--what-if", "servers=2", *slos)[0] in (0, 1)
    load = ("--load-expr", "sum(rate(requests_total[5m]))")
    assert call("rules", run, *slos, *load, "-o", tmp_path / "rules.yml")[0] in (0, 1)
    assert call("check", run)[0] in (0, 1)
    assert not fits


def test_a_report_is_on_the_slos_of_the_run(call, fit, tmp_path):
    asked = fit.having(question=fit.asking(["mean_queue<2", "loss<0.1"], 0.9, 12.0))
    asked.save(tmp_path / "run")
    code, out, _ = call("report", tmp_path / "run", "-o", tmp_path / "r.html", "--no-compare")
    assert code == 0
    assert "Mean queue < 2 and loss < 10% hold" in out
    assert "(90% interval" in out
    assert "The present load, 12, may grow by" in out


def test_a_report_of_a_what_if_says_what_it_can(fit, tmp_path):
    fit.what_if(capacity=3).report(tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "what if: capacity" in page.text("aside").lower()
    assert "the report of that system" in page.text("checks")
