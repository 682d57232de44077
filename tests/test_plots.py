"""Pictures of a forecast: what is on the axes, and the files they become."""

import subprocess
import sys

import matplotlib.colors
import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from stationary.errors import InputError
from stationary.plots import plot_forecast, save_figure


def frame():
    x = np.array([30.0, 10.0, 20.0])  # not in order
    return pd.DataFrame(
        {
            "x": x,
            "loss": x / 100,
            "loss_low": x / 200,
            "loss_high": x / 50,
            "mean_queue": x,
            "mean_queue_low": x - 5,
            "mean_queue_high": x + 5,
            "trusted": True,
            "reason": "",
        }
    )


def bands(ax):
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_line_and_its_band():
    ax = plot_forecast(frame(), "mean_queue")
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), [[10, 10], [20, 20], [30, 30]])
    (band,) = bands(ax)
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert {(10, 5), (20, 15), (30, 25), (10, 15), (20, 25), (30, 35)} <= corners
    assert labels(ax) == ["forecast", "interval"]
    assert ax.get_xlabel() == "load"
    assert ax.get_ylabel() == "mean queue"
    assert ax.get_yscale() == "linear"


def test_measured_points_limit_and_fitted_range():
    ax = plot_forecast(
        frame(), observed=([12.0, 25.0], [0.1, 0.3]), bound=0.15, fitted=(11.0, 15.0)
    )
    drawn = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(drawn["measured"].get_xydata(), [[12, 0.1], [25, 0.3]])
    assert drawn["measured"].get_linestyle() == "None"
    assert set(drawn["limit 0.15"].get_ydata()) == {0.15}
    (span,) = ax.patches
    assert (span.get_x(), span.get_x() + span.get_width()) == (11.0, 15.0)
    assert labels(ax) == ["forecast", "interval", "measured", "loads the fit saw", "limit 0.15"]


def test_losses_are_drawn_over_many_orders_of_magnitude():
    ax = plot_forecast(frame().assign(loss=[0.3, 1e-12, 1e-4]))
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylim() == (0, 1)
    assert ax.yaxis.get_transform().linthresh == pytest.approx(1e-4)


def test_a_loss_of_nothing_can_be_drawn(tmp_path):
    none = frame().assign(loss=0.0, loss_low=0.0, loss_high=0.0)
    save_figure(plot_forecast(none), tmp_path / "none.png")
    one = plot_forecast(frame().head(1))
    save_figure(one, tmp_path / "one.png")


def test_draws_on_axes_that_are_given():
    ax = Figure().add_subplot()
    assert plot_forecast(frame(), ax=ax) is ax
    plot_forecast(frame(), "mean_queue", ax=ax)
    assert len(ax.lines) == 2


def test_the_frame_is_left_as_it_was():
    before = frame()
    given = before.copy()
    plot_forecast(given)
    pd.testing.assert_frame_equal(given, before)


@pytest.mark.parametrize("measure", ["delay", "x", "trusted", "loss_low"])
def test_what_is_no_measure_is_refused(measure):
    with pytest.raises(InputError, match=f"the measure '{measure}'.*has the measures loss, mean_q"):
        plot_forecast(frame(), measure)


def test_a_forecast_of_two_inputs_cannot_be_drawn():
    two = frame().rename(columns={"x": "load"}).assign(warmth=1.0)
    with pytest.raises(InputError, match=r"needs a column 'x'.*has no x"):
        plot_forecast(two)


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_ending_chooses_the_format(tmp_path, ending, start):
    path = tmp_path / f"forecast.{ending}"
    save_figure(plot_forecast(frame(), bound=0.2), path)
    assert path.read_bytes().startswith(start)
    assert path.stat().st_size > 1000


def test_a_picture_is_not_blank(tmp_path):
    ax = plot_forecast(frame(), "mean_queue")
    save_figure(ax, tmp_path / "forecast.png")
    pixels = matplotlib.image.imread(tmp_path / "forecast.png")[..., :3]
    line = np.array(matplotlib.colors.to_rgb("C0"))
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
def test_a_picture_that_cannot_be_written_is_said(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        save_figure(plot_forecast(frame()), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_no_window_toolkit_is_touched():
    code = "import stationary.plots, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
