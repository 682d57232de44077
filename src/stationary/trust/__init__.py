"""How far a model may be believed: refits, comparison, checks, identifiability."""
