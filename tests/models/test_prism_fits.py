"""What is done with a PRISM model: fits, saved runs; and what is said when it cannot be."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError, MissingError
from stationary.models import Prism, from_prism

FILES = Path(__file__).parents[1] / "prism"
TANDEM = {"x": "lambda", "constants": {"c": 3}}
TRUTH = {"mu1": 4.0, "mu2": 3.0}


def tandem(theta=("mu1", "mu2"), **changes):
    return from_prism(FILES / "tandem.sm", theta=theta, **{**TANDEM, **changes})


@pytest.fixture(scope="module")
def windows():
    """Windows of the tandem in which only its labels, and neither of the two, were counted."""
    truth = tandem(TRUTH)
    seen = st.simulate(truth, [1.0, 2.0, 3.0, 4.0] * 15, duration=100.0, seed=3)
    place = {name: k for k, name in enumerate(seen.labels)}
    full, empty = (
        [place[truth.states[k]] for k in truth.states_of(label)] for label in ("full", "empty")
    )
    between = sorted(set(place.values()) - {*full, *empty})
    counts = torch.stack([seen.counts[:, part].sum(1) for part in (full, empty, between)], -1)
    rest = tuple(name for name, k in place.items() if k in between)
    return st.Windows(
        seen.x, counts, observe=["full", "empty", rest], inputs=("lambda",), duration=100.0
    )


@pytest.fixture(scope="module")
def fit(windows):
    return st.fit(tandem(), windows)


def test_a_fit_finds_what_the_windows_were_made_with(fit):
    assert fit.converged
    table = fit.table().set_index("parameter")
    off = (table["estimate"] - np.array(list(TRUTH.values()))) / table["std_error"]
    assert (off.abs() < 3).all()
    assert (table["std_error"] < 0.5).all()
    # At a load it never saw, the label and both rewards lie where they belong.
    row = fit.forecast([6.0], level=0.999).iloc[0]
    truth = tandem(TRUTH)
    for name in truth.measures:
        exact = truth.measure(name)(truth.at([6.0])).item()
        assert row[f"{name}_low"] < exact < row[f"{name}_high"]
        assert row[name] == pytest.approx(exact, rel=0.2)


def test_a_run_is_saved_with_its_text(fit, tmp_path):
    fit.save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    assert again.model.options == fit.model.options
    assert again.model.estimates == fit.model.estimates
    assert again.forecast([5.0]).equals(fit.forecast([5.0]))
    assert "module first" in (tmp_path / "run" / "plan.json").read_text()


def test_a_run_is_not_damaged_because_storm_is_missing(fit, tmp_path, monkeypatch):
    fit.save(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(MissingError, match=r"pip install 'stationary\[prism\]'"):
        st.load(tmp_path / "run")
    with pytest.raises(InputError, match="pip install"):
        tandem()


def test_a_changed_constant_is_a_changed_system(fit):
    larger = fit.what_if(c=4)
    assert larger.model.estimates == fit.model.estimates
    assert larger.change.options == {"c": (3, 4)}
    wide = tandem(fit.estimates, constants={"c": 4})
    full = wide.measure("full")(wide.at([3.0]))
    assert larger.forecast([3.0])["full"][0] == pytest.approx(full.item(), rel=1e-12)
    with pytest.raises(InputError, match=r"mu1 is learnt: .*has no option 'mu1'.*it has c"):
        fit.what_if(mu1=2.0)


def test_storm_is_loaded_by_none_but_prism_models_and_keeps_quiet():
    code = f"""
import sys
import stationary as st
st.models.MMmK()
assert "stormpy" not in sys.modules
st.models.from_prism({str(FILES / "tandem.sm")!r}, x="lambda", theta=["mu2"], constants={{"c": 2}})
assert "stormpy" in sys.modules
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


SOURCE = """ctmc
const int room; const double a = 2; const double b; const double unused = 1; const bool open;
module m
  q : [0..room] init 0;
  [] q < room & open -> a : (q' = q + 1);
  [] q > 0 -> b : (q' = q - 1);
endmodule
"""
FIXED = {"room": 2, "open": True}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"constants": {"open": True}}, "constant 'room' of the PRISM model has no value: give it"),
        ({"theta": ["c"]}, "no constant 'c'; it has room, a, b, unused, open"),
        ({"x": []}, "x must name at least one constant"),
        ({"theta": {"b": "fast"}}, "theta: 'b' must be a number; got 'fast'"),
        ({"theta": {"b": -1.0}}, "parameter b must be positive; got -1"),
        ({"theta": ["b", "unused"]}, "no rate of the PRISM model depends on 'unused'"),
        ({"theta": ["b", "a"]}, "'a' is named twice"),
        ({"theta": ["room"], "constants": {"open": True, "b": 1.0}}, "'room' occurs in a guard"),
        ({"theta": ["open"], "constants": {"room": 2, "b": 1.0}}, "'open' is true or false"),
        ({"constants": {**FIXED, "room": 2.5}}, "'room' must be a whole number; got 2.5"),
        ({"constants": {**FIXED, "room": True}}, "'room' must be a number; got True"),
        ({"constants": {**FIXED, "open": 1}}, "'open' must be true or false; got 1"),
        ({"constants": {**FIXED, "room": "2"}}, "'room' must be a finite number; got '2'"),
        ({"count": "z"}, "no variable 'z'; it has q"),
        ({"source": SOURCE.replace("ctmc", "dtmc")}, "is a dtmc; only continuous-time"),
        ({"source": SOURCE.replace("ctmc", "mdp")}, "is a mdp; only continuous-time"),
        ({"source": SOURCE.replace("endmodule", "")}, "Storm cannot read the text .*endmodule"),
        ({"source": SOURCE.replace("-> b", "-> log(b, 2)")}, r"not supported: \(log\(b, 2\)\)"),
        ({"source": SOURCE.replace("q > 0", "q > b")}, "'b' occurs in a guard"),
        ({"source": SOURCE.replace("q < room &", "")}, "= 3, outside its range 0..2: forbid it"),
        ({"source": SOURCE.replace("init 0", "init 3")}, r"'q' .*starts at 3, .*range 0..2"),
        (
            {"source": SOURCE.replace(" init 0", "") + "init q = 0 endinit"},
            "give every variable its own init",
        ),
        ({"source": SOURCE + "system m endsystem"}, "has system ... endsystem: leave it out"),
        ({"source": "hello"}, "Storm cannot read the text of the PRISM model"),
    ],
)
def test_what_cannot_be_is_said(changes, words, capfd):
    given = {"source": SOURCE, "x": ["a"], "theta": ["b"], "constants": FIXED, **changes}
    with pytest.raises(InputError, match=words):
        Prism(**given)
    assert capfd.readouterr() == ("", "")


def test_a_whole_number_may_be_written_with_a_point():
    model = Prism(SOURCE, "a", ["b"], {"room": 2.0, "open": True})
    assert list(model.states) == ["q=0", "q=1", "q=2"]
    assert list(model.measures) == ["mean_q"]


def test_what_is_no_file_is_said(tmp_path):
    with pytest.raises(InputError, match=r"none.sm: cannot be read: No such file"):
        from_prism(tmp_path / "none.sm", x="a", theta="b")
    (tmp_path / "bytes.sm").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="UTF-8"):
        from_prism(tmp_path / "bytes.sm", x="a", theta="b")


def test_a_chain_that_ends_stays_where_it_ends():
    source = SOURCE.replace("[] q > 0 -> b : (q' = q - 1);", "[] q = 0 -> b : (q' = 1);")
    pi = st.steady_state(Prism(source, "a", "b", FIXED)([1.0])).pi[0]
    assert pi.tolist() == [*[0.0] * (len(pi) - 1), 1.0]
