"""Models with phases, counted by queue length: observation, simulation, the command line."""

import json

import pytest

import stationary as st
from stationary import models
from stationary.errors import InputError


def test_a_level_is_all_its_states():
    model = models.OnOffArrivals(capacity=2)
    windows = st.Windows([1.0], [[3, 2, 1]], observe=[0, "1.off", 2])
    assert windows.observation(model).dense().tolist() == [
        [1, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 1],
    ]
    several = st.Windows([1.0], [[3, 2]], observe=[0, (1, 2)])
    assert several.observation(model).dense().tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1]]
    assert model.states_of(2) == model.states_of("2") == [4, 5]
    erlang = models.ErlangService(phases=2, capacity=2)
    assert [erlang.states_of(n) for n in (0, "0", 1, "2.1")] == [[0], [0], [1, 2], [3]]


def test_a_level_that_is_not_there_is_no_position():
    # State 3 of six by position would be 1.off, which nobody means.
    windows = st.Windows([1.0], [[3, 2]], observe=[0, 3])
    with pytest.raises(InputError, match=r"category '3'.*its states are 0.on..2.off, counted as"):
        windows.observation(models.OnOffArrivals(capacity=2))


def test_a_level_and_one_of_its_states_overlap():
    windows = st.Windows([1.0], [[3, 2]], observe=[1, "1.on"])
    with pytest.raises(InputError, match=r"'1' and '1.on' are both state '1.on'"):
        windows.observation(models.OnOffArrivals(capacity=2))


def test_a_path_starts_in_one_state():
    model = models.OnOffArrivals(capacity=2)
    with pytest.raises(InputError, match=r"'1' is several states.*name one of 1.on, 1.off"):
        st.simulation.trajectory(model, 1.0, duration=1.0, start=1)
    assert st.simulation.trajectory(model, 1.0, duration=1.0, start="1.off").states[0] == 3


# The command line.


@pytest.mark.parametrize(
    ("text", "blank", "columns"),
    [
        (
            "onoff:servers=1,capacity=5,service_rate=10,burst=1,switching=3",
            "onoff:servers=1,capacity=5",
            "load,Q=0,Q=1,Q=2,Q=3,Q=4,Q=5",
        ),
        (
            "leaking:capacity=3,service_rate=10,leak=4,reset=8",
            "leaking:capacity=3",
            "load,Q=0,Q=1,Q=2,Q=3,Q=overload",
        ),
    ],
    ids=["onoff", "leaking"],
)
def test_the_command_line_counts_queue_lengths(call, tmp_path, text, blank, columns):
    file, run = tmp_path / "windows.csv", tmp_path / "run"
    loads = "2:10:2"
    code, _, err = call(
        "simulate", text, "--x", loads, "--windows", 8, "--duration", 100, "-o", file
    )
    assert code == 0, err
    assert file.read_text().splitlines()[1] == columns
    observe = columns.removeprefix("load,Q=").replace("Q=", "")
    code, out, err = call("fit", file, "--model", blank, "--observe", observe, "-o", run, "--json")
    assert code == 0, err
    wanted = {k: float(v) for k, v in (item.split("=") for item in text.split(":")[1].split(","))}
    assert st.load(run).estimates == pytest.approx(
        {k: wanted[k] for k in st.load(run).estimates}, rel=0.3
    )
    code, out, err = call("fit", file, "--model", blank, "--observe", "0,1", "--json")
    assert json.loads(out)["observed"] == ["0", "1"], err
    code, out, err = call("forecast", run, "--x", "5,20", "--json")
    assert code == 0, err
    light, heavy = json.loads(out)
    assert 0 < light["loss"] < heavy["loss"] < 1
