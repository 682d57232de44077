"""Test settings."""

import hypothesis
import torch

# Reproducible runs; compiled kernels make the first example slow, so no deadline.
hypothesis.settings.register_profile("stationary", deadline=None, derandomize=True)
hypothesis.settings.load_profile("stationary")

# On tensors of this size torch's threads cost more than they give, most of all on a busy machine.
# Tests of our own threads ask for more.
torch.set_num_threads(1)
