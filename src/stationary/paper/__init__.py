"""The paper's tables, figures and examples: settings as data, one runner, and its way to fit.

`training` is the paper's way in one line, `table` sets estimators of one's own beside the paper's.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
