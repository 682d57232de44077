"""What files and options alone can tell is said before torch is loaded."""

import json
import os
import subprocess
import sys

import pytest

import stationary as st
from stationary.models.registry import check_options
from stationary.words import unit_of

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise RuntimeError("torch was loaded")
sys.meta_path.insert(0, Block())
"""
EACH = """
import contextlib, io, json
from stationary.cli import main
for args in CASES:
    sys.argv = ["stationary", *args]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
MODEL = ("--model", "mmmk:servers=1,capacity=10")
LOAD = ("--load-expr", "x")
PARQUET = "give the file the ending .csv or .parquet"


def run(code, folder):
    """Run code in a process in which torch cannot be imported."""
    env = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-c", BLOCK + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)


def command(args, folder):
    return run(
        f"from stationary.cli import main; sys.argv = ['stationary', *{list(args)!r}]; main()",
        folder,
    )


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a file of windows, one that is taken, and what looks like a run."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "w.csv").write_text("load,Q=0,Q=1\n11,3,4\n")
    (folder / "r.csv").write_text("arrival,response\n0.5,0.1\n")
    (folder / "taken.csv").write_text("kept")
    (folder / "run").mkdir()
    (folder / "run" / "plan.json").write_text("{}")
    (folder / "queue").mkdir()
    saved = '{"fitted": {"mmmk": {"model": {"description": {"name": "mmmk", "servers": 2}}}}}'
    (folder / "queue" / "plan.json").write_text(saved)
    return folder


@pytest.mark.parametrize("name", st.models.registry.names())
def test_the_front_knows_options_and_measures_of_every_queue(name):
    model = st.models.registry.model_class(name)()
    single = [key for key in model.param_names if key.rpartition("_")[2].isalpha()]
    check_options(name, [*model.options, *single])
    for measure in (*model.measures, "p_0"):
        found = model.measure(measure)
        share = (found.low, found.high) == (0.0, 1.0)
        assert unit_of(measure) == ("time" if found.time else "share" if share else "")


def test_the_front_loads_without_torch(here):
    front = "errors words terms.slo terms.spans terms.measures terms.categories terms.findings"
    front += " terms.trust data.columns data.tables models.registry output.folders"
    front += " ingest.sources ingest.formats cli"
    code = "".join(f"import stationary.{name}\n" for name in front.split())
    done = run(code + "print(*stationary.models.registry.names())", here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list(st.models.registry.names())


@pytest.mark.parametrize("args", [("--help",), ("models", "--help"), ("fit", "--help")])
def test_help_loads_without_torch(here, args):
    done = command(args, here)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage" in done.stdout


CASES = [
    (("fit", "w.csv", *MODEL, "--slo", "loss>1"), "an SLO is written measure<bound"),
    (("fit", "none.csv", *MODEL), "none.csv: there is no such file"),
    (("fit", "w.csv", "--model", "mmk"), "did you mean 'mmmk'"),
    (("fit", "w.csv", *MODEL, "-o", "run"), "run holds a run already"),
    (("fit", "w.csv", *MODEL, "--level", "95"), "level must lie between 0 and 1"),
    (("check", "w.csv", "--model", "mmk"), "did you mean 'mmmk'"),
    (("plan", "none.csv"), "none.csv: there is no such file"),
    (("plan", "w.csv", "--slo", "loss"), "an SLO is written measure<bound"),
    (("plan", "w.csv", "--slo", "lss<1%"), "there is no measure 'lss'; did you mean 'loss'?"),
    (("plan", "w.csv", "--slo", "loss<2"), "a bound on loss must lie between 0 and 1"),
    (("plan", "w.csv", "--slo", "loss<9ms"), "loss is not a time"),
    (("fit", "w.csv", "--model", "mmmk:servrs=1"), "did you mean 'servers'?"),
    (("fit", "w.csv", *MODEL, "--x", "lod"), "w.csv: there is no column 'lod'"),
    (("fit", "w.csv", *MODEL, "--counts", "n{}"), "w.csv: no column matches counts='n{}'"),
    (("compare", "w.csv", "--slo", "p9x<1s"), "there is no measure 'p9x'"),
    (("plan", "w.csv", "--slo", "p101<1s"), "there is no measure 'p101'"),
    (("fit", "w.csv", *MODEL, "--slo", "wait_p0<1s"), "there is no measure 'wait_p0'"),
    (("forecast", "queue", "--x", "1", "--measures", "lss"), "there is no measure 'lss'"),
    (("forecast", "queue", "--slo", "lss<1%"), "there is no measure 'lss'"),
    (("forecast", "queue", "--what-if", "servrs=+1"), "did you mean 'servers'?"),
    (("rules", "queue", *LOAD, "--slo", "lss<1%"), "there is no measure 'lss'"),
    (("plan", "w.csv", "--servers", "two"), "--servers is a number"),
    (("plan", "w.csv", "--servers", "0"), "--servers is a number of at least 1"),
    (("plan", "w.csv", "--servers", "4", "--capacity", "3"), "counts requests in service, too"),
    (("compare", "w.csv", "--servers", "4,5", "--capacity", "3"), "got servers 4, 5 and"),
    (("plan", "r.csv", "--slo", "p99<200"), "has no unit: write p99<200ms or p99<200s"),
    (("plan", "w.csv", "--patience", "soon"), "--patience is a length of time"),
    (("plan", "w.csv", "--growth", "fast"), "growth is a positive share per day"),
    (("plan", "w.csv", "--x", "rate"), "nor 'rate', of windows"),
    (("plan", "w.csv", "--gauge", "g"), "are of a Prometheus"),
    (("plan", "http://h:9090"), "give the load: --load-expr"),
    (("plan", "http://h:9090", *LOAD), "give what was observed: --gauge"),
    (("plan", "http://h:9090", "--preset", "htp"), "--preset is one of http, opentelemetry"),
    (("plan", "http://h:9090", "--preset", "http", *LOAD), "--preset says all"),
    (("plan", "w.csv", "-o", "run"), "run holds a run already"),
    (("compare", "w.csv", "--present", "3"), "give one with --slo"),
    (("compare", "none.csv"), "none.csv: there is no such file"),
    (("compare", "w.csv", "--model", "mmk"), "did you mean 'mmmk'"),
    (("compare", "w.csv", "-o", "run"), "run holds a run already"),
    (("forecast", "run", "--slo", "loss"), "an SLO is written measure<bound"),
    (("forecast", "run", "--x", "60:10"), "LOW:HIGH:STEP, upwards"),
    (("forecast", "run", "--x", "1", "--plot", "p.bmp"), "p.bmp: give the file the ending"),
    (("forecast", "run", "--x", "1", "--plot", "no/p.png"), "there is no folder no; make it"),
    (("forecast", "none", "--x", "1"), "none: there is no such folder"),
    (("forecast", "run", "--x", "1", "-o", "taken.csv"), "taken.csv exists"),
    (("report", "run", "--slo", "loss"), "an SLO is written measure<bound"),
    (("report", "none"), "none: there is no such folder"),
    (("report", "run", "-o", "r.pdf"), "give the file the ending .html"),
    (("rules", "run", *LOAD, "--slo", "loss"), "an SLO is written measure<bound"),
    (("rules", "run", *LOAD, "-o", "rules.txt"), "give the file the ending .yml"),
    (("rules", "run", *LOAD, "--label", "web"), "--label: write name=value"),
    (("rules", "run", "--load-expr", " "), "the expression of the load is empty"),
    (("rules", "run", *LOAD, "--for", "soon"), "as in 5m or 90s; got 'soon'"),
    (("rules", "none", *LOAD), "none: there is no such folder"),
    (("ingest", "w.csv", "-o", "new.csv", "--window", "soon"), "--window is a length of time"),
    (("ingest", "none.csv", "-o", "new.csv"), "none.csv: there is no such file"),
    (("ingest", "w.csv", "-o", "taken.csv"), "taken.csv exists"),
    (("ingest", "w.csv", "-o", "new.xlsx"), PARQUET),
    (("simulate", "mmk", "--x", "1", "-o", "new.csv"), "did you mean 'mmmk'"),
    (("simulate", "mmmk", "--x", "1", "-o", "taken.csv"), "taken.csv exists"),
]


@pytest.fixture(scope="module")
def answers(here):
    """Exit code, output and errors of each case, from one process without torch."""
    done = run(f"CASES = {[args for args, _ in CASES]!r}\n{EACH}", here)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[" ".join(args) for args, _ in CASES])
def test_what_is_wrong_is_said_without_torch(answers, case):
    code, out, err = answers[case]
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ")
    assert CASES[case][1] in err


def test_an_answer_loads_neither_statistics_of_scipy_nor_sympy(tmp_path):
    code = "import sys, stationary.planner, stationary.output.report; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"scipy.stats", "scipy.signal", "sympy"} & {*done.stdout.split()}
