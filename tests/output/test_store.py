"""Saved plans: the same plan comes back, whole or not at all, and damage is named."""

import json
import os
import pickle
import pickletools
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

import stationary as st
from stationary import words
from stationary._support import files
from stationary.errors import ConvergenceWarning, InputError, RunError
from stationary.learning.discrepancy import Discrepancy
from stationary.output import store
from stationary.output.folders import check_target
from stationary.output.store import FORMAT

M = st.models
LOADS = np.repeat(np.arange(11.0, 16.0), 4)
FILES = ["arrays.safetensors", "plan.json", "windows.parquet"]


def data(observe=(0, 1, 2), truth=None):
    truth = M.MMmK(servers=1, capacity=5, service_rate=25.0) if truth is None else truth
    return st.simulate(truth, LOADS, duration=20.0, seed=1).observing(list(observe))


def fitted(seed=0):
    return st.fit(M.MMmK(servers=1, capacity=5), data(), seed=seed)


@pytest.fixture(scope="module")
def fit():
    return fitted()


@pytest.fixture(scope="module")
def saved(fit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit.save(folder)
    return folder


@pytest.fixture
def run(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "run"))


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# The same fit comes back.

ROUND_TRIPS = {
    "mmmk": lambda: fitted(),
    "multidiagonal": lambda: st.fit(M.MultiDiagonal(depth=2, capacity=5), data()),
    "uppertriangular": lambda: st.fit(
        M.UpperTriangular(states=4), data((0, 1, 2, "overload"), M.UpperTriangular(states=4))
    ),
    "relaxed": lambda: st.fit(M.Relaxed(M.MMmK(servers=1, capacity=5), alpha=30.0), data()),
    "lumped": lambda: st.fit(
        M.MMmK(servers=1, capacity=5),
        st.Windows(LOADS, [[30, 12 + k % 3] for k in range(20)], [0, (1, 2, 4)], "arrival"),
    ),
}


@pytest.mark.parametrize("make", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_a_saved_fit_comes_back_bit_for_bit(make, tmp_path):
    fit = make()
    fit.save(tmp_path / "run")
    back = st.load(tmp_path / "run")
    pd.testing.assert_frame_equal(
        back.forecast(range(10, 60, 5)), fit.forecast(range(10, 60, 5)), check_exact=True
    )
    pd.testing.assert_frame_equal(back.table(), fit.table(), check_exact=True)
    assert back.windows == fit.windows
    assert type(back.model) is type(fit.model)
    assert back.model.options == fit.model.options
    assert back.model.states == fit.model.states
    np.testing.assert_array_equal(back.covariance.flat, fit.covariance.flat)
    for name in ("nll", "gradient_norm", "evaluations", "seed", "starts"):
        assert getattr(back.estimate, name) == getattr(fit.estimate, name)
    assert repr(back.estimate.ended) == repr(fit.estimate.ended)
    assert str(back) == str(fit)
    assert list(map(words.finding, back.findings)) == list(map(words.finding, fit.findings))
    assert words.horizon(back.horizon) == words.horizon(fit.horizon)
    assert back.horizon.load == fit.horizon.load
    kinds = [
        [type(score.wrong) for score in plan.studies[plan.name].scores if score]
        for plan in (back, fit)
    ]
    assert kinds[0] == kinds[1]
    one, other = back.max_load(loss=0.01), fit.max_load(loss=0.01)
    assert replace(one, doubt=None) == replace(other, doubt=None)
    assert words.limit(one) == words.limit(other)


def test_a_fit_that_did_not_converge_comes_back_as_such(tmp_path):
    windows = st.Windows(LOADS, [[30, 0]] * len(LOADS), [0, 1])
    with pytest.warns(ConvergenceWarning):
        fit = st.fit(M.MMmK(servers=1, capacity=5), windows)
    fit.save(tmp_path / "run")
    back = st.load(tmp_path / "run")
    assert not back.converged
    assert back.warnings() == fit.warnings()
    pd.testing.assert_frame_equal(back.forecast([20.0]), fit.forecast([20.0]), check_exact=True)


def test_a_run_can_be_saved_again(run, tmp_path):
    st.load(run).save(tmp_path / "again")
    one, other = (json.loads((p / "plan.json").read_text()) for p in (run, tmp_path / "again"))
    assert one | {"created": ""} == other | {"created": "", "checksum": one["checksum"]}


def test_the_folder_is_readable_by_people_and_programs(run, fit):
    assert listing(run) == FILES
    content = json.loads((run / "plan.json").read_text())
    assert content["format"] == FORMAT
    estimate = content["fitted"]["mmmk"]
    assert estimate["model"]["description"] == {"name": "mmmk", "servers": 1, "capacity": 5}
    assert estimate["model"]["estimates"] == fit.estimates
    assert content["versions"]["stationary"] == st.__version__
    assert (content["seed"], estimate["starts"]) == (0, 3)
    frame = pd.read_parquet(run / "windows.parquet")
    assert list(frame) == ["x:load", "0:Q=0", "0:Q=1", "0:Q=2", "duration"]
    assert len(frame) == len(LOADS)
    names = set(safetensors.torch.load_file(run / "arrays.safetensors"))
    assert {"fitted.mmmk.covariance.matrix", "known_draws.parts.0.theta"} <= names


def test_parents_links_and_permissions_are_as_for_any_folder(fit, tmp_path):
    before = os.umask(0o022)
    try:
        fit.save(tmp_path / "a" / "b" / "run")
    finally:
        os.umask(before)
    assert listing(tmp_path / "a" / "b") == ["run"]
    assert stat.S_IMODE((tmp_path / "a" / "b" / "run").stat().st_mode) == 0o755
    (tmp_path / "empty").mkdir()
    (tmp_path / "latest").symlink_to("empty")
    fit.save(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert listing(tmp_path / "empty") == FILES
    assert listing(tmp_path) == ["a", "empty", "latest"]


# What is there is kept, and nothing is half-written.


def test_an_existing_run_is_kept_unless_it_may_be_overwritten(fit, run):
    before = contents(run)
    with pytest.raises(InputError, match=r"holds a run already.*--overwrite"):
        fit.save(run)
    assert contents(run) == before
    fitted(seed=5).save(run, overwrite=True)
    assert st.load(run).seed == 5
    assert listing(run.parent) == ["run"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_files_and_the_folder_one_is_in_are_never_replaced(
    fit, run, tmp_path, monkeypatch, overwrite
):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "todo.txt").write_text("buy milk")
    (run / "notes.html").write_text("hours of work")
    for folder, name in ((notes, "todo.txt"), (run, "notes.html")):
        before = contents(folder)
        with pytest.raises(InputError, match=rf"holds other files \({name}\)"):
            fit.save(folder, overwrite=overwrite)
        assert contents(folder) == before
    for place in ("file", "file/run", "file/a/run"):
        (tmp_path / "file").write_text("x")
        with pytest.raises(InputError, match="file is a file; name a folder"):
            fit.save(tmp_path / place, overwrite=overwrite)
        assert (tmp_path / "file").read_text() == "x"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="the folder you are in"):
        fit.save(".", overwrite=overwrite)


@pytest.mark.parametrize("error", [OSError(13, "Permission denied"), OSError(30, "Read-only")])
def test_a_place_that_cannot_be_written_is_found_out_by_trying(tmp_path, monkeypatch, error):
    """Root has every permission, so that asking for it tells nothing."""

    def refuse(*args, **kwargs):
        raise error

    check_target(tmp_path / "run", overwrite=False)
    assert listing(tmp_path) == []
    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(InputError, match=f"run cannot be written: {error.strerror}; name another"):
        check_target(tmp_path / "run", overwrite=False)


def full(*args, **kwargs):
    raise OSError(28, "No space left on device")


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


rename = Path.rename


def fail_for_the_new(self, target):
    return full() if self.name == "new" else rename(self, target)


STEPS = {
    "parquet": (pd.DataFrame, "to_parquet", full, InputError),
    "safetensors": (safetensors.torch, "save", full, InputError),
    "json": (Path, "write_text", full, InputError),
    "last step": (Path, "rename", fail_for_the_new, InputError),
    "interrupt": (pd.DataFrame, "to_parquet", interrupt, KeyboardInterrupt),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_failure_half_way_leaves_what_was_there(fit, run, monkeypatch, step):
    before = contents(run)
    place, name, broken, error = step
    monkeypatch.setattr(place, name, broken)
    for folder in (run, run.parent / "new run"):
        with pytest.raises(error, match="No space left" if error is InputError else None):
            fit.save(folder, overwrite=True)
    assert contents(run) == before
    assert listing(run.parent) == ["run"]


@pytest.mark.parametrize("value", [np.nan, np.inf, np.float32(-np.inf), np.float16("nan")])
def test_a_number_that_is_not_finite_comes_back(fit, tmp_path, value):
    ended = replace(fit.estimate, nll=value)
    fit.having(fitted={"mmmk": ended}, failed={"float": "none"}).save(tmp_path / "run")
    back = st.load(tmp_path / "run")
    np.testing.assert_equal(back.nll, float(value))
    assert back.failed == {"float": "none"}


@pytest.mark.parametrize("value", [torch.tensor(np.inf), np.array(np.nan), "much"])
def test_what_would_not_load_is_not_saved(fit, run, value):
    before = contents(run)
    wrong = fit.having(fitted={"mmmk": replace(fit.estimate, nll=value)})
    with pytest.raises(InputError, match="cannot be saved: nll must be of type float"):
        wrong.save(run, overwrite=True)
    assert contents(run) == before


def test_files_and_folders_are_on_the_disk_before_they_are_moved(fit, run, monkeypatch):
    calls = []
    monkeypatch.setattr(files, "sync", lambda path: calls.append(path.name))
    monkeypatch.setattr(files, "_put", lambda *_: calls.append("moved"))
    fit.save(run, overwrite=True)
    assert sorted(calls[:3]) == FILES
    assert calls[3:] == ["new", "moved", run.parent.name]


def test_what_dead_writers_left_is_removed_after_a_day(fit, tmp_path):
    old, fresh = tmp_path / ".run.saving-old", tmp_path / ".run.saving-fresh"
    for folder in (old, fresh):
        (folder / "new").mkdir(parents=True)
    os.utime(old, (0, 0))
    fit.save(tmp_path / "run")
    assert listing(tmp_path) == [fresh.name, "run"]


# Damage.


def edit(path, value):
    """Change one entry of the JSON file, by the names on the way to it, and sign it again."""

    def damage(run):
        content = json.loads((run / "plan.json").read_text())
        *way, last = path.split("/")
        place = content
        for name in way:
            place = place[int(name) if isinstance(place, list) else name]
        if value is GONE:
            del place[last]
        else:
            place[last] = value
        sign(run, content)

    return damage


GONE = object()


def sign(run, content):
    content.pop("checksum", None)
    (run / "plan.json").write_text(json.dumps({**content, "checksum": store._digest(content)}))


def sign_files(run):
    """Make the checksums fit the files again, as somebody who knows them would."""
    sums = {name: store._checksum(run / name) for name in FILES if name != "plan.json"}
    edit("checksums", sums)(run)


def unlink(name):
    return lambda run: (run / name).unlink()


def cut(name, keep=0.5, signed=False):
    def damage(run):
        raw = (run / name).read_bytes()
        (run / name).write_bytes(raw[: int(len(raw) * keep)])
        if signed:
            sign_files(run)

    return damage


def write(raw):
    return lambda run: (run / "plan.json").write_bytes(raw)


def edit_unsigned(run):
    content = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps(content | {"question": None}))


def edit_parquet(run):
    frame = pd.read_parquet(run / "windows.parquet")
    frame.loc[0, "0:Q=0"] += 1
    frame.to_parquet(run / "windows.parquet")


def other_tensor(name, value):
    def damage(run):
        arrays = safetensors.torch.load_file(run / "arrays.safetensors") | {name: value}
        kept = {name: value for name, value in arrays.items() if value is not None}
        safetensors.torch.save_file(kept, run / "arrays.safetensors")
        sign_files(run)

    return damage


def json_as_folder(run):
    (run / "plan.json").unlink()
    (run / "plan.json").mkdir()


MMMK, SEEN = "fitted/mmmk", "windows/observations/0"
MODEL = f"{MMMK}/model/description"
DEEP = {"name": "multidiagonal", "depth": 2, "capacity": 5}
DAMAGE = {
    "no json": (unlink("plan.json"), "plan.json is missing"),
    "no arrays": (unlink("arrays.safetensors"), "arrays.safetensors is missing"),
    "no windows": (unlink("windows.parquet"), "windows.parquet is missing"),
    "json is a folder": (json_as_folder, "plan.json: Is a directory"),
    "json is empty": (write(b""), "plan.json: Expecting value"),
    "json is cut": (cut("plan.json"), "plan.json: "),
    "json is a list": (write(b"[]"), "does not say its format"),
    "json is binary": (write(b"\xff\xfe\x00"), "plan.json is not text"),
    "json is edited": (edit_unsigned, "plan.json is not what was saved"),
    "json without a field": (edit(f"{MMMK}/nll", GONE), "nll"),
    "json without a part": (edit("fitted", GONE), "fitted"),
    "json without checksums": (edit("checksums", GONE), "plan.json is not what was saved"),
    "json with a wrong type": (edit(f"{MMMK}/nll", "much"), "nll must be .*got 'much'"),
    "json with an unknown code": (edit(f"{MMMK}/ended/why", "bored"), "'bored'"),
    "json with a text for a record": (edit(MMMK, "os.system"), "damaged"),
    "format is text": (edit("format", "one"), "does not say its format"),
    "unknown model": (edit(MODEL, {"name": "mm1"}), "no model 'mm1'"),
    "model of another size": (edit(MODEL, DEEP), "has 2 parameters; got 1"),
    "unknown sampling": (edit(f"{SEEN}/sampling", "now and then"), "sampling must be"),
    "empty checksums": (edit("checksums", {}), "is not what was saved"),
    "arrays are cut": (cut("arrays.safetensors"), "arrays.safetensors is not what was saved"),
    "arrays are cut and signed": (cut("arrays.safetensors", signed=True), "damaged"),
    "windows are cut": (cut("windows.parquet"), "windows.parquet is not what was saved"),
    "windows are cut and signed": (cut("windows.parquet", signed=True), "damaged"),
    "windows are edited": (edit_parquet, "windows.parquet is not what was saved"),
    "no parameters": (other_tensor("fitted.mmmk.model.theta", None), "theta"),
    "a negative rate": (
        other_tensor("fitted.mmmk.model.theta", -torch.ones(1, dtype=torch.float64)),
        "service_rate must be positive",
    ),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named_with_the_folder_and_what_to_do(run, damage, said):
    damage(run)
    with pytest.raises(RunError, match=said) as caught:
        st.load(run)
    assert str(run) in str(caught.value)
    assert "fit again, or restore it from a copy" in str(caught.value)


def test_what_an_older_run_does_not_know_has_its_default(fit, tmp_path):
    plan = fit.having(discrepancy=Discrepancy(0.03, 0.5))
    plan.save(tmp_path / "run")
    edit("discrepancy/variability", GONE)(tmp_path / "run")
    assert st.load(tmp_path / "run").discrepancy == plan.discrepancy


RECIPE = {"command": "stationary fit windows.csv --model mmmk:capacity=5 -o run"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        # A newer version may well have renamed its fields.
        ({"format": FORMAT + 1, "versions": {"stationary": "9.1.0"}}, "9.1.0.*upgrade"),
        ({"format": 3, "recipe": RECIPE}, f"older .*{RECIPE['command']}.*--overwrite"),
        ({"format": 2}, "older stationary.*make it again with 'stationary fit"),
    ],
)
def test_a_run_of_another_version_is_refused_as_such(tmp_path, content, said):
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match=said):
        st.load(tmp_path)


def test_unknown_fields_are_ignored(run, fit):
    edit("comment", "best so far")(run)
    assert st.load(run).estimates == fit.estimates


def test_what_is_no_run_is_called_so(tmp_path):
    (tmp_path / "file").write_text("x")
    for place, said in (("nowhere", "no such folder"), ("file", "is a file"), ("", "is not a run")):
        with pytest.raises(RunError, match=said):
            st.load(tmp_path / place)


# Models of one's own.


def up_and_down(load, p):
    return {(0, 1): load, (1, 0): p.repair}


def own_model():
    return M.FromFunction(up_and_down, states=2, params={"repair": 1.0})


class Renamed(M.MMmK):
    """Has the name of its parent, and more to it."""

    def rates(self, load, p):
        return 2 * super().rates(load, p)


OWN = {
    "function": own_model,
    "subclass": lambda: Renamed(1, 5),
    "relaxed": lambda: M.Relaxed(own_model()),
    "relaxed subclass": lambda: M.Relaxed(Renamed(1, 2)),
}


@pytest.mark.parametrize("make", OWN.values(), ids=OWN)
@pytest.mark.filterwarnings("ignore::stationary.errors.ConvergenceWarning")
def test_a_model_of_ones_own_must_be_passed(make, tmp_path):
    windows = st.Windows(LOADS, [[30, 12 + k % 3] for k in range(20)], [0, 1])
    fit = st.fit(make(), windows)
    fit.save(tmp_path / "run")
    with pytest.raises(RunError, match=r"a model of your own.*model="):
        st.load(tmp_path / "run")
    model = make()
    back = st.load(tmp_path / "run", model=model)
    pd.testing.assert_frame_equal(back.forecast([9.0]), fit.forecast([9.0]), check_exact=True)
    assert model.estimates == make().estimates  # left as it was


def test_a_known_model_may_be_passed_and_no_other(run, fit):
    assert st.load(run, model=M.MMmK(servers=1, capacity=5)).estimates == fit.estimates
    with pytest.raises(RunError, match=r"service_rate.*pass the model that was fitted"):
        st.load(run, model=own_model())


# Nothing is executed.


def test_nothing_is_pickled_or_unpickled(run, fit, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a pickle was loaded")

    for path in run.iterdir():
        with pytest.raises((ValueError, pickle.UnpicklingError)):
            list(pickletools.genops(path.read_bytes()))
    places = {pickle: ("load", "loads", "Unpickler"), torch: ("load",), np: ("load",)}
    for place, names in {**places, pd: ("read_pickle",)}.items():
        for name in names:
            monkeypatch.setattr(place, name, refuse)
    assert st.load(run).estimates == fit.estimates


def test_a_pickle_in_place_of_a_file_is_not_run(run, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "boom",))

    for name in ("arrays.safetensors", "windows.parquet"):
        (run / name).write_bytes(pickle.dumps(Bomb()))
    sign_files(run)
    with pytest.raises(RunError):
        st.load(run)
    assert not (tmp_path / "boom").exists()
