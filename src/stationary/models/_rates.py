"""What the author of a model wrote as `Model.rates`, brought to one form and tested on a batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.models._base import Model

Keys = tuple[tuple[Any, Any], ...]

_MOST_TESTED = 10_000
"""Edges up to which the rates of a new model are tested on a batch."""


def join_rates(*parts: Tensor) -> Tensor:
    """Join the rates of several groups of edges, each ``[..., k]``, whatever their batches."""
    batch = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([part.expand(*batch, -1) for part in parts], -1)


def repeated(rate: Tensor, count: int) -> Tensor:
    """Return one rate ``[..., 1]`` for a number of edges, ``[..., count]``."""
    return rate.expand(*rate.shape[:-1], count)


def in_rows(*parts: Tensor) -> tuple[tuple[int, ...], list[Tensor]]:
    """Return the common batch of tensors ``[..., k]``, and each as rows ``[R, k]`` of it."""
    batch = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    shaped = (part.expand(*batch, -1).reshape(math.prod(batch), part.shape[-1]) for part in parts)
    return batch, list(shaped)


def shape_of(found: Any) -> Any:
    """Return the shape of a tensor, or of what type something else is, for a message."""
    return tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__


def at_ones(model: Model) -> Any:
    """Return what `Model.rates` returns where every input is 1: its form, not its values."""
    with torch.no_grad():
        ones = torch.ones(len(model.inputs), 1, 1, dtype=torch.float64)
        return model.rates(*ones, model.named(model.theta))


def edges_between(model: Model, pairs: Iterable[tuple[Any, Any]]) -> Edges:
    """Return edges between pairs of states; a number is a position, a text is a name."""
    places = [(model.state_index(i) if isinstance(i, str) else i for i in pair) for pair in pairs]
    return Edges.from_pairs([(i, j) for i, j in places], len(model.states))


def edge_keys(model: Model, rates: Any) -> Keys:
    """Return the pairs of states in rates by edge."""
    name = type(model).__name__
    if not isinstance(rates, Mapping):
        raise InputError(
            f"{name} must declare its edges, or return rates by edge, as in "
            f"{{({model.states[0]!r}, {model.states[-1]!r}): load}}"
        )
    for key in rates:
        if not isinstance(key, tuple) or len(key) != 2:
            raise InputError(f"rates of {name} are by edge, as in ('up', 'down'); got {key!r}")
    return tuple(rates)


def as_tensor(model: Model, rates: Any, keys: Keys | None, batch: Sequence[int]) -> Tensor:
    """Return rates as a tensor ``[*batch, E]``; ``keys`` is the order of rates by edge."""
    name = type(model).__name__
    if isinstance(rates, Mapping):
        rates = torch.cat([rate.expand(*batch, 1) for rate in _in_order(name, rates, keys)], -1)
    if not isinstance(rates, Tensor) or rates.shape[-1:] != (len(model.edges),):
        raise InputError(
            f"rates of {name} must be rates by edge or a tensor with an axis of "
            f"{len(model.edges)} edges; got {shape_of(rates)}"
        )
    return rates if rates.shape[:-1] == batch else rates.expand(*batch, -1)


def _in_order(
    name: str, rates: Mapping[tuple[Any, Any], Tensor], keys: Keys | None
) -> list[Tensor]:
    if keys is None or tuple(rates) != keys:
        raise InputError(
            f"rates of {name} must name the same edges at all inputs and parameters, in one order; "
            f"got {list(rates)}, before {keys}"
        )
    tensors = [torch.as_tensor(rate, dtype=torch.float64) for rate in rates.values()]
    for (source, target), rate in zip(rates, tensors, strict=True):
        if rate.ndim and rate.shape[-1] != 1:
            raise InputError(
                f"the rate from {source!r} to {target!r} of {name} must end in an axis of one "
                f"entry, as load and parameters do; got {tuple(rate.shape)}"
            )
    return tensors


def check_batches(model: Model) -> None:
    """Raise unless the rates of a batch are those of its rows, each computed alone."""
    if len(model.edges) > _MOST_TESTED:
        return
    message = (
        f"rates of {type(model).__name__} must take any batch of inputs and parameters, and treat "
        f"each row by itself; use operations along the last axis only, no .item() and no 'if' on "
        f"values (torch.where chooses)"
    )
    base = model.theta.detach()
    theta = torch.stack([base, torch.where(model.positive, base * 1.125, base + 0.125)])
    x = torch.tensor([[0.75], [1.0], [1.5]], dtype=torch.float64).expand(-1, len(model.inputs))
    try:
        with torch.no_grad():
            alone = [model.edge_rates(row[None], values)[0] for values in theta for row in x]
            batch = model.edge_rates(x, theta[:, None])
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"{message}: {error}") from error
    expected = torch.stack(alone).reshape(batch.shape)
    if not torch.allclose(batch, expected, rtol=1e-9, atol=0.0, equal_nan=True):
        raise InputError(message)
