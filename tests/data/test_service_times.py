"""Service times as an observation: what a fit makes of them, and how they travel."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import stationary as st
from service_windows import MEAN, OVERHEAD, VARIABILITY, windows
from stationary.data import Cell, ServiceTimes, States
from stationary.errors import InputError
from stationary.learning.likelihood import Likelihood
from stationary.models.queues import Service


def model(**options):
    return Service(1, 20, overhead=0.01, service_rate=8.0, **options)


def test_a_fit_finds_mean_variability_and_overhead():
    fit = st.fit(model(), windows(rows=100))
    expected = {"service_rate": 1 / MEAN, "variability": VARIABILITY, "overhead": OVERHEAD}
    for row in fit.table().to_dict("records"):
        assert abs(row["estimate"] - expected[row["parameter"]]) < 4 * row["std_error"]
        assert row["std_error"] < 0.1 * row["estimate"]


def test_the_fit_has_the_moments_of_the_data():
    data = windows()
    plain = st.fit(st.models.MMmK(capacity=20), data)
    sums = data.observations[1].sums.sum((0, 1))
    # With the variance tied to the mean, the normal likelihood weighs both.
    mean, square = float(sums[1] / sums[0]), float(sums[2] / sums[0])
    u = (-mean + np.sqrt(mean**2 + 4 * square)) / 2
    assert 1 / plain.estimates["service_rate"] == pytest.approx(u, rel=1e-6)


def test_gradient_and_hessian_are_those_of_differences():
    likelihood = Likelihood(model(), windows().informing([model()]))
    z = model().free(torch.tensor([9.0, 0.6, 0.015], dtype=torch.float64)).numpy()
    value, gradient = likelihood.value_and_gradient(z)
    assert value == pytest.approx(float(likelihood(torch.from_numpy(z))), rel=1e-12)
    step = 1e-5
    for k, along in enumerate(step * np.eye(3)):
        up, down = (likelihood.value_and_gradient(z + sign * along) for sign in (1, -1))
        assert (up[0] - down[0]) / (2 * step) == pytest.approx(gradient[k], rel=1e-5)
        rows = (up[1] - down[1]) / (2 * step)
        np.testing.assert_allclose(rows, likelihood.hessian(z)[k], rtol=1e-4, atol=1e-2)


def test_the_kind_that_tells_most_is_used_and_the_others_are_kept():
    data = windows()
    used = data.informing([model()])
    assert [kind.kind for kind in used.observations] == ["service times"]
    assert isinstance(used.counted, States)
    assert used.between(2.0, 4.0).aside[0].data.shape[0] == len(used.between(2.0, 4.0))
    # A model that says nothing of service times is fitted to the states.
    other = data.informing([st.models.Slowing(capacity=20)])
    assert [kind.kind for kind in other.observations] == ["states"]
    assert [kind.kind for kind in data.using(["states"]).aside] == ["service times"]
    with pytest.raises(InputError, match=r"gauge.*service times"):
        data.using(["gauge"])


def test_a_choice_that_was_made_is_kept():
    """By a comparison, a plan and a fit, also where windows are chosen, pooled or are all used."""
    chosen = windows(rows=60).using(["states"])
    for kept in (chosen, chosen.between(2.0, 4.0), chosen.pooled()):
        assert kept.informing([model()]) is kept
    times = chosen.using(["service times"])
    assert [kind.kind for kind in times.informing([model()]).observations] == ["service times"]
    both = windows(rows=60).using(["states", "service times"])
    assert both.informing([model()]) is both
    several = {"mmmk": st.models.MMmK(capacity=20), "other": st.models.Slowing(capacity=20)}
    for found in (
        st.compare(several, chosen, starts=1, jobs=1),
        st.plan(chosen, models=several, slo="loss<1%"),
        st.fit(several["mmmk"], chosen),
    ):
        assert [kind.kind for kind in found.windows.observations] == ["states"]
        assert [kind.kind for kind in found.windows.aside] == ["service times"]


def test_service_times_for_several_numbers_of_servers_share_a_table():
    one = windows().observations[1]
    cells = [*one.cells, *(Cell(4, cell.idle, cell.level) for cell in one.cells)]
    slower = one.sums * torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    both = ServiceTimes(torch.cat([one.data, slower.flatten(-2)], -1), cells)
    assert both.servers == (1, 4)
    seen = st.Windows(x=windows().x, observations=[both])
    fits = [
        st.fit(model, seen).estimates["service_rate"]
        for model in (st.models.MMmK(1, 20), st.models.MMmK(4, 20))
    ]
    assert fits[0] == pytest.approx(2 * fits[1], rel=1e-6)
    with pytest.raises(InputError, match=r"1, 4 servers.*has 3.*--servers 3"):
        st.fit(st.models.MMmK(3, 20), seen)


def test_they_are_written_and_read_back(tmp_path):
    data = windows()
    data.to_csv(tmp_path / "w.csv")
    again = st.read_windows(tmp_path / "w.csv")
    assert [kind.kind for kind in again.observations] == ["states", "service times"]
    torch.testing.assert_close(again.observations[1].data, data.observations[1].data)
    assert again.observations[1].shortest == 0.03


def test_a_program_that_only_reads_windows_finds_them(tmp_path):
    file = tmp_path / "w.csv"
    file.write_text("load,Q=0,Q=1,S1.idle1.n,S1.idle1.sum,S1.idle1.sq\n4,3,1,30,3.3,0.7\n")
    read = f"stationary.read_windows({str(file)!r})"
    code = f"import stationary; print([each.kind for each in {read}.observations])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['states', 'service times']", done.stderr


def test_a_plan_with_them_is_saved_whole(tmp_path):
    plan = st.plan(windows(), servers=1, capacity=20, slo="loss < 1%")
    plan.save(tmp_path / "plan")
    again = st.load(tmp_path / "plan")
    assert again.windows == plan.windows
    assert (again.limit.load, again.limit.low) == (plan.limit.load, plan.limit.low)


def test_drawn_times_have_the_moments_of_the_model():
    data = windows(rows=200).informing([model()])
    fitted = Service(1, 20, overhead=0.03, service_rate=5.0, variability=0.2)
    kind = data.observations[0].on(fitted)
    drawn = kind.draw(fitted.at(data.x), np.random.default_rng(0))
    number, seconds, _ = drawn.sums.sum(0).unbind(-1)
    torch.testing.assert_close(
        seconds / number, torch.tensor([0.23, 0.2, 0.2], dtype=torch.float64), rtol=0.01, atol=0
    )


@pytest.mark.parametrize(
    ("data", "cells", "words"),
    [
        ([[1.0, 2.0]], [(1, True, 1)], "3 columns"),
        ([[1.0, 2.0, -3.0]], [(1, True, 1)], "S1.idle1.sq.*-3"),
        ([[1.0, 2.0, np.nan]], [(1, True, 1)], "S1.idle1.sq"),
    ],
)
def test_bad_tables_are_refused(data, cells, words):
    with pytest.raises(InputError, match=words):
        ServiceTimes(data, cells)


def test_a_file_that_lacks_a_column_of_sums_says_so(tmp_path):
    (tmp_path / "w.csv").write_text("load,S1.idle1.n,S1.idle1.sum\n1,10,2\n2,10,2\n")
    with pytest.raises(InputError, match=r"S1\.idle1\.sq"):
        st.read_windows(tmp_path / "w.csv")


def test_a_window_in_which_every_request_was_lost_is_kept():
    data = windows()
    table = data.observations[1].data.clone()
    table[3] = 0
    kind = data.observations[1].with_data(table)
    both = st.Windows(data.x, observations=[data.states, kind])
    fit = st.fit(model(), both)
    assert len(fit.windows) == len(data)
    assert fit.converged


def test_what_lies_aside_is_written_too(tmp_path):
    windows().informing([model()]).to_csv(tmp_path / "w.csv")
    again = st.read_windows(tmp_path / "w.csv")
    assert {kind.kind for kind in again.observations} == {"states", "service times"}


def test_pooled_windows_of_several_kinds_give_the_same_fit():
    whole = st.fit(model(), windows())
    pooled = st.fit(model(), windows().pooled())
    assert pooled.estimates["service_rate"] == pytest.approx(whole.estimates["service_rate"])
    np.testing.assert_allclose(pooled.covariance.matrix, whole.covariance.matrix, rtol=1e-4)


def test_an_overhead_is_not_longer_than_the_shortest_time():
    free = windows(rows=40)
    times = next(kind for kind in free.observations if isinstance(kind, ServiceTimes))
    known = ServiceTimes(times.data, times.cells, shortest=OVERHEAD / 2)
    bound = st.Windows(free.x, observations=[known])
    assert st.fit(model(), free).estimates["overhead"] > 0.8 * OVERHEAD
    assert st.fit(model(), bound).estimates["overhead"] < 0.7 * OVERHEAD
