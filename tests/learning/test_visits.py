"""A long second-order fit that is cut off goes on where it was, to the same bits."""

import numpy as np
import pytest

import stationary as st
from stationary.errors import InputError, RunError
from stationary.learning import checkpoints
from stationary.learning.checkpoints import CHECKPOINT, VisitedPoints
from stationary.solvers import GTH

MODEL = st.models.MMmK(servers=2, capacity=6)
WINDOWS = st.simulate(
    st.models.MMmK(servers=2, capacity=6, service_rate=8.0), x=[6.0, 9.0, 12.0] * 4, seed=3
).observing([0, 1, 2])


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr("stationary.models.chunks._SPARSE", 1)
    monkeypatch.setattr("stationary.models.chunks._NUMBERS", 1)


class Counting(GTH):
    """Counts its factors, and dies at one of them."""

    made = 0
    dies_at = 10**9

    def factor(self, generator):
        type(self).made += 1
        if self.made == self.dies_at:
            raise KeyboardInterrupt
        return super().factor(generator)


def solver(dies_at=10**9):
    return type("Mine", (Counting,), {"made": 0, "dies_at": dies_at})()


def test_cut_off_and_resumed_gives_the_same_bits(tmp_path):
    straight = solver()
    whole = st.fit(MODEL, WINDOWS, solver=straight)
    with pytest.raises(KeyboardInterrupt):
        st.fit(
            MODEL, WINDOWS, method=st.Newton(folder=tmp_path / "long"), solver=solver(dies_at=10)
        )
    with pytest.raises(InputError, match="holds an unfinished run"):
        st.fit(MODEL, WINDOWS, method=st.Newton(folder=tmp_path / "long"))
    rest = solver()
    resumed = st.fit(
        MODEL, WINDOWS, method=st.Newton(folder=tmp_path / "long", resume=True), solver=rest
    )
    assert resumed.estimates == whole.estimates
    assert resumed.nll == whole.nll
    assert np.array_equal(resumed.covariance.matrix, whole.covariance.matrix)
    # Three whole visits of three inputs each were not made again.
    assert rest.made == straight.made - 9


def test_a_folder_is_free_again_when_the_fit_has_ended(tmp_path):
    first = st.fit(MODEL, WINDOWS, method=st.Newton(folder=tmp_path))
    again = solver()
    resumed = st.fit(MODEL, WINDOWS, method=st.Newton(folder=tmp_path, resume=True), solver=again)
    assert resumed.estimates == first.estimates
    other = WINDOWS.observing([0, 1])
    assert st.fit(MODEL, other, method=st.Newton(folder=tmp_path)).windows is other
    with pytest.raises(InputError, match="resume=True needs folder="):
        st.Newton(resume=True)


def test_other_counts_are_another_run(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        st.fit(MODEL, WINDOWS, method=st.Newton(folder=tmp_path), solver=solver(dies_at=5))
    swapped = st.Windows(WINDOWS.x, WINDOWS.counts, observe=[0, 1, 3])
    with pytest.raises(RunError, match="of another run"):
        st.fit(MODEL, swapped, method=st.Newton(folder=tmp_path, resume=True))


def test_a_large_chain_has_one_start():
    assert st.fit(MODEL, WINDOWS).estimate.starts == 1
    method = st.Newton(starts=2)
    assert st.fit(MODEL, WINDOWS, method=method).estimate.starts == 2


def test_points_read_back_to_the_same_bits_and_a_part_that_a_kill_left_is_not_read(tmp_path):
    visits = VisitedPoints(tmp_path, "me")
    for k in range(3):
        visits.keep(np.array([0.1 * k]), (1 / 3, np.array([k / 7]), np.array([[2.0]])))
    (tmp_path / f".{CHECKPOINT}.0123.part").write_bytes(b"half")
    again = VisitedPoints(tmp_path, "me", resume=True)
    value, gradient, _ = again.get(np.array([0.1 * 2]))
    assert (value, gradient[0]) == (1 / 3, 2 / 7)
    again.keep(np.array([0.3]), (1.0, np.zeros(1), np.zeros((1, 1))))
    last = VisitedPoints(tmp_path, "me", resume=True)
    assert all(last.get(np.array([0.1 * k])) for k in range(3))
    assert last.get(np.array([0.3]))[0] == 1.0


def test_another_run_or_a_damaged_file_is_refused(tmp_path):
    VisitedPoints(tmp_path, "me")
    with pytest.raises(RunError, match="of another run"):
        VisitedPoints(tmp_path, "you", resume=True)
    points = [{"0": {"value": 1.0}}, {"0": None}, [], None]
    for state in ({}, *({"points": each} for each in points)):
        checkpoints.write(tmp_path / CHECKPOINT, {"owner": "me", **state})
        with pytest.raises(RunError, match="is damaged"):
            VisitedPoints(tmp_path, "me", resume=True)
    (tmp_path / CHECKPOINT).write_bytes(b"{}\n")
    with pytest.raises(RunError, match="is damaged"):
        VisitedPoints(tmp_path, "me", resume=True)
