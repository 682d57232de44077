"""What the data at hand determine, before anyone believes a forecast."""

from stationary.identifiability.directions import Direction
from stationary.identifiability.identify import Identifiability, identify

__all__ = ["Direction", "Identifiability", "identify"]
