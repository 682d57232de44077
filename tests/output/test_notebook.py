"""What a notebook shows of results, and the short ways to numbers and a picture."""

import math

import numpy as np
import pytest

import stationary as st
from reports import Page, beside, small_fit
from stationary import words


@pytest.fixture(scope="module")
def fit():
    return small_fit()


def test_criteria_are_those_of_the_textbook(fit):
    counts = float(fit.windows.counts.sum())
    assert fit.aic == pytest.approx(2 * fit.nll + 2)
    assert fit.bic == pytest.approx(2 * fit.nll + math.log(counts))


def test_intervals_by_name_are_those_of_the_table(fit):
    row = fit.table(0.8).iloc[0]
    found = fit.conf_int(0.8)
    assert list(found.index) == ["service_rate"]
    assert found.loc["service_rate"].tolist() == [row["low"], row["high"]]
    assert found["low"].iloc[0] < fit.estimates["service_rate"] < found["high"].iloc[0]


def tables(shown):
    """Read the tables of HTML, row by row."""
    return Page(shown).tables[""]


def test_a_table_of_html_holds_the_numbers(fit):
    [(head, row)] = tables(fit._repr_html_())
    assert dict(zip(head, row, strict=True))["parameter"] == "service_rate"
    assert float(row[1]) == pytest.approx(fit.estimates["service_rate"], rel=1e-3)
    assert "Windows(33 windows" in fit.windows._repr_html_()
    [rows] = tables(fit.windows._repr_html_())
    assert (rows[0][1], float(rows[1][1])) == ("load", 11.0)
    several = beside(fit)
    pooled = several.having(pooled=True, question=several.asking("loss<1%", None, None))
    limit, ranking = tables(pooled._repr_html_())
    assert limit[0] == ["largest load", words.number(pooled.limit.load, 3)]
    names = pooled.ranking()["model"].tolist()
    assert [row[0] for row in ranking[1:]] == names


def test_names_are_escaped():
    windows = st.Windows([1.0, 2.0], [[3, 4], [5, 6]], ["<b>", "up"])
    assert "<b>" not in windows._repr_html_()


def test_a_limit_is_short(fit):
    limit = fit.max_load(loss=0.01)
    assert repr(limit) == (
        f"Limit({limit.load:.4g}, {limit.low:.4g} to {limit.high:.4g}; binding: loss <= 0.01)"
    )


def test_a_plot_reaches_beyond_the_limit_and_shows_its_bound(fit):
    asked = fit.having(question=fit.asking("loss<1%", None, None))
    ax = asked.plot()
    left, right = ax.get_xlim()
    assert left < 11.0
    assert right > asked.limit.load
    assert any(np.allclose(line.get_ydata(), 0.01) for line in ax.lines)
    assert asked.plot("mean_queue").get_ylabel() == "mean queue"
