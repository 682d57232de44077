"""Windows: what was observed at each load, and how it is read from files.

Names are loaded on first use: a file can be opened and checked without torch.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
