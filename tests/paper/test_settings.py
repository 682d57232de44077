import pytest
import torch

from stationary.paper.settings import draw, rows
from stationary.paper.tables import gap_table

SIMULATED = [name for name, row in rows().items() if row.simulated]


@pytest.mark.parametrize("name", SIMULATED)
def test_gaps_are_the_printed_ones_where_settings_follow_the_numbers(name):
    row = rows()[name]
    assert next(gap_table([row]))["equal"] == ("no" if row.source == "text" else "yes")


def test_a_data_set_is_reproducible_and_fresh_by_seed():
    row = rows()["mm1k-fast"]
    first, again, other = draw(row, 3), draw(row, 3), draw(row, 4)
    assert torch.equal(first.windows.counts, again.windows.counts)
    assert not torch.equal(first.windows.counts, other.windows.counts)
    assert len(first.windows) == 50
    assert first.windows.loads.unique().tolist() == [11, 12, 13, 14, 15]


def test_the_target_is_the_closed_form_loss():
    problem = draw(rows()["mm1k-fast"], 0)
    rho = problem.x[:, 0] / 25
    loss = rho**19 * (1 - rho) / (1 - rho**20)
    assert torch.allclose(problem.target, loss, rtol=1e-12)


def test_events_per_window_follow_the_event_rate():
    """Samples per window are Poisson(gamma) + 1; gamma is the row's margin above the exit rates."""
    row = rows()["mm1k-fast"]
    samples = torch.cat([draw(row, seed).windows.counts.sum(-1) for seed in range(40)])
    gamma = sum(x + 25 + row.margin for x in range(11, 16)) / 5
    assert abs(samples.mean() - 1 - gamma) < 4 * (gamma / len(samples)) ** 0.5


def test_what_a_method_sees_is_the_observed_states():
    problem = draw(rows()["mmmmr"], 0)
    seen = problem.observed()
    assert seen.observe == (0, 1)
    assert seen.counts.sum() == problem.windows.counts[:, :2].sum()
    assert len(seen) < len(problem.windows) == 50  # some windows saw neither


@pytest.mark.parametrize("name", ["mm1k-fast", "multiple", "gap-multiple"])
def test_a_method_does_not_know_the_truth(name):
    """Where a fit starts depends on the loads only."""
    row = rows()[name]
    start = row.family().start(torch.tensor(row.train_loads(), dtype=torch.float64)[:, None])
    assert len(set(start.tolist())) == 1
    assert row.family().theta.tolist() != row.truth
