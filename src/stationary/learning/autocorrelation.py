r"""What counts inside one window are worth: the chain's own autocorrelation.

Successive samples find nearly the same state, so a sum over them scatters more than a sum over
independent ones. Let ``E`` be the transition matrix from one sample to the next, ``pi`` the
distribution of the state that a sample finds, and ``f`` a function of the state with ``pi f = 0``,
such as the score. The sum of ``f`` over N samples of a chain in its steady state has the variance

    N <f, f> + 2 sum_{k=1}^{N-1} (N - k) <f, E^k f>,      <a, b> = sum_j pi_j a_j b_j.

With the deviation matrix ``D = (I - E + 1 pi)^-1 - 1 pi``, which is ``sum_k E^k`` on such ``f``,
the sum over k is ``(N - 1) E D f - (E^2 - E^(N+1)) D^2 f``.

- Samples at regular times, ``r`` per unit of time: ``E = exp(Q / r)``.
- Poisson arrivals at the load, which join after they see the state: with ``J`` what an arrival does
  to the state and ``S`` the generator without arrivals, ``E = J load (load I - S)^-1``.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from stationary._support.threads import one_thread
from stationary._support.types import Array
from stationary.data.states import Sampling
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.generator import Generator
from stationary.models import Model
from stationary.steady import steady_state

_MOST_STATES = 1000
"""Most states for which the dense matrices between samples are made."""


@torch.no_grad()
def obstacle(
    model: Model, windows: Windows, theta: Tensor, inputs: Tensor | None = None
) -> str | None:
    """Return what keeps the chain from saying how its counts are correlated, if anything does.

    At these parameters and inputs ``[U, d]``; by default those of the windows.
    """
    inputs = model.as_inputs(torch.unique(windows.x, dim=0)) if inputs is None else inputs
    name = type(model).__name__
    if len(model.states) > _MOST_STATES:
        return f"it needs dense matrices, and {len(model.states)} states are too many for them"
    if len(windows.observations) > 1 or not windows.has_states:
        return "it needs counts of states, and something else was observed"
    if windows.by_arrivals and model.arrivals(model.at(windows.x[:1])) is not None:
        return "requests arrive at a rate that depends on the state"
    if windows.sampling is Sampling.TIME:
        return (
            None
            if windows.duration is not None
            else ("the length of a window is not known; pass duration= (--duration)")
        )
    once, twice, thrice = _at_multiples(model, inputs, theta)
    rates = twice - once
    if not torch.allclose(thrice - twice, rates) or bool((rates < -1e-9 * twice).any()):
        return f"the rates of {name} do not grow in proportion to the load"
    arriving = Generator(model.edges, rates.clamp_min(0.0)).exit_rates()
    above = bool((arriving > inputs[:, :1] * (1 + 1e-9)).any())
    return f"in {name} more than the load arrives in some state" if above else None


def sum_covariances(
    model: Model, windows: Windows, theta: Tensor, inputs: Tensor, samples: Array, f: Array
) -> Array:
    """Covariance ``[U, P, P]`` of sums over the samples of a window at each input.

    Of functions ``f [U, n, P]`` of the state, of mean zero, over so many ``samples [U]``. The
    windows say how and for how long the chain was sampled.
    """
    reason = obstacle(model, windows, theta, inputs)
    if reason is not None:
        raise InputError(f"the chain's own correlation cannot be used: {reason}")
    with torch.no_grad():
        generator = model.generator(inputs, theta)
        pi = steady_state(generator).pi.numpy()
    samples = np.maximum(samples, 1.0)
    with one_thread():
        if windows.sampling is Sampling.ARRIVAL:
            between = _between_arrivals(model, inputs, theta, generator)
        else:
            between = _between_times(generator, samples / _lasts(windows, inputs))
        return np.stack(
            [_covariance(*each) for each in zip(between, pi, f, samples.round(), strict=True)]
        )


def score_covariance(
    model: Model, windows: Windows, theta: Tensor, slopes: Array, group: Array
) -> Array:
    """Covariance ``[P, P]`` of the summed score of all windows, if the model is right.

    From slopes ``[U, C, P]`` of the log-probabilities at every distinct input, and the distinct
    input ``[M]`` of each window.
    """
    inputs = model.as_inputs(torch.unique(windows.x, dim=0))
    observation = windows.observation(model)
    with torch.no_grad():
        pi = steady_state(model.generator(inputs, theta)).pi
    share = observation.of(pi).sum(-1).numpy()
    many = np.bincount(group, weights=windows.multiplicity.numpy())
    samples = np.bincount(group, weights=windows.counts.sum(-1).numpy()) / many / share
    f = observation.to_states(torch.from_numpy(slopes).mT).mT.numpy()
    each = sum_covariances(model, windows, theta, inputs, samples, f)
    return np.einsum("u,upq->pq", many, each)


def _lasts(windows: Windows, inputs: Tensor) -> Array:
    """Mean length of the windows at each input; of all of them where there are none."""
    assert windows.duration is not None  # noqa: S101  # `obstacle` has seen to it
    same = (windows.x[None] == inputs[:, None]).all(-1).to(windows.duration)
    here = (same @ windows.duration) / same.sum(-1)
    return here.nan_to_num(float(windows.duration.mean())).numpy()


def _between_times(generator: Generator, per_time: Array) -> Array:
    Q = generator.dense().detach().numpy()
    return np.asarray(scipy.linalg.expm(Q / per_time[:, None, None]))


def _at_multiples(model: Model, inputs: Tensor, theta: Tensor) -> list[Tensor]:
    """Rates at the load, at twice and at three times the load, with all other inputs as given."""
    first = torch.eye(inputs.shape[1])[0].to(inputs)
    return [model.edge_rates(inputs * (1 + k * first), theta) for k in range(3)]


@torch.no_grad()
def _between_arrivals(model: Model, inputs: Tensor, theta: Tensor, generator: Generator) -> Array:
    """Transition matrices from arrival to arrival; arrivals are the rates that go with the load."""
    once, twice, _ = _at_multiples(model, inputs, theta)
    arriving = Generator(generator.edges, (twice - once).clamp_min(0.0)).dense().numpy()
    load = inputs[:, 0].numpy()[:, None, None]
    identity = np.eye(generator.n)
    joins = identity + arriving / load
    rest = generator.dense().detach().numpy() - arriving
    return np.asarray(joins @ np.linalg.inv(identity - rest / load))


def _covariance(E: Array, pi: Array, f: Array, samples: float) -> Array:
    """Covariance ``[P, P]`` of the sums of the columns of ``f [n, P]`` over successive samples.

    NaN where the chain leaves some states so rarely that float64 cannot tell it from one that never
    does: then nothing is known of the correlation.
    """
    f = f - pi @ f
    try:
        deviate = np.linalg.inv(np.eye(len(E)) - E + pi)
    except np.linalg.LinAlgError:
        return np.full((f.shape[1], f.shape[1]), np.nan)
    once = deviate @ f
    twice = deviate @ once
    late = np.linalg.matrix_power(E, int(samples) - 1) @ twice
    later = (samples - 1) * E @ once - E @ E @ (twice - late)
    weighted = f.T * pi
    cross = weighted @ later
    result: Array = samples * weighted @ f + cross + cross.T
    return result
