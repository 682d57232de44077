"""The language of formulas: what it means, and how it refuses."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from stationary.errors import InputError
from stationary.models.rules import evaluate, on_arrays, parse

Q = np.array([0.0, 1.0, 2.0, 5.0, 9.0])
R = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
NAMES = {"q": Q, "r": R, "lambda": R}


def read(text, condition=None):
    return parse(text, NAMES, {"K": 4, "low": -3}, condition)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4 / 8", 6.5),
        ("2 - 3 - 4", -5.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("2 ** -1 * 4", 2.0),
        ("-2 ^ 2 + --3 + low ^ 2", 8.0),
        ("8 / 4 / 2 * K", 4.0),
        ("q + lambda", Q + R),
        ("mod(q, 2) + mod(-1, 3)", Q % 2 + 2),
        ("min(q, r, 2) + max(q, r)", np.minimum(np.minimum(Q, R), 2) + np.maximum(Q, R)),
        ("if(q > r, q - r, 10 * r)", np.where(Q > R, Q - R, 10 * R)),
        ("if(q > 2, q < r, q > 0)", np.where(Q > 2, Q < R, Q > 0)),
        ("exp(q / 10) + log(r) + sqrt(q)", np.exp(Q / 10) + np.log(R) + np.sqrt(Q)),
        ("abs(q - r) + floor(q / 2) - ceil(r / 2)", abs(Q - R) + Q // 2 - -(-R // 2)),
        ("1.5e1 + .5 + 2. + 007", 24.5),
        ("not q > 2 and r = 3 or q == 9", (~(Q > 2) & (R == 3)) | (Q == 9)),
        ("!(q > 2) & r != 3 | q >= 9", (~(Q > 2) & (R != 3)) | (Q >= 9)),
        ("q < 2 or q <= r and r < 2", (Q < 2) | ((Q <= R) & (R < 2))),
        ("1 / 0 + 0 * q", math.inf),
        ("log(0 - r)", math.nan),
    ],
)
def test_numpy_and_torch_give_the_same_values(text, expected):
    formula = read(text)
    got = on_arrays(formula, NAMES)
    np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-15)
    tensors = {name: torch.from_numpy(value) for name, value in NAMES.items()}
    found = evaluate(formula, tensors, torch).numpy()
    np.testing.assert_allclose(np.broadcast_to(found, got.shape), got, rtol=1e-15)


def test_derivatives_are_those_of_the_formula():
    x, mu = torch.tensor([[0.3], [1.2]]).double(), torch.tensor(0.7).double()
    text = "if(x > 1, x * mu ^ 2, exp(-mu * x)) + min(x, mu) + abs(x - 2) * sqrt(mu) / log(x + 3)"
    formula = parse(text, ["x", "mu"])

    def function(x, mu):
        return evaluate(formula, {"x": x, "mu": mu}, torch)

    inputs = x.requires_grad_(), mu.requires_grad_()
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "missing or misplaced at the end"),
        ("q +", 4, "missing or misplaced at the end"),
        ("(q + 1", 1, "never closed"),
        ("q + 1)", 6, "unmatched"),
        ("q $ 1", 3, r"'\$' means nothing here"),
        ("q \0", 3, "means nothing here"),
        ("3 q", 3, "missing or misplaced at 'q'"),
        ("q at r", 3, "misplaced at 'at'"),
        ("q // r", 4, "misplaced at '/'"),
        ("mim(q, 1)", 1, "no function 'mim'; did you mean 'min'"),
        ("nu + 1", 1, "no 'nu' here"),
        ("min(q)", 1, "min takes 2 or more argument"),
        ("min(**q)", 1, "not part of the language"),
        ("q(1)(2)", 1, "not part of the language"),
        ("q, r", 1, "not part of the language"),
        ("+q", 1, "not part of the language"),
        ("if(q, 1, 2)", 4, "the first argument of if needs a condition"),
        ("if(q > 1, q > 2, 2)", 1, "both branches"),
        ("1 < q < 3", 9, "cannot be chained: write 'a < b and b < c'"),
        ("q and r", 1, "and needs a condition here, and this is a number"),
        ("1 + (q > 2)", 6, r"\+ needs a number here.*if\(condition, 1, 0\)"),
        ("1e999", 1, "1e999 is too large"),
        ("__import__('os').system('true')", 12, "means nothing here"),
        ("__import__(os)", 1, "no function '__import__'"),
        ("q.real", 2, "'.' means nothing"),
        ("lambda: q", 7, "':' means nothing"),
        ("q := 1", 3, "':' means nothing"),
        ("q if q > r else r", 3, "misplaced at 'if'"),
        ("q\n + \n  * r", 3, r"line 3.*misplaced at '\*'"),
        ("q + " * 90 + "$", 361, "means nothing here"),
    ],
)
def test_errors_point_at_the_place(text, column, reason):
    with pytest.raises(InputError, match=reason) as caught:
        read(text)
    first, shown, below = str(caught.value).splitlines()
    assert f"column {column}:" in first
    line = text.split("\n")[-1]
    assert len(shown) <= 102
    # The caret stands below the character, also where only a part of a long line is shown.
    assert (shown + " ")[below.index("^")] == (line + " ")[column - 1]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + "1" + ")" * 500,
        "-" * 3900 + "1",
        "1 + " * 500 + "1",
        "2 ^ " * 500 + "1",
        "not " * 500 + "q > 1",
        "max(1, " * 400 + "1" + ")" * 400,
    ],
    ids=["parentheses", "minus", "sum", "powers", "not", "calls"],
)
def test_a_deep_nest_is_a_clear_error(text):
    with pytest.raises(InputError, match="nested more than 150 deep; simplify or split"):
        read(text)


def test_a_long_text_is_a_clear_error():
    with pytest.raises(InputError, match="5001 characters are too many"):
        read(" " * 5000 + "1")


def test_the_deepest_formula_can_be_copied_and_sent_to_another_process():
    formula = read("1 + " * 148 + "q")
    assert pickle.loads(pickle.dumps(formula)) == formula  # noqa: S301
    assert copy.deepcopy(formula) == formula


PIECES = """
q r 1 2.5 + - * / ^ ** ( ) < <= = == != and or not & | ! min( if( , -> at 1e9 [ ' os . __class__
lost else lambda
"""


@settings(max_examples=400)
@given(
    some.one_of(
        some.text(max_size=40),
        some.lists(some.sampled_from(PIECES.split()), max_size=15).map(" ".join),
    )
)
def test_random_text_is_computed_or_refused(text):
    try:
        formula = read(text)
    except InputError:
        return
    assert on_arrays(formula, NAMES).shape == Q.shape
