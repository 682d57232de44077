"""Models written as rules: ``GUARD -> CHANGES at RATE``."""
