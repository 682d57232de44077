"""What the data determine: flat directions of the likelihood, and ranges of answers."""

from stationary.trust.identifiability.directions import Direction, DirectionKind
from stationary.trust.identifiability.identify import Identifiability, identify

__all__ = ["Direction", "DirectionKind", "Identifiability", "identify"]
