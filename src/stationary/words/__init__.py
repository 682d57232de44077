"""Sentences about results, each built once, for terminal, page and alerts alike.

Everything else passes codes and numbers. Nothing here loads torch, numpy or pandas.
"""

from stationary.words.answers import (
    RANKED,
    assumed_capacity,
    change,
    changed_limit,
    choice,
    doubt,
    experiment,
    horizon,
    interval,
    limit,
    limit_of,
    missed_first,
    plan_answer,
    untrusted_rows,
    what_if,
)
from stationary.words.explanations import explanation
from stationary.words.findings import clause, finding
from stationary.words.fits import (
    covariance,
    ended,
    left_out,
    not_fitted,
    observed,
    plan,
    summary,
    warnings,
)
from stationary.words.headlines import (
    NO_MEASURES,
    Facts,
    above_limit,
    as_html,
    at_load,
    at_load_facts,
    cautions,
    headroom,
    held,
    limit_facts,
    near_limit,
    no_limit,
    preferred,
    refits,
    untrusted,
)
from stationary.words.identifiability import direction, directions, identifiability
from stationary.words.numbers import (
    about,
    bounds,
    ends,
    listed,
    load_range,
    number,
    percent,
    plain,
    plural,
    seconds,
    sentence,
    unit_of,
    value,
)
from stationary.words.plans import (
    AT_LOAD,
    COMPUTING,
    assumed,
    breakdown,
    bullet,
    checked,
    demo_data,
    demo_score,
    felt_window,
    grounds,
    odd_window,
    plan_screen,
    rests_on,
    unobserved,
    used_up,
    warned,
    windows_left_out,
)
