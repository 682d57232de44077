"""The file of a report: its pictures, that it is safe, alone, and written whole or not at all."""

import re
import warnings

import numpy as np
import pytest

import stationary as st
from reports import (
    FINDINGS,
    LOADS,
    LOST,
    RANGES,
    Page,
    beside,
    demo_fit,
    failing,
    found,
    identified,
    losses,
    no_pictures,
    page,
    small_fit,
    two_state,
    weighed,
)
from stationary.errors import InputError
from stationary.output.charts import ACCENT, ALERT, INK, SECOND, SERIES
from stationary.output.report import write_report
from stationary.output.report.svg import draw
from stationary.terms.findings import Finding, Verdict
from stationary.terms.trust import Choice, Chosen


@pytest.fixture
def quick(monkeypatch):
    no_pictures(monkeypatch)


@pytest.fixture(scope="module")
def fit():
    return small_fit()


# Pictures.


def ids(text):
    return re.findall(r'\bid="([^"]*)"', text)


def test_pictures_take_ids_of_their_own_and_colours_of_the_page(fit, tmp_path):
    write_report(beside(fit), tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert len(ids(text)) == len(set(ids(text))) > 100
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= set(ids(text))
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 2 + len(fit.draws.measures[1:]) + 2 + 1
    for svg in pictures:
        assert "currentColor" in svg
        assert not set(re.findall("#[0-9a-f]{6}", svg)) & {INK, ACCENT, SECOND, ALERT}
        assert "font-family" not in svg
        assert re.match(r'<svg viewBox="0 0 [\d.]+ [\d.]+" role="img" aria-label="[^"]+">', svg)
        assert "<style" not in svg
    assert "var(--accent)" in pictures[0]
    assert "var(--second)" in pictures[0]


def test_coordinates_survive_the_cleaning():
    def paint(ax):
        ax.plot([0, 1, 2], [0, 1, 0], color=ALERT)
        ax.set_xlim(0, 2)
        ax.set_ylim(0, 1)
        ax.set_position([0.25, 0.25, 0.5, 0.5])

    svg = draw("tent", "a tent", (400, 200), paint)
    [path] = [
        tag["d"]
        for name, tag in Page(str(svg)).tags
        if name == "path" and "var(--alert)" in tag.get("style", "")
    ]
    points = [tuple(map(float, p)) for p in re.findall(r"[ML] ?([\d.]+) ([\d.]+)", path)]
    np.testing.assert_allclose(points, [(100, 150), (200, 50), (300, 150)], atol=0.01)


def test_colours_of_series_stand_out_on_light_and_dark_pages():
    rgb = SERIES(np.linspace(0, 1, 101))[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    light = linear @ [0.2126, 0.7152, 0.0722]
    assert (1.05 / (light + 0.05)).min() >= 3  # on white
    assert ((light + 0.05) / 0.0592).min() >= 3  # on the dark page


def test_a_legend_moves_below_the_picture():
    def paint(ax):
        ax.plot([0, 1], [0, 1], label="a curve")
        ax.set_ylabel("a label that is much longer than the axis it goes with")
        ax.legend()

    shown = Page(str(draw("legend", "x", (320, 240), paint)))
    texts = shown.having("text")
    ticks_of_x = [float(t["y"]) for t in texts if "text-anchor: middle" in t["style"]]
    assert float(texts[-1]["y"]) > max(ticks_of_x)
    assert "a label that is much longer" in shown.text("svg")
    assert "a curve" in shown.text("svg")


def test_a_picture_that_cannot_be_drawn_leaves_its_reason(fit, tmp_path, monkeypatch):
    def refuse(estimate, windows, ax=None):
        raise InputError("there are too few windows")

    monkeypatch.setattr("stationary.output.plots.plot_residuals", refuse, raising=False)
    text = page(fit, tmp_path).text("diagnostics")
    assert "There is no chart: there are too few windows." in text


# The file.


def test_the_same_input_gives_the_same_bytes(tmp_path):
    fit, heavy = demo_fit()
    several, pages = beside(fit), []
    for name in ("one.html", "two.htm"):
        write_report(several, tmp_path / name, observed=losses(heavy))
        lines = (tmp_path / name).read_bytes().splitlines()
        pages.append([line for line in lines if not line.startswith(b"<time>")])
        assert len(pages[-1]) == len(lines) - 1
    assert pages[0] == pages[1]
    assert (tmp_path / "one.html").stat().st_size < 500_000


def test_nothing_is_asked_of_the_network(fit, tmp_path):
    write_report(found(beside(fit), FINDINGS), tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    text = re.sub(r"data:image/png;base64,[\w+/=\s]*", "data:", text)  # has slashes of its own
    assert not re.search(r"https?:|//\w|@import|@font-face|url\((?!#)", text)
    shown = Page(text)
    assert not {tag for tag, _ in shown.tags} & {"script", "iframe", "img", "object", "video"}
    for _, attrs in shown.tags:
        assert "src" not in attrs
        assert re.match("#|data:", attrs.get("href", "#"))


EVIL = "<script>document.title='had'</script>"


def test_names_are_text_and_never_markup(tmp_path):
    facts = {"low": 1.0, "high": 2.0, "category": EVIL, "observed": 0.5, "predicted": 0.1}
    evil_finding = Finding("lack of fit", Verdict.WARNING, "misfit", facts, 0.001)
    measures = {EVIL: LOST["loss"], "$x^$": LOST["loss"], **LOST}
    down = LOADS / (4 + LOADS)
    fit = two_state(failing, LOADS, down, (f"{EVIL} $x^$",), measures, f"{EVIL} $y^$")
    fit = found(fit, [evil_finding])
    (study,) = fit.studies.values()
    fit = fit.having(
        fitted={EVIL: fit.estimate, "other": fit.estimate},
        failed={f"{EVIL} too": f"why not {EVIL}"},
        known_studies={EVIL: study, "other": study},
    )
    several = fit.having(known_comparison=weighed(fit, Choice(Chosen.ONLY, EVIL)))
    shown = page(
        several,
        tmp_path,
        slos={EVIL: 0.01},
        identifiability=identified((EVIL, "another"), RANGES.assign(measure=EVIL)),
        command=f"x {EVIL}",
    )
    assert not shown.having("script")
    for name in ("h1", "measure", "forecast", "checks", "models", "identifiability", "made", "pre"):
        assert EVIL[1:] in shown.text(name), name


@pytest.mark.usefixtures("quick")
def test_a_report_is_an_html_file_written_whole_or_not_at_all(fit, tmp_path, monkeypatch):
    (tmp_path / "folder.html").mkdir()
    for name, message in (
        ("report", r"ending \.html"),
        ("report.pdf", r"ending \.html"),
        ("nowhere/r.html", "the report cannot be written: No such file"),
        ("folder.html", "the report cannot be written"),
    ):
        with pytest.raises(InputError, match=message):
            write_report(fit, tmp_path / name)
    old = tmp_path / "r.html"
    write_report(fit, old)
    before = old.read_bytes()

    def fail(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", fail)
    with pytest.raises(InputError, match="No space left"):
        write_report(fit, old, level=0.5)
    assert old.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.html", "r.html"]


@pytest.mark.usefixtures("quick")
def test_a_plan_of_one_model_is_shown_beside_its_ladder(tmp_path):
    truth = st.models.MMmK(servers=1, capacity=4, service_rate=3.0)
    windows = st.simulate(truth, np.tile([0.6, 1.0, 1.5, 2.0], 8), duration=200.0, seed=2)
    fit = st.fit(st.models.MMmK(servers=1, capacity=4), windows)
    several = fit.report(tmp_path / "r.html")
    assert several.name == fit.name
    assert len(several.fitted) > 3
    shown = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    names = {row[0] for row in shown.tables["models"][0][1:]}
    assert {"mmmk", "slowing", "batch", "Universal Scalability Law"} <= names


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_where_no_model_is_determined_the_report_says_so(recording_file, tmp_path):
    given = {"x": "callrate", "counts": "Q={}", "loads": (1.0, 1000.0)}
    windows = st.read_windows(recording_file, observe=[1, 2], **given)
    model = st.models.MultiDiagonal(depth=5, capacity=21)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = page(st.fit(model, windows, method=st.Newton(starts=1)), tmp_path)
    assert "What the data cannot determine" in shown.text("identifiability")
    assert "do not determine all of the answer" in shown.text("aside")
