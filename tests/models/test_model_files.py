"""Model files: the examples, and errors that point into the file."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

import stationary as st
from stationary.errors import InputError
from stationary.models import read_model

EXAMPLES = Path(__file__).parents[2] / "examples"

QUEUE = """\
# A queue.
count = "n"

[constants]
K = 20

[variables]
n = [0, "K"]

[params]
mu = 25.0

[rules]
arrive = "n < K -> n += 1 else lost at load"
serve = "n > 0 -> n -= 1 at mu"   # one server
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "queue.toml"
    path.write_text(QUEUE)
    return path


SMALL = {
    "autoscaling": {"K": 12},
    "network": {"room": 3},
    "priorities": {"K": 5},
    "retrials": {"most": 10},
}
"""Constants with which the larger examples are fitted within a second."""


def example(name, **changes):
    return read_model(EXAMPLES / f"{name}.toml", **changes)


def inputs(model, load):
    return [[load, load / 4][: len(model.inputs)]]


@pytest.mark.parametrize(
    "name", ["tandem", "network", "retrials", "breakdowns", "priorities", "autoscaling"]
)
def test_an_example_simulates_and_fits(name):
    assert len(example(name).states) > 50
    truth = example(name, **SMALL.get(name, {}))
    base = {"retrials": 3.0}.get(name, 8.0)
    x = [row for load in (0.5 * base, base, 1.5 * base) for row in inputs(truth, load)] * 4
    windows = st.simulate(truth, x, duration=20.0, seed=1)
    fit = st.fit(truth, windows)
    assert np.isfinite(fit.nll)
    ahead = fit.forecast(inputs(truth, 2 * base)).iloc[0]
    assert {"loss", "throughput", "response_time", "mean_queue"} <= set(ahead.index)
    assert 0 < ahead["loss"] < 1
    # What comes in goes out or is lost, whatever the chain.
    offered = float(fit.model.as_inputs(inputs(truth, 2 * base)).sum())
    assert ahead["throughput"] == pytest.approx(offered * (1 - ahead["loss"]), rel=1e-4)


def test_retrials_balance():
    model = example("retrials")
    found = {name: model.measure(name)(model.at([[6.0]])).item() for name in model.measures}
    assert found["throughput"] == pytest.approx(model.estimates["mu"] * found["mean_busy"])


def test_breakdowns_are_those_of_a_repair_shop():
    # Machines that fail at rate w each and one mechanic: a birth-death chain of its own.
    model = example("breakdowns")
    pi = st.steady_state(model([[5.0]])).pi[0].detach()
    wear, repair = model.estimates["wear"], model.estimates["repair"]
    weight = [1.0]
    for down in range(1, 4):
        weight.append(weight[-1] * wear * (4 - down) / repair)
    p = np.array(weight) / sum(weight)
    for down in range(4):
        assert float(pi[model.states_of(f"up = {3 - down}")].sum()) == pytest.approx(p[down])


def test_urgent_requests_see_a_queue_of_their_own():
    model = example("priorities")
    pi = st.steady_state(model([[10.0, 15.0]])).pi[0].detach()
    alone = st.models.MMmK(servers=1, capacity=12, service_rate=20.0).closed_form([15.0])[0]
    seen = torch.stack([pi[model.states_of(f"urgent = {k}")].sum() for k in range(13)])
    torch.testing.assert_close(seen, alone.detach())


def test_a_file_is_the_model_in_python(file):
    model = read_model(file, K=7, mu=4.0)
    truth = st.models.MMmK(servers=1, capacity=7, service_rate=4.0)
    torch.testing.assert_close(st.steady_state(model([3.0])).pi, truth.closed_form([3.0]))
    with pytest.raises(InputError, match="no constant or parameter 'k'"):
        read_model(file, k=7)
    with pytest.raises(InputError, match="'rules' is a part of the model, and no constant"):
        read_model(file, rules=7)


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "reason"),
    [
        ("n < K ->", "n < Z ->", 14, 15, "rule 'arrive': there is no 'Z' here"),
        ("n -= 1 at mu", "n -= 1 at nu", 15, 29, "rule 'serve': there is no 'nu' here; did you"),
        ("n -= 1 at", "n -= 2 at", 15, 1, "rule 'serve': in state n=1 it would make n = n - 2"),
        ('count = "n"', 'count = "n +"', 2, 13, "count: this is not a formula"),
        ('[0, "K"]', '[0, "M"]', 8, 10, "variable 'n': there is no 'M' here"),
        ('[0, "K"]', "[0]", 8, 1, "variable 'n': it must be a pair"),
        ("K = 20", 'K = "a"', 5, 1, "constant 'K': it must be a finite number; got 'a'"),
        ("[rules]", "[rulez]", 13, 1, "rulez: a model has no such part; did you mean 'rules'?"),
        ("count =", "cuont =", 2, 1, "cuont: a model has no such part; did you mean 'count'?"),
        ("mu = 25.0", "mu = 25.0.0", 11, 10, "Expected newline or end of document"),
        ('at mu"', "at mu", 15, 46, "Illegal character"),
        ("mu = 25.0", "mu = -1", None, None, "parameter mu must be positive"),
    ],
)
def test_errors_point_into_the_file(file, old, new, line, column, reason):
    assert old in QUEUE
    file.write_text(QUEUE.replace(old, new))
    with pytest.raises(InputError) as caught:
        read_model(file)
    message = str(caught.value)
    assert reason in message
    if line is None:
        assert message.startswith(f"{file}: ")
        return
    first, shown, below = message.splitlines()
    assert first.startswith(f"{file}, line {line}, column {column}: "), first
    assert shown.strip() == QUEUE.replace(old, new).splitlines()[line - 1].strip()
    assert below == " " * (column + 1) + "^"


def test_errors_find_other_ways_to_write_the_same(file):
    text = QUEUE.split("[rules]")[0]
    ways = {
        'rules.arrive = "n < Z -> n += 1 at load"\n' + text: (1, 21),
        'rules = {serve = "n > 0 -> n -= 1 at mu", arrive = "n < Z -> n += 1 at load"}\n' + text: (
            1,
            57,
        ),
        text + '[rules]\n"arrive" = """\nn < K\n  -> n += Z at load"""\n': (16, 11),
    }
    for source, (line, column) in ways.items():
        file.write_text(source)
        with pytest.raises(InputError, match=f"line {line}, column {column}: .*no 'Z' here"):
            read_model(file)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, r"bad.toml: cannot be read: No such file"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"", r"a model needs \[variables\]"),
        (b"a = " + b"[" * 5000, r"nested too deeply|bad\.toml, line 1"),
        (b"[constants]\nK = " + b"9" * 5000, r"line 2, column 5: .*4300 digits"),
        (b"#" * 1_000_001, "at most 1000000 bytes"),
    ],
    ids=["missing", "binary", "empty", "deep", "digits", "large"],
)
def test_an_unreadable_file_is_refused(tmp_path, content, reason):
    bad = tmp_path / "bad.toml"
    if content is not None:
        bad.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        read_model(bad)


@given(some.lists(some.tuples(some.integers(0, len(QUEUE)), some.characters()), max_size=4))
def test_a_damaged_file_is_read_or_refused(tmp_path_factory, edits):
    text = QUEUE.replace("K = 20", "K = 3")
    for at, sign in edits:
        text = text[:at] + sign + text[at + 1 :]
    path = tmp_path_factory.mktemp("damaged") / "queue.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        model = read_model(path)
    except InputError:
        return
    assert len(model.states) > 1


def test_the_command_line_takes_a_file(file, tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(
        *("simulate", "queue.toml:K=5", "--x", "10:20:5", "--windows", 8, "--duration", 20),
        *("-o", "windows.csv"),
    )
    assert code == 0, err
    header = Path("windows.csv").read_text().splitlines()[1]
    assert header == "load,Q=0,Q=1,Q=2,Q=3,Q=4,Q=5"
    fit = ("fit", "windows.csv", "--observe", "0-2")
    code, out, err = call(*fit, "--model", "queue.toml:K=5", "-o", "run")
    assert code == 0, err
    assert "mu" in out
    code, out, err = call("forecast", "run", "--slo", "loss<0.01", "--what-if", "K=+5")
    assert code in (0, 1), err
    assert "K 10 instead of 5" in out
    for model, words in {
        "queue.toml:mu=5": "a fit learns mu",
        "queue.toml:Q=5": "no constant or parameter 'Q'",
        "none.toml": "none.toml: cannot be read",
        "rules:K=3": "missing a required argument: 'variables'",
    }.items():
        code, _, err = call(*fit, "--model", model)
        assert (code, words in err) == (2, True)


def test_the_command_line_takes_conditions(tmp_path, call, monkeypatch):
    tandem = EXAMPLES / "tandem.toml"
    monkeypatch.chdir(tmp_path)
    model = read_model(tandem, K=3)
    names = ["q1 + q2 = 0", "q1 + q2 = 1", "min(q1, q2) >= 1"]
    rows = []
    for load in (4.0, 6.0, 8.0):
        pi = st.steady_state(model([load])).pi[0].detach()
        rows.append(
            [load, *(round(1e4 * float(pi[model.states_of(name)].sum())) for name in names)]
        )
    quoted = ",".join(f'"Q={name}"' for name in names)
    body = "\n".join(",".join(map(str, row)) for row in rows)
    Path("windows.csv").write_text(f"load,{quoted}\n{body}\n")
    Path("named.csv").write_text(f"load,none,one,both\n{body}\n")
    conditions = ",".join(
        f"{column}=({name})" for column, name in zip(("none", "one", "both"), names, strict=True)
    )
    taken = ("--model", f"{tandem}:K=3", "--json")
    code, out, err = call("fit", "windows.csv", "--observe", ", ".join(names), *taken)
    assert code == 0, err
    code, named, err = call("fit", "named.csv", "--counts", conditions, *taken)
    assert code == 0, err
    estimates = [line for line in out.splitlines() if '"estimate"' in line]
    assert estimates == [line for line in named.splitlines() if '"estimate"' in line] != []


def test_the_command_line_takes_states_by_their_full_names(tmp_path, call, monkeypatch):
    tandem = EXAMPLES / "tandem.toml"
    monkeypatch.chdir(tmp_path)
    Path("plain.toml").write_text(tandem.read_text().replace('count = "q2"', "#"))
    taken = ("--model", "plain.toml:K=2")
    simulate = ("simulate", "plain.toml:K=2", "--x", "4:8", "--windows", 5, "--duration", 50)
    assert call(*simulate, "-o", "windows.csv")[0] == 0
    names = ["q1=0,q2=0", "q1=1,q2=0", "q1=0,q2=1"]
    code, out, err = call(
        "fit", "windows.csv", *taken, "--observe", "q1=0,q2=0, q1=1, q2=0,q2=1,q1=0", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["observed"] == names


def test_several_inputs_are_simulated(tmp_path, call, monkeypatch):
    priorities = EXAMPLES / "priorities.toml"
    monkeypatch.chdir(tmp_path)
    loads = ("--x", "load=4:6", "--x", "urgent_load=2,5")
    code, _, err = call("simulate", f"{priorities}:K=2", *loads, "-o", "windows.csv")
    assert code == 0, err
    rows = [line.split(",")[:2] for line in Path("windows.csv").read_text().splitlines()[1:]]
    assert rows[0] == ["load", "urgent_load"]
    assert [[float(x) for x in row] for row in rows[1:]] == [
        [a, b] for a in (4, 5, 6) for b in (2, 5)
    ]
    code, _, err = call("simulate", priorities, "--x", "4:6", "-o", "other.csv")
    assert (code, "give each input once, as --x load=10:60:2" in err) == (2, True)


def test_a_what_if_changes_constants_only(file, tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_model(file).changeable == {"K": 20}
    assert call("simulate", file, "--x", "10:20:5", "--windows", 4, "-o", "w.csv")[0] == 0
    assert call("fit", "w.csv", "--model", file, "-o", "run")[0] == 0
    for change in ("rules=+1", "count=2", "variables=3"):
        code, _, err = call("forecast", "run", "--x", "10", "--what-if", change)
        assert code == 2
        assert f"there is no {change.split('=')[0]!r} to change; there are: K, faster" in err
