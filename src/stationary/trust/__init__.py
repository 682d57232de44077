"""How far a model may be trusted: refits, comparison, checks, identifiability."""
