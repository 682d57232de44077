"""Saved runs: the same fit comes back, whole or not at all, and damage is said."""

import json
import os
import pickle
import pickletools
import shutil
import stat
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

import stationary as st
from stationary import words
from stationary.errors import ConvergenceWarning, InputError, RunError
from stationary.output import store
from stationary.output.store import FORMAT
from stationary.planner import load

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
    assert one["checksums"] == other["checksums"]
    assert {k: v for k, v in one.items() if k != "created"} == {
        k: v for k, v in other.items() if k != "created"
    }


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


def test_others_may_read_the_folder_as_the_umask_says(fit, tmp_path):
    before = os.umask(0o022)
    try:
        fit.save(tmp_path / "run")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o755


def test_missing_parents_are_made(fit, tmp_path):
    fit.save(tmp_path / "a" / "b" / "run")
    assert listing(tmp_path / "a" / "b") == ["run"]


def test_a_link_to_a_folder_is_followed(fit, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "latest").symlink_to("real")
    fit.save(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert listing(tmp_path / "real") == FILES
    assert listing(tmp_path) == ["latest", "real"]


# Nothing half-written.


def test_an_empty_folder_is_filled(fit, tmp_path):
    (tmp_path / "run").mkdir()
    fit.save(tmp_path / "run")
    assert listing(tmp_path / "run") == FILES


def test_an_existing_run_is_kept_unless_it_may_be_overwritten(fit, run):
    before = contents(run)
    with pytest.raises(InputError, match=r"holds a run already.*--overwrite"):
        fit.save(run)
    assert contents(run) == before
    fitted(seed=5).save(run, overwrite=True)
    assert st.load(run).seed == 5
    assert listing(run.parent) == ["run"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_files_are_never_replaced(fit, run, tmp_path, overwrite):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "todo.txt").write_text("buy milk")
    (run / "report.html").write_text("hours of work")
    for folder, name in ((notes, "todo.txt"), (run, "report.html")):
        before = contents(folder)
        with pytest.raises(InputError, match=rf"holds other files \({name}\)"):
            fit.save(folder, overwrite=overwrite)
        assert contents(folder) == before


@pytest.mark.parametrize("name", ["file", "file/run", "file/a/run"])
def test_a_file_is_no_folder(fit, tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file is a file; name a folder"):
        fit.save(tmp_path / name, overwrite=True)
    assert (tmp_path / "file").read_text() == "x"


def test_the_folder_one_is_in_is_not_pulled_away(fit, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="the folder you are in"):
        fit.save(".")
    assert listing(tmp_path / "here") == []


def test_a_folder_without_permission_is_said_before_the_work(fit, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(InputError, match="run cannot be written: no permission"):
        fit.save(tmp_path / "run")
    assert listing(tmp_path) == []


def broken_writer(*args, **kwargs):
    raise OSError(28, "No space left on device")


STEPS = {
    "parquet": (pd.DataFrame, "to_parquet"),
    "safetensors": (safetensors.torch, "save"),
    "json": (Path, "write_text"),
}


@pytest.mark.parametrize(("place", "name"), STEPS.values(), ids=STEPS)
def test_a_failure_half_way_leaves_nothing(fit, tmp_path, monkeypatch, place, name):
    monkeypatch.setattr(place, name, broken_writer)
    with pytest.raises(InputError, match="run: the run cannot be written: No space left on device"):
        fit.save(tmp_path / "run")
    assert listing(tmp_path) == []


@pytest.mark.parametrize(("place", "name"), STEPS.values(), ids=STEPS)
def test_a_failure_half_way_keeps_the_run_that_was_there(fit, run, monkeypatch, place, name):
    before = contents(run)
    monkeypatch.setattr(place, name, broken_writer)
    with pytest.raises(InputError, match="cannot be written"):
        fit.save(run, overwrite=True)
    assert contents(run) == before
    assert listing(run.parent) == ["run"]


def test_a_failure_at_the_very_end_puts_the_old_run_back(fit, run, monkeypatch):
    before, replace = contents(run), Path.replace

    def fail_for_the_new(self, target):
        if self.name == "new":
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail_for_the_new)
    with pytest.raises(InputError, match="Input/output error"):
        fit.save(run, overwrite=True)
    assert contents(run) == before
    assert listing(run.parent) == ["run"]


def test_an_interrupt_half_way_leaves_nothing(fit, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_parquet", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit.save(tmp_path / "run")
    assert listing(tmp_path) == []


# Damage.


def signed(run, content):
    """Write a file that passes for one that was saved."""
    content.pop("checksum", None)
    content["checksum"] = store._digest(content)
    (run / "plan.json").write_text(json.dumps(content))


def test_an_edited_file_is_not_what_was_saved(run):
    content = json.loads((run / "plan.json").read_text())
    content["question"] = None
    (run / "plan.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"plan.json is not what was saved"):
        load(run)


def edit(**changes):
    def damage(run):
        content = json.loads((run / "plan.json").read_text())
        signed(run, content | changes)

    return damage


def edit_at(path, value):
    """Change one entry of the file, by the names on the way to it."""

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
        signed(run, content)

    return damage


GONE = object()


def cut(name, keep=0.5):
    def damage(run):
        raw = (run / name).read_bytes()
        (run / name).write_bytes(raw[: int(len(raw) * keep)])

    return damage


def with_checksums(run):
    """Make the checksums fit the files again, as somebody who knows them would."""
    edit(checksums={name: store._checksum(run / name) for name in FILES if name != "plan.json"})(
        run
    )


def cut_knowingly(name):
    def damage(run):
        cut(name)(run)
        with_checksums(run)

    return damage


def edit_parquet(run):
    frame = pd.read_parquet(run / "windows.parquet")
    frame.loc[0, "0:Q=0"] += 1
    frame.to_parquet(run / "windows.parquet")


def other_parquet(**columns):
    def damage(run):
        pd.DataFrame(columns).to_parquet(run / "windows.parquet")
        with_checksums(run)

    return damage


def other_tensors(changes):
    def damage(run):
        arrays = safetensors.torch.load_file(run / "arrays.safetensors") | changes
        kept = {name: value for name, value in arrays.items() if value is not None}
        safetensors.torch.save_file(kept, run / "arrays.safetensors")
        with_checksums(run)

    return damage


def json_as_folder(run):
    (run / "plan.json").unlink()
    (run / "plan.json").mkdir()


ONE = torch.ones(1, dtype=torch.float64)
MMMK, SEEN = "fitted/mmmk", "windows/observations/0"
DAMAGE = {
    "no json": (lambda run: (run / "plan.json").unlink(), "plan.json is missing"),
    "no parameters": (
        lambda run: (run / "arrays.safetensors").unlink(),
        "arrays.safetensors is missing",
    ),
    "no windows": (lambda run: (run / "windows.parquet").unlink(), "windows.parquet is missing"),
    "json is a folder": (json_as_folder, "plan.json: Is a directory"),
    "json is empty": (lambda run: (run / "plan.json").write_text(""), "plan.json: Expecting value"),
    "json is cut": (cut("plan.json"), "plan.json: "),
    "json is a list": (lambda run: (run / "plan.json").write_text("[]"), "does not say its format"),
    "json is binary": (
        lambda run: (run / "plan.json").write_bytes(b"\xff\xfe\x00"),
        "plan.json is not text",
    ),
    "json without a field": (edit_at(f"{MMMK}/nll", GONE), "nll"),
    "json without checksums": (edit_at("checksums", GONE), "plan.json: checksums is missing"),
    "json with a wrong type": (edit_at(f"{MMMK}/nll", "much"), "nll must be .*got 'much'"),
    "json with a wrong flag": (edit_at(f"{MMMK}/ended/converged", "perhaps"), "converged must be"),
    "json with a null": (edit_at(f"{MMMK}/evaluations", None), "evaluations must be .*got None"),
    "json with an unknown code": (edit_at(f"{MMMK}/ended/why", "bored"), "'bored'"),
    "format is text": (edit(format="one"), "does not say its format"),
    "unknown model": (edit_at(f"{MMMK}/model/description", {"name": "mm1"}), "no model 'mm1'"),
    "model name is a number": (edit_at(f"{MMMK}/model/description", {"name": 3}), "damaged"),
    "model option of another kind": (edit_at(f"{MMMK}/model/description/servers", "x"), "damaged"),
    "model without its option": (
        edit_at(f"{MMMK}/model/description", {"name": "relaxed"}),
        "needs the option 'model'",
    ),
    "model of another size": (
        edit_at(f"{MMMK}/model/description", {"name": "multidiagonal", "depth": 2, "capacity": 5}),
        "has 2 parameters; got 1",
    ),
    "too few categories": (edit_at(f"{SEEN}/observe", [[0], [1]]), "2 categories"),
    "categories overlap": (edit_at(f"{SEEN}/observe", [[0], [1], [1]]), "state 1 is in category"),
    "unknown sampling": (edit_at(f"{SEEN}/sampling", "now and then"), "sampling must be"),
    "no inputs": (edit_at("windows/inputs", []), "at least one input"),
    "no checksums": (edit(checksums={}), "is not what was saved"),
    "parameters are cut": (cut("arrays.safetensors"), "arrays.safetensors is not what was saved"),
    "parameters are empty": (
        cut("arrays.safetensors", keep=0),
        "arrays.safetensors is not what was saved",
    ),
    "parameters are cut, knowingly": (cut_knowingly("arrays.safetensors"), "damaged"),
    "windows are cut": (cut("windows.parquet"), "windows.parquet is not what was saved"),
    "windows are cut, knowingly": (cut_knowingly("windows.parquet"), "damaged"),
    "windows are edited": (edit_parquet, "windows.parquet is not what was saved"),
    "windows of other columns": (other_parquet(a=[1, 2]), "damaged"),
    "windows of text": (
        other_parquet(**{"x:load": ["a"], "0:Q=0": [1], "0:Q=1": [2], "0:Q=2": [3]}),
        "damaged",
    ),
    "negative counts": (
        other_parquet(**{"x:load": [11.0], "0:Q=0": [-1], "0:Q=1": [2], "0:Q=2": [3]}),
        "the count is -1.0",
    ),
    "no parameters in the file": (other_tensors({"fitted.mmmk.model.theta": None}), "theta"),
    "no covariance in the file": (
        other_tensors({"fitted.mmmk.covariance.matrix": None}),
        "covariance.matrix",
    ),
    "a negative rate": (
        other_tensors({"fitted.mmmk.model.theta": -ONE}),
        "service_rate must be positive",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_said_with_the_folder_and_what_to_do(run, damage, message):
    damage(run)
    with pytest.raises(RunError, match=message) as caught:
        load(run)
    assert str(run) in str(caught.value)
    assert "fit again, or restore it from a copy" in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        edit(format=FORMAT + 1, versions={"stationary": "9.1.0"}),
        # A newer version may well have renamed its fields.
        lambda run: (run / "plan.json").write_text(
            json.dumps({"format": FORMAT + 1, "versions": {"stationary": "9.1.0"}, "what": []})
        ),
    ],
)
def test_a_run_of_a_newer_version_is_refused_as_such(run, damage):
    damage(run)
    with pytest.raises(RunError, match=r"written by a newer stationary \(9.1.0\).*upgrade"):
        load(run)


def test_unknown_fields_are_ignored(run, fit):
    edit(comment="best so far")(run)
    assert load(run).estimates == fit.estimates


def test_what_is_no_run_is_called_so(tmp_path):
    with pytest.raises(RunError, match="nowhere: there is no such folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="file is a file; give the folder"):
        load(tmp_path / "file")
    with pytest.raises(RunError, match="is not a run; give a folder"):
        load(tmp_path)


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
    "function": (own_model, own_model),
    "subclass": (lambda: Renamed(1, 5), lambda: Renamed(1, 5)),
    "relaxed": (lambda: M.Relaxed(own_model()), lambda: M.Relaxed(own_model())),
    "relaxed subclass": (
        lambda: M.Relaxed(Renamed(1, 2)),
        lambda: M.Relaxed(Renamed(1, 2)),
    ),
}


@pytest.mark.parametrize(("make", "again"), OWN.values(), ids=OWN)
def test_a_model_of_ones_own_must_be_passed(make, again, tmp_path):
    windows = st.Windows(LOADS, [[30, 12 + k % 3] for k in range(20)], [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = st.fit(make(), windows)
    fit.save(tmp_path / "run")
    with pytest.raises(RunError, match=r"a model of your own.*model="):
        load(tmp_path / "run")
    model = again()
    back = load(tmp_path / "run", model=model)
    pd.testing.assert_frame_equal(back.forecast([9.0]), fit.forecast([9.0]), check_exact=True)
    assert model.estimates == again().estimates  # left as it was


def test_another_model_than_the_fitted_one_is_refused(run, tmp_path):
    with pytest.raises(RunError, match=r"service_rate.*pass the model that was fitted"):
        load(run, model=own_model())


def test_a_known_model_may_be_passed_too(run, fit):
    assert load(run, model=M.MMmK(servers=1, capacity=5)).estimates == fit.estimates


# Nothing is executed.


def test_nothing_is_pickled(run):
    for path in run.iterdir():
        raw = path.read_bytes()
        with pytest.raises((ValueError, pickle.UnpicklingError)):
            list(pickletools.genops(raw))


def test_loading_unpickles_nothing(run, fit, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a pickle was loaded")

    for place, name in (
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
        (torch, "load"),
        (np, "load"),
        (pd, "read_pickle"),
    ):
        monkeypatch.setattr(place, name, refuse)
    assert load(run).estimates == fit.estimates


def test_a_pickle_in_place_of_a_file_is_not_run(run, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "boom",))

    for name in ("arrays.safetensors", "windows.parquet"):
        (run / name).write_bytes(pickle.dumps(Bomb()))
    with_checksums(run)
    with pytest.raises(RunError):
        load(run)
    assert not (tmp_path / "boom").exists()
