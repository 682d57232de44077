"""Files that appear whole or not at all, parallel runs, threads."""
