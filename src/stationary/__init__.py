"""Learn Markov chains from what they look like in the long run.

Names are loaded on first use, so that ``stationary --help`` need not wait for torch; what is public
stands in ``__init__.pyi``.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
