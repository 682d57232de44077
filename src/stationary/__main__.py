"""`python -m stationary` is the command line."""

from stationary.cli import main

if __name__ == "__main__":
    main()
