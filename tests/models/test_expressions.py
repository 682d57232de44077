"""The language of expressions: what it means, what it prints, how it refuses."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from stationary.errors import InputError
from stationary.models.rules.formulas import (
    TORCH,
    Apply,
    Name,
    Number,
    on_arrays,
    parse,
    postfix,
    run,
)

Q = np.array([0.0, 1.0, 2.0, 5.0, 9.0])
R = np.array([3.0, 1.0, 4.0, 1.0, 5.0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4 / 8", 6.5),
        ("2 - 3 - 4", -5.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("2 ** -1 * 4", 2.0),
        ("-2 ^ 2", -4.0),
        ("--3", 3.0),
        ("8 / 4 / 2", 1.0),
        ("q + r", Q + R),
        ("mod(q, 2) + mod(-1, 3)", Q % 2 + 2),
        ("min(q, r, 2) + max(q, r)", np.minimum(np.minimum(Q, R), 2) + np.maximum(Q, R)),
        ("if(q > r, q - r, 10 * r)", np.where(Q > R, Q - R, 10 * R)),
        ("exp(q / 10) + log(r) + sqrt(q)", np.exp(Q / 10) + np.log(R) + np.sqrt(Q)),
        ("abs(q - r) + floor(q / 2) - ceil(r / 2)", abs(Q - R) + Q // 2 - -(-R // 2)),
        ("1.5e1 + .5 + 2.", 17.5),
        ("not q > 2 and r = 3 or q == 9", (~(Q > 2) & (R == 3)) | (Q == 9)),
        ("!(q > 2) & r != 3 | q >= 9", (~(Q > 2) & (R != 3)) | (Q >= 9)),
        ("q < 2 or q <= r and r < 2", (Q < 2) | ((Q <= R) & (R < 2))),
    ],
)
def test_both_arithmetics_agree_with_numpy(text, expected):
    program = postfix(parse(text))
    names = {"q": Q, "r": R}
    got = on_arrays(program, names)
    np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-15)
    tensors = {name: torch.from_numpy(value) for name, value in names.items()}
    found = run(program, tensors, TORCH).numpy()
    np.testing.assert_allclose(np.broadcast_to(found, got.shape), got, rtol=1e-15)


def test_derivatives_are_those_of_the_formula():
    x, mu = torch.tensor([[0.3], [1.2]]).double(), torch.tensor(0.7).double()
    x.requires_grad_()
    mu.requires_grad_()
    text = "if(x > 1, x * mu ^ 2, exp(-mu * x)) + min(x, mu) + abs(x - 2) * sqrt(mu) / log(x + 3)"
    program = postfix(parse(text))

    def function(x, mu):
        return run(program, {"x": x, "mu": mu}, TORCH)

    assert torch.autograd.gradcheck(function, (x, mu))
    assert torch.autograd.gradgradcheck(function, (x, mu))


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "a number, a name or"),
        ("q +", 4, r"a number, a name or '\(' must stand here; got the end"),
        ("(q + 1", 7, r"'\)' must stand here; got the end"),
        ("q + 1)", 6, "an operator or the end must stand here; got '\\)'"),
        ("q $ 1", 3, r"'\$' means nothing here"),
        ("3 q", 3, "an operator or the end"),
        ("mim(q, 1)", 1, "no function 'mim'; did you mean 'min'"),
        ("min(q)", 1, "min takes 2 or more argument"),
        ("if(q, 1, 2)", 4, "the first argument of if needs a condition"),
        ("if(q > 1, q > 2, 2)", 1, "both branches"),
        ("1 < q < 3", 7, "comparisons cannot be chained: write 'a < b and b < c'"),
        ("q and r", 1, "and needs a condition here, and this is a number"),
        ("1 + (q > 2)", 8, r"\+ needs a number here.*if\(condition, 1, 0\)"),
        ("1e999", 1, "a number this large"),
        ("__import__('os').system('true')", 12, '"\'" means nothing here'),
        ("__import__(os)", 1, "no function '__import__'"),
        ("q.real", 2, "'.' means nothing"),
        ("lambda: q", 7, "':' means nothing"),
        ("q\n + \n  * r", 3, "a number, a name"),
    ],
)
def test_errors_point_at_the_place(text, column, reason):
    with pytest.raises(InputError, match=reason) as caught:
        parse(text)
    lines = str(caught.value).splitlines()
    assert f"column {column}:" in lines[0]
    assert lines[-1] == " " * (column + 1) + "^"


def test_an_error_in_a_long_text_shows_the_part_around_it():
    text = "q + " * 90 + "$"
    with pytest.raises(InputError) as caught:
        parse(text)
    *_, shown, below = str(caught.value).splitlines()
    assert len(shown) <= 102
    assert shown[below.index("^")] == "$"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + "1" + ")" * 500,
        "-" * 500 + "1",
        "1 + " * 500 + "1",
        "2 ^ " * 500 + "1",
        "not " * 500 + "q > 1",
        "max(1, " * 400 + "1" + ")" * 400,
    ],
    ids=["parentheses", "minus", "sum", "powers", "not", "calls"],
)
def test_a_deep_nest_is_a_clear_error(text):
    with pytest.raises(InputError, match="nested more than 150 deep; simplify or split"):
        parse(text)


def test_a_long_text_is_a_clear_error():
    with pytest.raises(InputError, match="5001 characters are too many"):
        parse(" " * 5000 + "1")


def numbers():
    inner = some.one_of(
        some.floats(0, 1e300).map(Number),
        some.integers(0, 1000).map(lambda k: Number(float(k))),
        some.sampled_from("abc").map(Name),
    )

    def larger(children):
        pair = some.tuples(children, children)
        condition = some.builds(Apply, some.sampled_from(["<", ">=", "=", "!="]), pair)
        condition = some.one_of(
            condition,
            some.builds(Apply, some.sampled_from(["and", "or"]), some.tuples(condition, condition)),
            some.builds(Apply, some.just("not"), some.tuples(condition)),
        )
        return some.one_of(
            some.builds(Apply, some.sampled_from(["+", "-", "*", "/", "^", "mod", "min"]), pair),
            some.builds(Apply, some.sampled_from(["negative", "exp", "floor"]), some.tuples(inner)),
            some.builds(Apply, some.just("negative"), some.tuples(children)),
            some.builds(Apply, some.just("if"), some.tuples(condition, children, children)),
        )

    return some.recursive(inner, larger, max_leaves=25)


@given(numbers())
def test_what_is_printed_reads_back_the_same(tree):
    again = parse(str(tree))
    assert again == tree
    assert parse(str(again)) == again


PIECES = """
q r 1 2.5 + - * / ^ ** ( ) < <= = == != and or not & | ! min( if( , -> at 1e9 [ ' os . __class__
lost else
"""


@settings(max_examples=400)
@given(
    some.one_of(
        some.text(max_size=40),
        some.lists(
            some.sampled_from(PIECES.split()),
            max_size=15,
        ).map(" ".join),
    )
)
def test_random_text_is_read_or_refused(text):
    try:
        tree = parse(text)
    except InputError:
        return
    assert parse(str(tree)) == tree
    values = on_arrays(postfix(tree), dict.fromkeys(tree.names, Q) | {"": Q})
    assert values.shape == Q.shape


def test_what_cannot_be_computed_is_no_number():
    assert math.isnan(on_arrays(postfix(parse("log(0 - q)")), {"q": np.ones(1)})[0])
    assert on_arrays(postfix(parse("1 / q")), {"q": np.zeros(1)})[0] == math.inf
