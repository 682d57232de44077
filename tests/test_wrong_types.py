"""A wrong type gets a sentence that names it, never an AttributeError."""

import pytest
import torch

import stationary as st

M = st.models
Q = torch.rand(3, 3, dtype=torch.float64)

WRONG = {
    "a model by its name": lambda: st.fit("mmmk", None),
    "a class for a model": lambda: st.fit(M.MMmK, None),
    "no windows": lambda: st.fit(M.MMmK(), None),
    "a solver by its name": lambda: st.steady_state(Q, solver="gth"),
    "a gradient by its name": lambda: st.steady_state(Q, gradient="exact"),
    "no chain": lambda: st.steady_state(None),
    "text for rates": lambda: st.Generator.from_dense("x"),
    "text for pairs": lambda: st.Edges.from_pairs("x", 3),
    "a text for a bound": lambda: st.mixing_time(Q, eps="a"),
    "a relaxed name": lambda: M.Relaxed("mmmk", alpha=1.0),
    "a text for alpha": lambda: M.Relaxed(M.MMmK(), alpha="q"),
    "a number for a function": lambda: M.FromFunction(5, states=2, params={}),
    "an option that the class decides": lambda: M.ErlangService(servers=2),
    "a number of items": lambda: M.PCMC(items=5),
    "text for probabilities": lambda: st.conditional_nll("x", "y", [0]),
    "a run by its number": lambda: st.load(5),
    "a file by its number": lambda: st.read_windows(5),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_type_gets_a_sentence(case):
    with pytest.raises(st.errors.StationaryError, match=r"\w+ \w+ \w+"):
        WRONG[case]()
