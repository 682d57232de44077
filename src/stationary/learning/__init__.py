"""From a model and windows to estimates, and from estimates to draws."""
