"""``stationary fit --model file.sm``, and every command that takes the run it makes."""

import json
from pathlib import Path

import pytest

import stationary as st

FILES = Path(__file__).parents[1] / "prism"
LEARN = ("--model", FILES / "mmck.sm", "--constants", "c=2,K=8", "--theta", "service")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Windows of a queue with two servers; the load is in a column of its own name."""
    truth = st.models.MMmK(servers=2, capacity=8, service_rate=10.0)
    windows = st.simulate(truth, [8.0, 10.0, 12.0, 14.0] * 10, duration=20.0, seed=5)
    path = tmp_path_factory.mktemp("prism") / "windows.csv"
    windows.to_csv(path)
    path.write_text(path.read_text().replace("load,", "callrate,", 1))
    return path


@pytest.fixture
def run(call, file, tmp_path):
    code, out, err = call(
        "fit", file, *LEARN, "--x", "load=callrate", "--observe", "0-2", "-o", tmp_path / "run"
    )
    assert (code, err) == (0, "")
    assert "Prism(x=load, c=2, K=8, service=" in out
    return tmp_path / "run"


def test_the_same_numbers_as_the_model_of_that_name(call, file, run, tmp_path):
    code, out, _ = call(
        *("fit", file, "--model", "mmmk:servers=2,capacity=8", "--x", "callrate"),
        *("--observe", "0-2", "--json"),
    )
    own = json.loads(out)
    fit = st.load(run)
    assert code == 0
    assert fit.nll == pytest.approx(own["nll"], rel=1e-9)
    assert fit.estimates["service"] == pytest.approx(own["parameters"][0]["estimate"], rel=1e-5)


def test_every_command_takes_the_run(call, run, tmp_path):
    code, out, _ = call("forecast", run, "--x", "10:30:10", "--slo", "loss<0.2", "--json")
    assert code == (not json.loads(out)["limit"]["trusted"])
    assert [row["load"] for row in json.loads(out)["forecast"]] == [10, 20, 30]
    code, out, _ = call("forecast", run, "--x", "20", "--what-if", "K=+2", "--json")
    larger = st.models.MMmK(2, 10, st.load(run).estimates["service"])
    assert code == 0
    row = json.loads(out)[0]
    assert row["loss"] == pytest.approx(float(larger.closed_form([20.0])[0, -1]), rel=1e-9)
    code, out, _ = call("check", run)
    assert code in (0, 1)
    assert "The data determine the only parameter" in out
    code, _, err = call("report", run, "-o", tmp_path / "report.html", "--no-compare")
    assert (code, err) == (0, "")
    assert "service" in (tmp_path / "report.html").read_text()
    code, out, _ = call("simulate", run, "--x", "10,12", "-o", tmp_path / "again.csv")
    assert code == 0
    assert (tmp_path / "again.csv").read_text().splitlines()[1].startswith("load,Q=0,Q=1")


def test_labels_are_columns_and_a_variable_may_be_named(call, tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("lambda,none,full\n1,30,2\n2,20,9\n3,10,20\n")
    code, out, _ = call(
        *("fit", file, "--model", FILES / "tandem.sm", "--x", "lambda"),
        *("--constants", "c=2,mu1=4", "--theta", "mu2=2", "--counts", "none=empty,full=full"),
        "--json",
    )
    found = json.loads(out)
    assert code == 0
    assert found["observed"] == ["empty", "full"]
    assert found["model"]["theta"] == {"mu2": 2}
    assert found["model"]["constants"] == {"c": 2, "mu1": 4}
    file.write_text("lambda,Q=0,Q=1\n1,30,12\n2,20,19\n3,10,20\n")
    code, out, _ = call(
        *("fit", file, "--model", FILES / "tandem.sm", "--x", "lambda", "--group-by", "q"),
        *("--constants", "c=2,mu1=4", "--theta", "mu2", "--json"),
    )
    assert code == 0
    assert json.loads(out)["observed"] == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "none.sm", "--theta", "a"), "none.sm: cannot be read"),
        (("--model", FILES / "mmck.sm"), "say with --theta what to learn, as in stationary fit"),
        ((*LEARN, "--x", "lambda=callrate"), "no constant 'lambda'; it has c, K, load, service"),
        (
            (*LEARN[:2], "--theta", "service", "--constants", "c"),
            "--constants: write name=value",
        ),
        ((*LEARN[:2], "--theta", "service,service"), "--theta: 'service' is given twice"),
        ((*LEARN[:2], "--theta", "service=fast"), "--theta: service must be a number; got 'fast'"),
        (("--model", "mmmk", "--theta", "a", "--x", "callrate"), "go with a PRISM file"),
        (("--model", "prism:source=1"), "name the file of a PRISM model"),
    ],
)
def test_bad_options_are_said(call, file, arguments, words):
    column = () if "--x" in arguments else ("--x", "load=callrate")
    code, out, err = call("fit", file, *arguments, *column)
    assert (code, out) == (2, "")
    assert words in err


def test_other_commands_send_a_file_to_fit(call, file):
    for command in (("check", file), ("compare", file)):
        code, _, err = call(*command, "--model", FILES / "mmck.sm", "--x", "callrate")
        assert code == 2
        assert "say with --theta what to learn, as in stationary fit" in err


def test_constants_may_stand_behind_the_file(call, file):
    rest = ("--theta", "service", "--x", "load=callrate", "--observe", "0-2", "--json")
    code, out, err = call("fit", file, "--model", f"{FILES / 'mmck.sm'}:c=2,K=8", *rest)
    assert code == 0, err
    assert json.loads(out)["model"]["constants"] == {"c": 2, "K": 8}
    same = ("--model", f"{FILES / 'mmck.sm'}:c=2", "--constants", "K=8")
    assert json.loads(call("fit", file, *same, *rest)[1])["nll"] == json.loads(out)["nll"]
    code, _, err = call("fit", file, *same, *rest, "--constants", "c=3,K=8")
    assert (code, "'c' is given twice" in err) == (2, True)
