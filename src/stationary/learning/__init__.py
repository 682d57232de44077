"""From a model and windows to estimates, and from estimates to draws."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, submodules={"covariances", "optimisers"})
