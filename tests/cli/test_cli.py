"""The commands as people and programs run them: answers, exit codes, files."""

import html
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import pictures
import stationary as st
from stationary import words
from stationary.cli import _show

COMMANDS = [
    *("demo", "plan", "studio", "explain", "forecast", "report", "rules", "fit", "check"),
    *("compare", "simulate", "models", "reproduce", "ingest requests", "ingest prometheus"),
    *("testbed doctor", "testbed record", "testbed replay"),
]
SCRIPT = Path(sysconfig.get_path("scripts")) / "stationary"
MODEL = "mmmk:servers=1,capacity=10"


def script(*args, cwd=None):
    """Run the installed command for real."""
    env = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        [SCRIPT, *map(str, args)], capture_output=True, text=True, cwd=cwd, env=env, check=False
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of windows at loads 11..15 and the windows themselves."""
    path = tmp_path_factory.mktemp("data") / "windows.csv"
    truth = st.models.MMmK(servers=1, capacity=10, service_rate=25.0)
    loads = np.repeat(np.arange(11.0, 16.0), 4)
    st.simulate(truth, loads, duration=10.0, seed=1).to_csv(path)
    return path


@pytest.fixture(scope="module")
def fit(data):
    return st.fit(st.models.MMmK(servers=1, capacity=10), st.read_windows(data, observe=[0, 1, 2]))


@pytest.fixture(scope="module")
def run(fit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit.save(folder)
    return folder


# For real, in a process of their own.


def test_version_for_real():
    done = script("--version")
    assert (done.returncode, done.stdout) == (0, f"stationary {st.__version__}\n")


@pytest.mark.slow
def test_demo_for_real(tmp_path):
    done = script("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    folder = tmp_path / "stationary-demo"
    assert sorted(p.name for p in folder.iterdir()) == ["forecast.csv", "forecast.png", "plan"]
    assert (folder / "forecast.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "plan" / "report.html").is_file()
    assert max(map(len, done.stdout.splitlines())) <= 80
    # What it prints, it also saved.
    saved = st.load(folder / "plan")
    assert words.plan_answer(saved.limit, saved.limits, "req/s").split(". ")[0] in done.stdout
    # It did not see the overload, and its intervals hold nearly all of it.
    assert saved.heaviest < 2000
    frame = pd.read_csv(folder / "forecast.csv")
    assert frame["load"].min() > 2000
    inside = re.search(r"loss in (\d+) and p99 in (\d+) of (\d+) ranges", done.stdout)
    loss, p99, ranges = map(int, inside.groups())
    assert ranges == len(frame) >= 12
    assert loss >= ranges - 1
    assert p99 >= ranges - 3
    # The picture of the README shows the same.
    ours = Path(__file__).parents[2] / "docs" / "images" / "demo-forecast.png"
    drawn, now = (
        pd.read_json(io.StringIO(Image.open(file).text["Description"]))
        for file in (ours, folder / "forecast.png")
    )
    pd.testing.assert_frame_equal(drawn, now, rtol=0.02, obj="run `make pictures`")
    # So do those of the terminal and of the report, word for word; only numbers may differ a bit.
    shown = (ours.with_name("terminal.svg")).read_text(encoding="utf-8")
    screen = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*)</text>", shown)]
    now = [line for line in pictures.screen_of(done.stdout) if line]
    assert without_numbers(screen) == without_numbers(now), "run `make pictures`"
    shown = Image.open(ours.with_name("report.png")).text["Description"]
    now = pictures.words_of((folder / "plan" / "report.html").read_text(encoding="utf-8"))
    assert without_numbers([shown]) == without_numbers([now]), "run `make pictures`"


def without_numbers(lines):
    """The words of lines, whose breaks and numbers may move from machine to machine."""
    return re.sub(r"[\d.,]+|stationary-demo/|build/demo/", "#", " ".join(lines)).split()


def test_simulate_fit_forecast_for_real(tmp_path):
    model = "mmmk:servers=1,capacity=10"
    done = script(
        *("simulate", f"{model},service_rate=25", "--x", "11:15", "--windows", 10),
        *("--duration", 10, "-o", "windows.csv"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "wrote 50 windows to windows.csv\n")
    done = script(
        *("fit", "windows.csv", "--model", model, "--observe", "0,1", "-o", "run"),
        *("--slo", "loss<0.01"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "converged" in done.stdout
    assert "Loss < 1% holds up to" in done.stdout
    assert "saved in run; next: stationary check run, then" in done.stdout
    done = script("forecast", "run", "--x", "10:40:10", "-o", "ahead.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    frame = pd.read_csv(tmp_path / "ahead.csv")
    assert frame["load"].tolist() == [10, 20, 30, 40]
    assert frame["loss"].is_monotonic_increasing


def test_help_waits_for_no_library():
    code = (
        "import sys; sys.argv = ['stationary', '--help']\n"
        "from stationary.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numba', 'pandas', 'matplotlib', 'scipy', 'numpy', 'pyarrow'}\n"
        "sys.exit(','.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_an_error_of_ours_is_exit_code_70(call, run, monkeypatch):
    monkeypatch.setattr("stationary.load", lambda folder: folder.no_such_thing)
    code, out, err = call("forecast", run, "--x", "10")
    assert (code, out) == (70, "")
    [line] = err.splitlines()
    assert line.startswith("error: this is a mistake in stationary")
    details = Path(line.rpartition(" ")[2])
    assert "Traceback" in details.read_text(encoding="utf-8")
    details.unlink()


def test_a_closed_output_is_no_error():
    done = subprocess.run(f"{SCRIPT} models >&-", shell=True, capture_output=True, check=False)  # noqa: S602
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_pipe_that_nobody_reads_is_neither_an_error_nor_an_answer():
    command = f"{SCRIPT} models | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["fo"], ["forecast"]),
        (["fit", "windows.csv", "--model", "mm"], ["mmmk"]),
        (["forecast", "run", "--measures", "loss,p9"], ["loss,p95", "loss,p99"]),
        (["fit", "windows.csv", "--gradient", "inf"], ["infinity:p=auto"]),
        (["fit", "windows.csv", "--errors", "s"], ["sandwich"]),
        (["fit", "windows.csv", "--method", "p"], ["paper"]),
    ],
)
def test_completion_completes(typed, completed):
    env = {**os.environ, "_STATIONARY_COMPLETE": "complete_bash"}
    env |= {"COMP_WORDS": " ".join(["stationary", *typed]), "COMP_CWORD": str(len(typed))}
    done = subprocess.run([SCRIPT], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.split() == completed


# Help.


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(call, monkeypatch, command, flag):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = call(*command.split(), flag)
    assert (code, err) == (0, "")
    assert f"stationary {command}" in out
    assert "--help" in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_lists_every_command(call):
    code, out, _ = call("--help")
    assert code == 0
    assert all(command.split()[0] in out for command in COMMANDS)
    _, out, err = call()  # without arguments, too
    assert "Usage" in out + err


def test_the_help_of_a_plan_shows_its_own_options_before_those_of_its_sources(call):
    _, out, _ = call("plan", "--help")
    titles = ["Arguments", "Options", "How requests are read", "What is read of a Prometheus"]
    places = [out.index(f"─ {title}") for title in titles]
    assert places == sorted(places)
    assert out.index("--slo") < places[2] < out.index("--status-lost") < places[3]
    assert "Folder for the plan and its report.html." in out


def test_help_shows_what_stands_in_brackets(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "of a stochastic fit [50]." in call("fit", "--help")[1]


# fit.


def test_fit_prints_a_summary(call, data, fit):
    code, out, err = call("fit", data, "--model", MODEL, "--observe", "0-2")
    assert (code, err) == (0, "")
    assert out == f"{fit}\n"


def test_fit_as_json_is_the_librarys_answer(call, data, fit):
    code, out, err = call("fit", data, "--model", MODEL, "--observe", "0,1,2", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    (parameter,) = answer["parameters"]
    assert parameter["parameter"] == "service_rate"
    assert parameter["estimate"] == fit.estimates["service_rate"]
    assert parameter["std_error"] == fit.table()["std_error"][0]
    assert parameter["determined"] is True
    assert answer["model"] == {"name": "mmmk", "servers": 1, "capacity": 10}
    assert (answer["nll"], answer["converged"]) == (fit.nll, True)
    assert (answer["windows"], answer["loads"]) == (20, [11.0, 15.0])
    assert answer["observed"] == ["0", "1", "2"]
    assert answer["warnings"] == []
    assert answer["limit"] is None
    assert answer["run"] is None


def test_fit_saves_a_run(call, data, fit, tmp_path):
    folder = tmp_path / "deep" / "run"
    args = ("fit", data, "--model", MODEL, "--observe", "0,1,2", "-o", folder, "--json")
    code, out, _ = call(*args, "--duration", "10")
    assert code == 0
    assert json.loads(out)["run"] == str(folder)
    assert st.load(folder).estimates == fit.estimates
    assert st.load(folder).windows.duration.unique().tolist() == [10.0]
    assert call(*args)[0] == 2
    assert call(*args, "--overwrite")[0] == 0


def test_fit_options_reach_the_fit(call, data):
    args = ("fit", data, "--model", MODEL, "--observe", "0,1", "--json")
    plain = json.loads(call(*args)[1])
    some = json.loads(call(*args, "--loads", "12:14")[1])
    assert (some["windows"], some["loads"]) == (12, [12.0, 14.0])
    assert json.loads(call(*args, "--loads", ":11")[1])["loads"] == [11.0, 11.0]
    wide = json.loads(call(*args, "--level", "0.999")[1])
    assert wide["level"] == 0.999
    assert wide["parameters"][0]["high"] > plain["parameters"][0]["high"]
    one = json.loads(call(*args, "--starts", "1")[1])
    assert one["evaluations"] < plain["evaluations"]
    assert one["nll"] == pytest.approx(plain["nll"], rel=1e-12)
    relaxed = json.loads(call(*args, "--relax", "100")[1])
    assert relaxed["model"]["name"] == "relaxed"
    assert len(relaxed["parameters"]) == 1 + 11 * 10 - 20


def test_fit_reads_other_names_lumps_and_formats(call, data, tmp_path):
    frame = pd.read_csv(data, comment="#")
    frame["rest"] = frame[[f"Q={k}" for k in range(2, 11)]].sum(axis=1)
    frame = frame.rename(columns={"load": "callrate", "Q=0": "idle", "Q=1": "one"})
    frame = frame[["callrate", "idle", "one", "rest"]]
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    frame.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "a.parquet")
    options = ("--x", "callrate", "--counts", "idle=0,one=1,rest=2-10", "--model", MODEL, "--json")
    answers = [
        json.loads(call("fit", tmp_path / name, *options)[1])
        for name in ("a.csv", "a.csv.gz", "a.tsv", "a.parquet")
    ]
    assert answers[0]["observed"] == ["0", "1", "2..10"]
    assert answers[0]["parameters"][0]["estimate"] == pytest.approx(25.0, rel=0.2)
    assert all(answer == answers[0] for answer in answers)


def test_fit_warns_of_dropped_windows_on_stderr_only(call, data, tmp_path):
    path = tmp_path / "gap.csv"
    path.write_text(data.read_text() + "15.0" + ",0" * 11 + "\n0" + ",0" * 11 + "\n")
    code, out, err = call("fit", path, "--model", MODEL, "--drop-empty", "--json")
    assert code == 0
    assert json.loads(out)["windows"] == 20
    assert "warning: " in err
    assert "line 23" in err
    assert "line 24" in err
    assert "DataWarning" not in err


def test_windows_are_left_out_by_their_numbers(call, data):
    fitted = ("fit", data, "--model", MODEL, "--json")
    whole, less = (json.loads(call(*fitted, *more)[1]) for more in ((), ("--leave-out", "2,20")))
    assert (whole["windows"], less["windows"]) == (20, 18)
    for wrong, why in (("21", "there are 20 windows"), ("0", "3,17"), ("2-4", "3,17")):
        code, _, err = call(*fitted, "--leave-out", wrong)
        assert code == 2
        assert why in err


@pytest.mark.parametrize(("slo", "code"), [("loss<0.01", 0), ("loss<0.0001", 1)])
def test_slo_decides_the_exit_code(call, data, fit, slo, code):
    args = ("fit", data, "--model", MODEL, "--observe", "0,1,2", "--slo", slo)
    found, out, _ = call(*args)
    assert found == code
    verb = "is over the limit by" if code else "may grow by"
    assert f"The heaviest load in the data, 15, {verb}" in out
    found, out, _ = call(*args, "--json")
    assert found == code
    limit, expected = json.loads(out)["limit"], fit.max_load(loss=float(slo.split("<")[1]))
    assert limit["load"] == expected.load
    assert [limit["low"], limit["high"]] == [expected.low, expected.high]
    assert (limit["load"] < 15) == bool(code)


TWO = ("--slo", "loss<0.01", "--slo", "response_time<60ms")


def test_of_two_slos_the_second_may_bind_and_fail_the_gate(call, data, fit, run):
    # Each alone, and in either order: a gate that looked at one of them would let this pass.
    loose, tight = fit.max_load("loss<0.01"), fit.max_load("response_time<60ms")
    assert tight.load < 15 < loose.load
    made = ("fit", data, "--model", MODEL, "--observe", "0,1,2")
    for command in (made, ("forecast", run)):
        assert call(*command, *TWO[:2])[0] == 0
        for slos in (TWO, TWO[2:] + TWO[:2]):
            code, out, _ = call(*command, *slos, "--json")
            assert code == 1
            limit = json.loads(out)["limit"]
            assert limit["load"] == tight.load
            assert limit["binding"] == "response_time <= 0.06"
            assert (limit["measure"], limit["bound"]) == ("response_time", 0.06)
            assert {s["measure"]: s["bound"] for s in limit["slos"]} == {
                "loss": 0.01,
                "response_time": 0.06,
            }
        out = call(*command, *TWO)[1]
        assert "response time is missed first" in out
        assert "is over the limit by" in out


def test_a_limit_for_programs_has_these_keys(call, run, fit):
    code, out, _ = call("forecast", run, "--slo", "loss<0.01", "--json")
    assert code == 0
    limit, expected = json.loads(out)["limit"], fit.max_load(loss=0.01)
    assert limit == {
        "load": expected.load,
        "low": expected.low,
        "high": expected.high,
        "level": 0.95,
        "binding": "loss <= 0.01",
        "measure": "loss",
        "bound": 0.01,
        "slos": [{"measure": "loss", "bound": 0.01}],
        "present": 15.0,
        "headroom": expected.headroom,
        "status": "found",
        "failed": 0,
        "trusted": True,
        "reason": "",
        "tested": expected.tested,
    }
    far = json.loads(call("forecast", run, "--slo", "loss<0.9", "--json")[1])["limit"]
    assert not far["trusted"]
    assert far["reason"] == words.doubt(fit.max_load(loss=0.9).doubt)


def test_an_answer_that_is_not_to_be_trusted_is_exit_code_one(call, data, run, tmp_path):
    """The present load meets the limit, which lies where no data tests the model."""
    read = (data, "--observe", "0,1,2", "--model", MODEL)
    for command in (
        ("fit", *read),
        ("compare", *read, "--model", "service:capacity=10"),
        ("forecast", run),
        ("report", run, "--no-compare", "-o", tmp_path / "r.html"),
    ):
        code, out, _ = call(*command, "--slo", "loss<0.9")
        assert code == 1, command
        assert "not to be trusted" in " ".join(out.split())
    # Without an SLO, a row that is not to be trusted is marked, and no failure.
    code, out, _ = call("forecast", run, "--x", "10:40:10")
    assert code == 0
    assert "Not trusted in" in out


def test_the_present_load_decides_when_it_is_given(call, data, fit):
    limit = fit.max_load(loss=0.01)
    args = ("fit", data, "--model", MODEL, "--observe", "0,1,2", "--slo", "loss<0.01", "--present")
    code, out, _ = call(*args, 1.1 * limit.load)
    assert code == 1
    present = words.number(1.1 * limit.load, 3)
    assert f"The present load, {present}, is over the limit by 10%." in out
    code, out, _ = call(*args, 0.9 * limit.load, "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["limit"]["present"] == pytest.approx(0.9 * limit.load)
    assert answer["limit"]["headroom"] == pytest.approx(1 / 0.9 - 1)


def test_a_limit_that_no_load_breaks_is_null_for_programs(call, data):
    args = ("fit", data, "--model", MODEL, "--slo", "response_time<10")
    code, out, _ = call(*args)
    assert code == 1
    assert "Mean response time < 10 holds at any load; not to be trusted" in out
    assert json.loads(call(*args, "--json")[1])["limit"]["load"] is None


def test_a_fit_that_does_not_converge_is_exit_code_one(call, tmp_path):
    path = tmp_path / "idle.csv"
    path.write_text("load,Q=0,Q=1\n" + "11,30,0\n12,31,0\n" * 6)
    code, out, err = call("fit", path, "--model", MODEL, "-o", tmp_path / "run")
    assert (code, err) == (1, "")
    assert "NOT converged" in out
    assert "WARNING: The fit did not converge" in out
    assert "observe more states or loads" in out
    code, out, _ = call("fit", path, "--model", MODEL, "--json")
    assert code == 1
    assert json.loads(out)["converged"] is False
    assert json.loads(out)["parameters"][0]["high"] is None
    code, out, _ = call("forecast", tmp_path / "run", "--x", "10,20")
    assert code == 0
    assert "Not trusted in 2 of 2 rows: the fit did not converge." in out


# forecast.


def test_forecast_as_a_table(call, run):
    code, out, err = call("forecast", run, "--x", "10:40:10")
    assert (code, err) == (0, "")
    assert "95% intervals; the fit saw loads 11 to 15" in out
    assert _headings(out) == [["load", "loss", "mean response time", "p99", "trusted"]]
    assert out.count("yes") == 1  # the others lie further than the loads could test
    assert "Not trusted in 3 of 4 rows: no data tests the model at this load" in out
    assert "--wide shows more: p50, p95, mean queue, throughput, utilisation." in out


def test_a_wide_forecast_shows_all_measures_in_one_table(call, run):
    _, out, _ = call("forecast", run, "--x", "10,40", "--wide")
    measures = ["loss", "mean response time", "p50", "p95", "p99", "mean queue", "throughput"]
    assert _headings(out) == [["load", *measures, "utilisation", "trusted"]]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_named_measures_are_stacked_within_the_width(call, run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    named = ["loss", "p50", "p90", "p95", "p99", "throughput"]
    _, out, _ = call("forecast", run, "--x", "10:40:10", "--measures", ",".join(named))
    tables = _headings(out)
    assert [name for names in tables for name in names[1:-1]] == named
    assert len(tables) > 1
    assert {(names[0], names[-1]) for names in tables} == {("load", "trusted")}
    rows = [line for line in out.splitlines() if not line.startswith(("Not trusted", "Forecast"))]
    assert max(map(len, rows)) <= width


def _headings(out):
    """Return the columns of each table."""
    lines = out.splitlines()
    heads = [a for a, b in pairwise(lines) if set(b) == {"\u2500"}]
    return [re.split(r"\s{2,}", head.strip()) for head in heads]


def test_forecast_as_json_and_csv_is_the_librarys_answer(call, run, fit):
    expected = fit.forecast([10.0, 20.0, 30.0], 0.9)
    code, out, _ = call("forecast", run, "--x", "10:30:10", "--level", "0.9", "--json")
    assert code == 0
    back = pd.DataFrame(json.loads(out))
    pd.testing.assert_frame_equal(back, expected, check_exact=True)
    code, out, _ = call("forecast", run, "--x", "10:30:10", "--level", "0.9", "--csv")
    assert code == 0
    back = pd.read_csv(io.StringIO(out), keep_default_na=False)
    pd.testing.assert_frame_equal(back, expected, rtol=1e-14)


def test_forecast_takes_loads_by_the_inputs_name(call, run):
    args = ("forecast", run, "--json", "--x")
    assert call(*args, "load=20,30") == call(*args, "20,30")


def test_levels_are_not_rounded_to_a_hundred(call, run, data):
    assert "99.9% intervals" in call("forecast", run, "--x", "20", "--level", "0.999")[1]
    args = ("fit", data, "--model", MODEL, "--level", "0.999", "--slo", "loss<0.01")
    out = call(*args)[1]
    assert "intervals 99.9%" in out
    assert "(99.9% interval" in out


def test_a_limit_from_a_run(call, run, fit):
    limit = fit.max_load(loss=0.01)
    code, out, err = call("forecast", run, "--slo", "loss<0.01")
    assert (code, err) == (0, "")
    assert out.endswith(f"{words.plan_answer(limit, reason=True)}\n{words.headroom(limit)}\n")
    assert "The heaviest load in the data, 15, may grow by" in out
    code, out, _ = call("forecast", run, "--slo", "loss<0.01", "--present", "20")
    assert code == 1
    assert "The present load, 20, is over the limit by" in out.splitlines()[-1]


def test_what_if_decides_the_exit_code_and_stands_beside_what_is(call, run, fit):
    new = fit.what_if(servers=2, capacity=15)
    now, then = fit.max_load(loss=0.001), new.max_load(loss=0.001)
    load = f"{(now.load + then.load) / 2:.3g}"
    args = ("forecast", run, "--slo", "loss<0.001", "--present", load)
    assert call(*args)[0] == 1
    code, out, _ = call(*args, "--what-if", "servers=+1", "--what-if", "capacity=+50%")
    assert code == 0
    change = "2 servers instead of 1, capacity 15 instead of 10"
    assert f"WARNING: what if: {change}; not observed" in out
    loads = words.number(now.load, 3), words.number(then.load, 3)
    assert f"The limit is {loads[0]} now, and {loads[1]} with {change}." in out
    assert f"The present load, {load}, may grow by" in out
    said = " ".join(out.split())  # lines end where the terminal does
    assert words.limit(new.max_load(present=float(load), loss=0.001))[1:] in said
    code, out, _ = call(*args, "--what-if", "faster=0.5")
    assert code == 1


def test_what_if_over_loads(call, run, fit):
    code, out, _ = call("forecast", run, "--x", "20,30", "--what-if", "faster=+20%", "--json")
    assert code == 0
    rows = pd.DataFrame(json.loads(out))  # rows only, as without a limit
    pd.testing.assert_frame_equal(rows, fit.what_if(faster=1.2).forecast([20.0, 30.0]))
    out = call("forecast", run, "--x", "20,30", "--what-if", "faster=1.2")[1]
    assert "WARNING: what if: every server 1.2 times as fast; not observed" in out
    args = ("forecast", run, "--slo", "loss<0.01")
    assert call(*args, "--what-if", "servers=1") == call(*args)  # nothing is said to be new


def test_everything_as_json(call, run, fit):
    args = ("forecast", run, "--slo", "loss<0.01", "--json")
    code, out, _ = call(*args, "--x", "20,30", "--next-experiment")
    assert code == 0
    answer = json.loads(out)
    limit = fit.max_load(loss=0.01)
    assert answer["limit"]["load"] == limit.load
    assert answer["limit"]["headroom"] == limit.headroom
    assert (answer["what_if"], answer["limit_now"]) == ([], None)
    assert [row["load"] for row in answer["forecast"]] == [20.0, 30.0]
    test = fit.next_experiment(loss=0.01).table
    pd.testing.assert_frame_equal(pd.DataFrame(answer["next_experiment"]), test)
    answer = json.loads(call(*args, "--what-if", "servers=2")[1])
    assert answer["limit"]["load"] == fit.what_if(servers=2).max_load(loss=0.01).load
    assert answer["limit_now"]["load"] == limit.load
    assert answer["what_if"] == ["2 servers instead of 1"]
    assert (answer["forecast"], answer["next_experiment"]) == ([], [])


def test_the_next_experiment_as_a_table(call, run, fit):
    code, out, _ = call("forecast", run, "--slo", "loss<0.01", "--next-experiment")
    assert code == 0
    assert words.sentence(words.experiment(fit.next_experiment(loss=0.01))) in out
    assert out.count("yes") + out.count(" no\n") == 12


def test_the_plot_shows_the_limit_of_its_measure(call, run, tmp_path):
    assert call("forecast", run, "--x", "10:40", "--plot", tmp_path / "f.png")[0] == 0
    assert (tmp_path / "f.png").stat().st_size > 5000
    args = ("forecast", run, "--x", "10:30", "--slo", "loss<0.01", "--plot")
    assert call(*args, tmp_path / "loss.svg")[0] == 0
    assert call(*args, tmp_path / "queue.svg", "--measures", "mean_queue")[0] == 0
    assert 'id="dash"' in (tmp_path / "loss.svg").read_text()
    assert 'id="dash"' not in (tmp_path / "queue.svg").read_text()


def test_a_run_that_did_not_converge_meets_no_limit(call, tmp_path):
    path = tmp_path / "idle.csv"
    path.write_text("load,Q=0,Q=1\n" + "11,30,0\n12,31,0\n" * 6)
    call("fit", path, "--model", MODEL, "-o", tmp_path / "run")
    code, out, _ = call("forecast", tmp_path / "run", "--slo", "loss<0.1")
    assert code == 1
    assert "not to be trusted: the fit did not converge" in out
    assert "12, cannot be said to meet the limit." in out


# simulate.


def test_simulate_is_the_librarys(call, tmp_path):
    path = tmp_path / "w.csv"
    args = ("simulate", "mmmk:capacity=4,service_rate=25", "--x", "11,12", "--windows", "3")
    code, out, err = call(*args, "--seed", "7", "--duration", "2", "-o", path)
    assert (code, err) == (0, "")
    assert out == f"wrote 6 windows to {path}\n"
    model = st.models.MMmK(capacity=4, service_rate=25.0)
    expected = st.simulate(model, [11.0] * 3 + [12.0] * 3, duration=2.0, seed=7)
    assert st.read_windows(path, duration=2.0) == expected
    first = path.read_bytes()
    assert call(*args, "--seed", "7", "--duration", "2", "-o", path)[0] == 2
    assert call(*args, "--seed", "7", "--duration", "2", "-o", path, "--overwrite")[0] == 0
    assert path.read_bytes() == first
    assert call(*args, "--seed", "8", "--duration", "2", "-o", path, "--overwrite")[0] == 0
    assert path.read_bytes() != first


@pytest.mark.parametrize(
    ("options", "scheme"),
    [
        (("--scheme", "events"), st.simulation.Events()),
        (("--scheme", "arrivals"), st.simulation.Arrivals()),
        (("--scheme", "poisson"), st.simulation.PoissonCounts()),
    ],
)
def test_simulate_with_another_scheme(call, tmp_path, options, scheme):
    path = tmp_path / "w.csv"
    model = "mmmk:capacity=4,service_rate=25"
    assert call("simulate", model, "--x", "11:13", "--duration", 5, "-o", path, *options)[0] == 0
    truth = st.models.MMmK(capacity=4, service_rate=25.0)
    expected = st.simulate(truth, [11.0, 12.0, 13.0], duration=5.0, scheme=scheme)
    assert st.read_windows(path, sampling=expected.sampling, duration=5.0) == expected


def test_simulate_from_a_run(call, run, fit, tmp_path):
    path = tmp_path / "w.csv"
    assert call("simulate", run, "--x", "20", "--duration", "10", "-o", path)[0] == 0
    expected = st.simulate(fit.model, [20.0], duration=10.0)
    assert st.read_windows(path, duration=10.0) == expected


# models.


def test_models_can_be_made_as_listed(call):
    code, out, _ = call("models", "--json")
    assert code == 0
    found = json.loads(out)
    names = [entry["name"] for entry in found]
    assert names == list(st.models.registry.names())
    for entry in found:
        model = st.models.registry.build({"name": entry["name"], **entry["options"]})
        assert entry["parameters"] == list(model.param_names)
        assert entry["measures"] == list(model.measures)
        assert ("arrival" in entry["sampling"]) == model.arrives_alone
        assert entry["about"].endswith(".")


def test_models_as_a_table(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = call("models")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    alike = ": loss, response_time, p50, p95, p99, mean_queue, throughput, utilisation."
    timed = "not by arriving requests: batch."
    for word in ("mmmk", alike, timed, "--relax", "FromFunction"):
        assert word in " ".join(out.split())
    assert "``" not in out
    assert "rate_1, rate_2, rate_3" in call("models", "--wide")[1]


# Progress.


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("patience", "shown"), [(0.0, True), (1e9, False)])
def test_progress_shows_itself_on_a_terminal_after_a_while(monkeypatch, patience, shown):
    with _show.progress_bar("start", 3) as update:
        assert update is None  # nobody watches
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_show, "_PATIENCE", patience)
    with _show.progress_bar("start", 3) as update:
        update(1, "12 gradients")
    assert ("start" in terminal.getvalue()) == shown
    assert ("12 gradients" in terminal.getvalue()) == shown
