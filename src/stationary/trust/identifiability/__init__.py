"""What the data at hand determine, before anyone believes a forecast."""

from stationary.trust.identifiability.directions import Direction, DirectionKind
from stationary.trust.identifiability.identify import Identifiability, identify

__all__ = ["Direction", "DirectionKind", "Identifiability", "identify"]
