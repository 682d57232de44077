"""Test settings."""

import hypothesis

# Reproducible runs; compiled kernels make the first example slow, so no deadline.
hypothesis.settings.register_profile("stationary", deadline=None, derandomize=True)
hypothesis.settings.load_profile("stationary")
