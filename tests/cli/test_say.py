"""What commands print: nothing from a file steers the terminal, and results speak through words."""

import ast
import re

import pytest

from rooms import FILES, TREES
from stationary.cli._say import printable, say
from stationary.cli._show import table

COMMANDS = [
    module
    for module in FILES
    if module.startswith("stationary.cli") and not module.endswith("._say")
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two lines\n\tand a tab", "two lines\n\tand a tab"),
        ("é 空 µ\u00a0s", "é 空 µ\u00a0s"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("turned \u202e round \u2028", r"turned \u202e round \u2028"),
        ("a\rb\x00", r"a\rb\x00"),
    ],
)
def test_control_characters_are_shown_as_escapes(text, shown, capsys):
    assert printable(text) == shown
    say(text)
    table(text, [text], [[text]])
    out = capsys.readouterr().out
    assert out.startswith(f"{shown}\n")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]", out)


def test_a_table_takes_no_text_for_markup(capsys):
    table("[bold]t", ["[red]model"], [["[/red] [link=x]m"]])
    out = capsys.readouterr().out
    assert "[bold]t" in out
    assert "[red]model" in out
    assert "[/red] [link=x]m" in out


def test_a_log_cannot_steer_the_terminal(call, tmp_path):
    log = tmp_path / "access.log"
    line = '127.0.0.1 - - [01/May/2026:12:00:{:02d} +0000] "GET / HTTP/1.1" 200 5 0.01{}\n'
    lines = [line.format(k // 10, k % 10) for k in range(300)]
    log.write_text("".join([*lines, "\x1b]0;owned\x07\x1b[2J\n", *lines]), encoding="utf-8")
    code, out, err = call(
        "ingest", log, "--format", "nginx", "--window", "1s", "-o", tmp_path / "windows.csv"
    )
    assert code == 0, err
    assert r"\x1b" in out + err
    assert "\x1b" not in out + err


@pytest.mark.parametrize("module", COMMANDS)
def test_commands_print_in_one_way(module):
    calls = [node for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)]
    names = {ast.unparse(call.func) for call in calls}
    assert not names & {"typer.echo", "print", "typer.secho", "sys.stdout.write"}


RESULTS = (
    *("check", "compare", "demo", "explain", "fit", "forecast", "plan", "report", "rules"),
    "_show",
)
DONE = (
    r"\s*saved in _; next",  # what a command did, and what can be done next
    "stationary forecast _ --x",
    "Wrote _",
    "Open _; all numbers are in _",
    "there is nothing to resume",
    "the work so far is kept",
    "warning: the other models are not kept",
    r"\s*.*[?:]\s*$",  # headings
    "_ windows of a second, recorded|learning from the _ with|that found 0 to 5",  # of the demo
)


@pytest.mark.parametrize("command", RESULTS)
def test_sentences_about_results_are_built_in_words(command):
    calls = [
        node
        for node in ast.walk(TREES[f"stationary.cli.{command}"])
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("say", "prose")
    ]
    texts = [text for call in calls for text in literals(call)]
    assert [text for text in texts if is_sentence(text)] == []


def literals(call):
    """Texts in a call, each with ``_`` for what is filled in; not those inside inner calls."""
    for argument in call.args:
        pending = [argument]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "_" for p in node.values]
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif not isinstance(node, ast.Call):
                pending += ast.iter_child_nodes(node)


def is_sentence(text):
    words = re.findall(r"\b[a-z]{2,}\b", text)
    return len(words) > 3 and not any(re.match(done, text) for done in DONE)


def test_the_search_for_sentences_finds_one():
    call = ast.parse("say(f'the limit is {x} requests per second')").body[0].value
    assert list(map(is_sentence, literals(call))) == [True]
