"""What if: the fit of a system as it might be, from the fit of the system as it is."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.forecast import Horizon
from stationary.models import Model, Relaxed
from stationary.result import Fit
from stationary.scales import Scale

_NOTE = "what if: {}; not observed, the data is of the system as it was"
_BEFORE, _AFTER = _NOTE.split("{}")


def what_if(fit: Fit, *, faster: float | None = None, **options: Any) -> Fit:
    """Return the fit of the same system with other options, or with faster servers.

    What was learnt carries over, with its covariance: the parameters are those of a server or of a
    client, not of how many there are. That the system would go on like this is an assumption, which
    a note on the result says.

    Parameters
    ----------
    fit : Fit
        A fit of the system as it is.
    faster : float, optional
        Every server works this many times as fast: 1.2 is a fifth faster.
    **options
        New values of the model's options, such as ``servers=5`` or ``capacity=30``.

    Returns
    -------
    Fit
        To forecast from. Its likelihood, data and convergence are those of the fit it came from.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.MMmK(servers=2, capacity=10, service_rate=25.0)
    >>> windows = st.simulate(truth, x=[20.0, 30.0, 40.0] * 10, duration=10.0, seed=0)
    >>> fit = st.fit(st.models.MMmK(servers=2, capacity=10), windows.observing([0, 1, 2]))
    >>> changed = what_if(fit, servers=3)
    >>> changed.notes
    ('what if: servers 2 -> 3; not observed, the data is of the system as it was',)
    >>> changed.max_load(loss=0.01).load / fit.max_load(loss=0.01).load > 1.4
    True
    """
    if faster is None and not options:
        raise InputError(
            "what_if needs something that changes, such as servers=5, capacity=30 or faster=1.2"
        )
    before = changeable(fit.model)
    for name in options:
        if name in before:
            continue
        learnt = f"{name} is learnt: " if name in fit.model.param_names else ""
        raise InputError(
            f"{learnt}{_called(fit.model)} has no option {name!r} to change; it has "
            f"{', '.join([*before, 'faster'])}"
        )
    model = fit.model.changed(**options)
    after = changeable(model)
    said = [f"{k} {before[k]} -> {after[k]}" for k in options if after[k] != before[k]]
    factor = torch.ones_like(fit.model.theta.detach())
    if faster is not None:
        factor[_service(fit.model)] = _speed(faster)
        said += [f"servers {faster:g} times as fast"] * (faster != 1)
    if not said:
        return fit
    model.set_theta(fit.model.theta.detach() * factor)
    scale = fit.covariance.scale
    return replace(
        fit,
        model=model,
        # A factor moves a logarithm and leaves its spread; a multiple of a unit moves with it.
        covariance=replace(
            fit.covariance,
            scale=Scale(scale.log, torch.where(scale.log, scale.unit, scale.unit * factor)),
        ),
        notes=(*fit.notes, what_if_note(", ".join(said))),
        tested=_horizon(fit, before, after, faster),
    )


def _horizon(
    fit: Fit, before: dict[str, Any], after: dict[str, Any], faster: float | None
) -> Horizon:
    """Return how far the system that was observed is believed, a server and a speed alike."""
    more = after["servers"] / before["servers"] if "servers" in before else 1.0
    return replace(fit.horizon, load=fit.horizon.load * more * (faster or 1.0))


def what_if_note(change: str) -> str:
    """Say of a change, such as ``servers 4 -> 5``, that it was not observed."""
    return _NOTE.format(change)


def changed(fit: Fit) -> tuple[str, ...]:
    """Return what `what_if` changed, for people; nothing for the fit of an observed system."""
    return tuple(
        note.removeprefix(_BEFORE).removesuffix(_AFTER)
        for note in fit.notes
        if note.startswith(_BEFORE)
    )


def changeable(model: Model) -> dict[str, Any]:
    """Return the options that `what_if` can change, with their present values."""
    return model.changeable


def _service(model: Model) -> Tensor:
    """Return which parameters are speeds of service, or raise if none is."""
    names = model.declared()
    fast = [name for name in model.speed if name in names]
    if not fast:
        raise InputError(
            f"{_called(model)} has no service rate to make faster; its parameters are {_few(model)}"
        )
    sizes = {name: len(param.labels or ()) for name, param in names.items()}
    return torch.cat([torch.full((size,), name in fast) for name, size in sizes.items()])


def _speed(faster: float) -> float:
    if not isinstance(faster, Real) or not 0 < faster < math.inf:
        raise InputError(
            f"faster must be positive and finite, as in 1.2 for a fifth faster; got {faster!r}"
        )
    return float(faster)


def _called(model: Model) -> str:
    base = f" of {type(model.base).__name__}" if isinstance(model, Relaxed) else ""
    return type(model).__name__ + base


def _few(model: Model) -> str:
    names = model.param_names
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, ..., {names[-1]}"
