"""Measures of a queue, by hand and by Little's law."""

import math

import pytest
import torch

import stationary as st
from stationary.errors import InputError
from stationary.models import measures


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


QUEUE = st.models.MMmK(servers=2, capacity=3)
POINT = QUEUE.at([4.0]).with_pi(tensor([0.1, 0.2, 0.3, 0.4]))


@pytest.mark.parametrize(
    ("measure", "value", "high"),
    [
        ("loss", 0.4, 1.0),
        ("mean_queue", 0.2 + 2 * 0.3 + 3 * 0.4, 3.0),
        ("throughput", 4.0 * 0.6, math.inf),
        ("response_time", 2.0 / 2.4, math.inf),
        ("utilisation", 0.5 * 0.2 + 0.3 + 0.4, 1.0),
    ],
)
def test_measures_and_their_ranges_by_hand(measure, value, high):
    named = QUEUE.measure(measure)
    assert (named.low, named.high) == (0.0, high)
    assert named(POINT).tolist() == pytest.approx([value])
    assert named.about


def test_rewards_and_probabilities():
    profit = measures.reward(tensor(-5.0, 1.0, 2.0, 3.0))
    assert profit(POINT).tolist() == pytest.approx([-0.5 + 0.2 + 0.6 + 1.2])
    assert (profit.low, profit.high) == (-math.inf, math.inf)
    ends = measures.probability(torch.tensor([1, 0, 0, 1]))
    assert ends(POINT).tolist() == pytest.approx([0.5])
    assert (ends.low, ends.high) == (0.0, 1.0)


def test_a_rare_loss_keeps_its_digits():
    # 1 - throughput / load would have none left.
    model = st.models.MMmK(servers=1, capacity=30, service_rate=10.0)
    loss = model.measure("loss")(model.at([1.0]))
    assert loss.tolist() == pytest.approx([0.9e-30 / (1 - 1e-31)], rel=1e-13)


def test_a_measure_of_ones_own():
    model = st.models.MMmK(servers=1, capacity=3)
    idle = measures.Measure(lambda point: point.pi[..., 0], 0.0, 1.0, "nobody here")
    assert idle(model.at([1.0])).tolist() == pytest.approx([0.25])
    assert idle(model.at([1.0])).tolist() == model.measure("p_0")(model.at([1.0])).tolist()


def test_what_is_no_measure_is_told_which_there_are():
    with pytest.raises(InputError, match=r"MMmK.*'waiting'.*loss, response_time, p50"):
        st.models.MMmK().measure("waiting")
