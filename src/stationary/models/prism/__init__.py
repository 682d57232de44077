"""Models in the language of PRISM, read by Storm."""
