"""Pictures of a fit and its forecast: what is on the axes, and the files they become."""

import subprocess
import sys

import matplotlib.colors
import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import stationary as st
from stationary.errors import InputError
from stationary.output.charts import ACCENT
from stationary.output.plots import (
    plot_calibration,
    plot_forecast,
    plot_generator,
    plot_percentiles,
    plot_residuals,
    save_figure,
)

M = st.models


def frame():
    x = np.array([30.0, 10.0, 20.0])  # not in order
    columns = {"load": x, "loss": x / 100, "loss_low": x / 200, "loss_high": x / 50}
    columns |= {"mean_queue": x, "mean_queue_low": x - 5, "mean_queue_high": x + 5}
    return pd.DataFrame({**columns, "trusted": True, "reason": ""})


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_line_and_its_band():
    given = frame()
    ax = plot_forecast(given, "mean_queue")
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), [[10, 10], [20, 20], [30, 30]])
    (band,) = [c for c in ax.collections if isinstance(c, PolyCollection)]
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert {(10, 5), (20, 15), (30, 25), (10, 15), (20, 25), (30, 35)} <= corners
    assert labels(ax) == ["forecast", "interval"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("load", "mean queue")
    assert ax.get_yscale() == "linear"
    pd.testing.assert_frame_equal(given, frame())  # left as it was


def test_measured_points_bound_and_fitted_range():
    ax = plot_forecast(
        frame(), observed=([12.0, 25.0], [0.1, 0.3]), bound=0.15, fitted=(11.0, 15.0)
    )
    drawn = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(drawn["measured"].get_xydata(), [[12, 0.1], [25, 0.3]])
    assert drawn["measured"].get_linestyle() == "None"
    assert set(drawn["loss = 15%"].get_ydata()) == {0.15}
    (span,) = ax.patches
    assert (span.get_x(), span.get_x() + span.get_width()) == (11.0, 15.0)
    saw = "loads the fit saw (11 to 15)"
    assert labels(ax) == ["forecast", "interval", "measured", saw, "loss = 15%"]


def test_losses_are_drawn_over_orders_of_magnitude_and_zero_as_a_triangle():
    given = frame().assign(loss=[0.3, 1e-12, 1e-4])
    ax = plot_forecast(given, observed=([10.0, 20.0], [0.0, 1e-4]))
    assert ax.get_yscale() == "log"
    low, high = ax.get_ylim()
    assert (low, high) == pytest.approx((1e-6, 0.78), rel=1e-6)
    (below,) = [line for line in ax.lines if line.get_marker() == "v"]
    np.testing.assert_allclose(below.get_xydata(), [[10.0, low]])


def test_extremes_can_be_drawn(tmp_path):
    none = plot_forecast(frame().assign(loss=0.0, loss_low=0.0, loss_high=0.0))
    unbounded = plot_forecast(frame().assign(mean_queue_high=np.inf), "mean_queue")
    one_load = plot_forecast(frame().head(1))
    one = st.fit(M.MMmK(1, 5), st.Windows([4.0], [[60, 20]], [0, 1]))
    fits = [one.plot_residuals(), one.plot_calibration(), one.plot_generator()]
    equal_rates = plot_generator(M.MMmK(1, 3, 2.0), 2.0)
    for ax in (none, unbounded, one_load, *fits, equal_rates):
        save_figure(ax, tmp_path / "extreme.png")


def test_draws_on_axes_that_are_given(fit):
    ax = Figure().add_subplot()
    assert plot_forecast(frame(), ax=ax) is ax
    plot_forecast(frame(), "mean_queue", ax=ax)
    assert len(ax.lines) == 2
    for draw in (plot_residuals, plot_calibration):
        ax = Figure().add_subplot()
        assert draw(fit.estimate, fit.windows, ax) is ax


@pytest.mark.parametrize("measure", ["delay", "load", "trusted", "loss_low"])
def test_what_is_no_measure_is_refused(measure):
    with pytest.raises(InputError, match=f"'{measure}'.*the measures loss, mean_queue"):
        plot_forecast(frame(), measure)


def test_a_forecast_is_drawn_over_one_input():
    two = frame()
    two.insert(1, "warmth", 1.0)
    with pytest.raises(InputError, match=r"one input, the column 'load'.*has load, warmth"):
        plot_forecast(two)
    with pytest.raises(InputError, match=r"column 'load'.*has no input"):
        plot_forecast(frame().drop(columns="load"))


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_ending_chooses_the_format(tmp_path, ending, start):
    path = tmp_path / f"forecast.{ending}"
    save_figure(plot_forecast(frame(), "mean_queue"), path)
    assert path.read_bytes().startswith(start)
    if ending == "png":  # and it is not blank
        pixels = matplotlib.image.imread(path)[..., :3]
        line = np.array(matplotlib.colors.to_rgb(ACCENT))
        assert (np.abs(pixels - line).max(-1) < 0.02).sum() > 500


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("forecast", "give the plot an ending"),
        (".", "give the plot an ending"),
        ("forecast.xyz", "cannot be written: Format 'xyz' is not supported"),
        ("nowhere/forecast.png", "cannot be written.*No such file"),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        save_figure(plot_forecast(frame()), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_no_window_toolkit_is_touched():
    code = "import stationary.output.plots, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# Pictures of a fit.


@pytest.fixture(scope="module")
def fit():
    windows = st.simulate(M.MMmK(1, 6, 20.0), [8.0, 12.0, 10.0] * 10, duration=5.0, seed=0)
    return st.fit(M.MMmK(1, 6), windows)


def test_residuals_of_every_category_against_load(fit):
    ax = fit.plot_residuals()
    drawn = {line.get_label(): line for line in ax.lines}
    table = fit.residuals()
    for label in fit.windows.labels:
        part = table[table["category"] == label]
        points = drawn[f"category {label}"].get_xydata()
        np.testing.assert_array_equal(points, part[["load", "standardised"]])
    assert ax.get_xlabel() == "load"


def test_a_legend_names_a_few_of_many_categories():
    windows = st.simulate(M.MMmK(1, 40, 20.0), [15.0, 18.0] * 10, duration=5.0, seed=0)
    ax = st.fit(M.MMmK(1, 40), windows).plot_residuals()
    assert len(ax.lines) == 42  # the categories, and zero
    assert len(labels(ax)) == 9
    assert {"category 0", "category 40"} <= set(labels(ax))


def test_calibration_is_by_load_with_the_diagonal(fit):
    ax = fit.plot_calibration()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert labels(ax) == ["as predicted", "load 8", "load 10", "load 12"]
    diagonal = ax.lines[0].get_xydata()
    np.testing.assert_array_equal(diagonal[:, 0], diagonal[:, 1])
    light = fit.windows.between(8, 8).counts.sum(0)
    pi = fit.model.closed_form([8.0])[0].detach()
    points = ax.containers[0].lines[0].get_xydata()
    np.testing.assert_allclose(points[:, 0], pi[light > 0])
    np.testing.assert_allclose(points[:, 1], (light / light.sum())[light > 0])


def test_a_category_never_seen_is_a_triangle_at_the_edge():
    windows = st.Windows([4.0, 5.0] * 10, [[60, 20, 0], [55, 25, 0]] * 10, [0, 1, 2])
    ax = st.fit(M.MMmK(1, 5), windows).plot_calibration()
    edge = ax.get_ylim()[0]
    triangles = [line for line in ax.lines if line.get_marker() == "v" and len(line.get_xdata())]
    assert triangles
    assert all((line.get_ydata() == edge).all() for line in triangles)


def test_the_forecast_of_a_fit_says_what_it_saw(fit):
    ax = fit.plot_forecast(range(8, 31), "mean_queue", bound=3.0)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.arange(8, 31))
    assert labels(ax)[-2:] == ["loads the fit saw (8 to 12)", "mean queue = 3"]


def test_the_generator_shows_the_rates_and_nothing_else(fit):
    ax = fit.plot_generator()
    (image,) = ax.images
    shown = image.get_array()
    mu = fit.estimates["service_rate"]
    expected = np.diag(np.full(6, 12.0), 1) + np.diag(np.full(6, mu), -1)
    np.testing.assert_array_equal(shown.mask, expected == 0)
    np.testing.assert_allclose(shown.filled(0.0), expected)
    assert isinstance(image.norm, matplotlib.colors.LogNorm)
    assert ax.get_title() == "rates at load 12"
    assert [text.get_text() for text in ax.get_yticklabels()] == list("0123456")
    assert fit.plot_generator(9.5).get_title() == "rates at load 9.5"
    assert len(ax.figure.axes) == 2  # the colour bar is beside it
    many = plot_generator(M.ErlangService(3, 40, 5.0), 2.0)
    names = [text.get_text() for text in many.get_xticklabels()]
    assert len(names) <= 20
    assert names[:2] == ["0", "3.1"]


def test_a_generator_is_drawn_at_one_load_and_up_to_a_size():
    with pytest.raises(InputError, match="rates at one load; got 2"):
        plot_generator(M.MMmK(1, 3), [[1.0], [2.0]])
    with pytest.raises(InputError, match="6001 states is too large to draw; the most is 5000"):
        plot_generator(M.MMmK(1, 6000), 1.0)


def test_percentiles_are_drawn_with_intervals_and_what_was_measured():
    frame = pd.DataFrame({"load": [2.0, 1.0]})
    for k, name in enumerate(("p50", "p99"), 1):
        frame = frame.assign(
            **{name: [2.0 * k, k], f"{name}_low": [k, 0.5 * k], f"{name}_high": [3.0 * k, 2.0 * k]}
        )
    observed = pd.DataFrame({"load": [1.5], "p99": [3.0]})
    ax = plot_percentiles(frame, ["p50", "p99"], fitted=(1.0, 1.2), observed=observed)
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
    assert lines["p50, with interval"] == [[1.0, 1.0], [2.0, 2.0]]
    assert lines["p99, with interval"] == [[1.0, 2.0], [2.0, 4.0]]
    assert lines["measured"] == [[1.5, 3.0]]
    assert len(ax.collections) == 2
