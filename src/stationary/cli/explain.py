"""``stationary explain``: how a saved plan came to its answer, in a page."""

from __future__ import annotations

from pathlib import Path

import stationary as st
from stationary import words
from stationary.cli._options import Asking, check_saved, command_of
from stationary.cli._say import say
from stationary.cli._show import stages
from stationary.errors import InputError


@command_of
def explain(*, run: Path) -> None:
    """Explain an answer: its data, the models tried, the checks, the assumptions, the interval.

    stationary explain plan/
    """
    check_saved(run, Asking())
    plan = st.load(run)
    if not plan.question.slos:
        raise InputError(f"{run} was made without an SLO, so that there is no answer to explain")
    with stages() as progress:
        progress("tracing the answer")
        text = words.explanation(plan)
    say(text)
