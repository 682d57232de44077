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


def test_groups_must_name_every_state():
    edges = st.Edges.from_pairs([(0, 1), (1, 0)], 2)

    class Two(models.Model):
        def rates(self, load, p):
            return load.expand(*load.shape[:-1], 2)

    with pytest.raises(InputError, match="groups= must name 2 states; got 1"):
        Two(states=["a", "b"], edges=edges, params={}, groups=["a"])


def test_levels_are_simulated_as_their_states_are():
    model = models.OnOffArrivals(capacity=3, service_rate=2.0, burst=1.0, switching=1.0)
    windows = st.simulate(model, [1.0] * 200, duration=100.0, seed=6)
    share = windows.counts.sum(0) / windows.counts.sum()
    pi = st.steady_state(model([1.0])).pi.detach()[0]
    assert share.tolist() == pytest.approx(pi.reshape(4, 2).sum(1).tolist(), abs=0.02)


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
            "erlang:phases=3,capacity=4,service_rate=10",
            "erlang:phases=3,capacity=4",
            "load,Q=0,Q=1,Q=2,Q=3,Q=4",
        ),
        (
            "leaking:capacity=3,service_rate=10,leak=4,reset=8",
            "leaking:capacity=3",
            "load,Q=0,Q=1,Q=2,Q=3,Q=overload",
        ),
    ],
    ids=["onoff", "erlang", "leaking"],
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


def test_the_command_line_refuses_arrivals_where_they_mislead(call, tmp_path):
    file = tmp_path / "windows.csv"
    file.write_text("load,Q=0,Q=1\n1,20,10\n2,15,12\n")
    code, _, err = call("fit", file, "--model", "batch:capacity=5", "--sampling", "arrival")
    assert code == 2
    assert "BatchArrivals" in err
    assert "sampling='time'" in err
