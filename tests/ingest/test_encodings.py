"""Marks of encodings in files, and times in units that nobody named."""

import codecs
import json
from pathlib import Path

import pytest

from stationary import models, read_windows
from stationary.errors import InputError
from stationary.ingest import (
    Columns,
    Cut,
    Rate,
    Source,
    Unit,
    windows_from_events,
    windows_from_gauge,
)

REQUESTS = "arrival,response\n" + "".join(f"{0.25 * k},0.125\n" for k in range(40))
ENVOY = "".join(
    f'[2026-04-15T20:17:{k:02d}.310Z] "GET / HTTP/2" 200 - 154 0 226 100 "-" "-" "-" "-" "-"\n'
    for k in range(40)
)
TEXTS = {
    "in.csv": (REQUESTS, None),
    "in.tsv": (REQUESTS.replace(",", "\t"), None),
    "in.jsonl": (
        "".join(json.dumps({"arrival": 0.25 * k, "response": 0.1}) + "\n" for k in range(40)),
        None,
    ),
    "in.log": (ENVOY, "envoy"),
}
WINDOWS = "load,Q=0,Q=1\n5,90,10\n6,80,20\n"
MODEL = Path(__file__).parents[2] / "examples" / "tandem.toml"
PRISM = Path(__file__).parents[1] / "prism" / "tandem.sm"


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.filterwarnings("error")
def test_a_mark_before_requests_is_no_part_of_them(name, tmp_path):
    text, kind = TEXTS[name]
    found = []
    for mark in (b"", codecs.BOM_UTF8):
        (tmp_path / name).write_bytes(mark + text.encode())
        found.append(windows_from_events(Source(str(tmp_path / name), format=kind), Cut(2.0)))
    assert found[0].rows == found[1].rows == 40
    assert found[0].table.equals(found[1].table)


@pytest.mark.parametrize("code", ["utf-16", "utf-32"])
@pytest.mark.parametrize("name", TEXTS)
def test_requests_in_another_encoding_are_refused(name, code, tmp_path):
    text, kind = TEXTS[name]
    (tmp_path / name).write_bytes(text.encode(code))
    with pytest.raises(InputError, match=rf"{name}: this is text in UTF-.*; save it as UTF-8$"):
        windows_from_events(Source(str(tmp_path / name), format=kind), Cut(2.0))


def test_windows_and_models_with_a_mark(tmp_path):
    (tmp_path / "w.csv").write_bytes(codecs.BOM_UTF8 + WINDOWS.encode())
    assert read_windows(tmp_path / "w.csv").x.tolist() == [[5.0], [6.0]]
    (tmp_path / "m.toml").write_bytes(codecs.BOM_UTF8 + MODEL.read_bytes())
    assert list(models.read_model(tmp_path / "m.toml").states) == list(
        models.read_model(MODEL).states
    )


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [("w.csv", WINDOWS, read_windows), ("m.toml", MODEL.read_text(), models.read_model)],
)
def test_windows_and_models_in_another_encoding_are_refused(name, text, read, tmp_path):
    (tmp_path / name).write_bytes(text.encode("utf-16"))
    with pytest.raises(InputError, match=rf"{name}: .*UTF-8; save it as|not UTF-8 text; save it"):
        read(tmp_path / name)


def test_a_prism_model_with_a_mark(tmp_path):
    pytest.importorskip("stormpy")
    (tmp_path / "m.sm").write_bytes(codecs.BOM_UTF8 + PRISM.read_bytes())
    assert models.from_prism(tmp_path / "m.sm", x="lambda", theta="mu2", constants={"c": 3})


# Units of times.


def in_unit(unit, given, tmp_path, **more):
    """Read requests that arrive four times per second, written in one unit, given as another."""
    step = unit.per_second // 4
    lines = [f"{1_700_000_000 * unit.per_second + k * step},{step // 2}" for k in range(40)]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["arrival,response", *lines]))
    return windows_from_events(Source(str(path), Columns(unit=given, **more)), Cut(2.0))


@pytest.mark.parametrize(
    ("unit", "given"),
    [(unit, given) for unit in Unit for given in Unit if given.per_second < unit.per_second],
)
def test_times_in_a_finer_unit_than_was_given_are_refused(unit, given, tmp_path):
    named = rf"'arrival': 17\d+ is of our days in {unit.word} .*--unit {unit.value}, and --resp"
    with pytest.raises(InputError, match=named):
        in_unit(unit, given, tmp_path)
    assert in_unit(unit, unit, tmp_path).table["load"].tolist() == [4.0] * 4


@pytest.mark.parametrize("unit", [Unit.MS, Unit.US, Unit.NS])
def test_the_unit_of_times_since_1970_is_found_and_said(unit, tmp_path):
    made = in_unit(unit, None, tmp_path)
    assert made.table["load"].tolist() == [4.0] * 4
    assert f"the times in 'arrival' are {unit.word} since 1970" in made.notes
    assert made.table["start"][0] == 1_700_000_000


def test_the_unit_of_response_times_must_be_clear(tmp_path):
    lines = [f"{1_700_000_000_000 + 250 * k},0.{k % 9 + 1}" for k in range(40)]
    for name in ("response", "took_s"):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([f"arrival,{name}", *lines]))
    with pytest.raises(InputError, match="numbers with a point: say their unit with --response-"):
        windows_from_events(Source(str(tmp_path / "response.csv")), Cut(2.0))
    named = Columns(response="took_s")
    made = windows_from_events(Source(str(tmp_path / "took_s.csv"), named), Cut(2.0))
    assert made.table.filter(like="rt_").iloc[:, -2].name.endswith("1000ms")


def test_units_of_a_gauge_are_found(tmp_path):
    lines = [f"{1_700_000_000_000.5 + 1000 * k},{k % 3},5" for k in range(40)]
    (tmp_path / "in.csv").write_text("\n".join(["arrival,n,rate", *lines]))
    made = windows_from_gauge(
        Source(str(tmp_path / "in.csv")), "n", Rate("rate"), Cut(2.0, sampling="time")
    )
    assert len(made.table) == 19
    assert "the times in 'arrival' are milliseconds since 1970" in made.notes
