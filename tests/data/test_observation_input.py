"""Observations of a user's own are checked as the built-in ones are."""

import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError

M = st.models


def test_a_subclass_does_not_take_the_name_of_its_kind():
    class MyStates(st.States):
        pass

    assert st.Observation.kinds["states"] is st.States
    with pytest.raises(InputError, match="states"):

        class Others(st.States):
            kind = "states"


@pytest.mark.parametrize(
    "counts", [[[60, -40]], [[60, 0.5]], [[60, np.nan]], [60, 40], [[1, 2, 3]]]
)
def test_counts_of_any_kind_are_checked(counts):
    class Two(st.Counts):
        columns = ("idle", "busy")

        def on(self, model):
            return self

        def probabilities(self, point):
            return torch.cat([point.pi[..., :1], 1 - point.pi[..., :1]], -1)

    with pytest.raises(InputError, match="count"):
        Two(counts)


def test_windows_have_one_table_of_states():
    one = st.States([[3, 4]], [0, 1])
    with pytest.raises(InputError, match="one table of counts of states"):
        st.Windows([1.0], observations=[one, one])
    for wrong in ([5], 5):
        with pytest.raises(InputError, match="observations"):
            st.Windows([1.0], observations=wrong)
