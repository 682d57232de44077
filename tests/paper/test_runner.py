import json
from dataclasses import replace

import pytest

from stationary._support import parallel
from stationary.errors import InputError, RunError, SolverError
from stationary.paper import runner
from stationary.paper.columns import METHODS
from stationary.paper.plan import Part, tasks
from stationary.paper.runner import Reading, Task, run
from stationary.paper.settings import draw, rows

ROW = rows()["mm1k-fast"]


def few(method="infinity", seeds=(0, 1), reading=Reading.FRESH):
    return Task(ROW, METHODS[method], reading, tuple(seeds), share=0.04)


def column(name, wanted, folder):
    return [record[name] for task in wanted for record in task.kept(folder)]


def test_a_record_has_the_start_and_every_epoch(tmp_path):
    run([few()], tmp_path, jobs=1)
    assert column("data", [few()], tmp_path) == [0, 1]
    assert all(len(curves["mape"]) == 3 for curves in column("curves", [few()], tmp_path))


@pytest.mark.parametrize("damage", ["", "{", "[]", "[1]", "{}", '[{"seed": 7}]'])
def test_damaged_records_are_made_again(tmp_path, damage):
    task = few("mle", (0,))
    task.file(tmp_path).parent.mkdir(parents=True)
    task.file(tmp_path).write_text(damage)
    assert task.kept(tmp_path) == []
    run([task], tmp_path, jobs=1)
    assert column("row", [task], tmp_path) == ["mm1k-fast"]


def test_other_settings_or_data_have_another_file(tmp_path):
    problem = draw(ROW, 0)
    task = replace(few(), problem=problem)
    others = [
        few(),
        few("ours"),
        few("mle"),
        replace(task, share=1.0),
        replace(task, seeds=(0,)),
        replace(task, column=replace(task.column, alpha=1.0)),
        replace(task, row=replace(ROW, lr=0.2)),
        replace(task, problem=replace(problem, target=problem.target * 1.01)),
    ]
    assert len({each.file(tmp_path) for each in [task, *others]}) == 9
    renamed = replace(task, row=replace(ROW, title="another"))
    assert renamed.file(tmp_path) == task.file(tmp_path)


def test_two_processes_give_the_same_as_one(tmp_path):
    wanted, done = [few("mle"), few("infinity")], []
    run(wanted, tmp_path / "one", jobs=1)
    run(wanted, tmp_path / "two", jobs=2, progress=lambda count, name: done.append(count))
    assert done == [1, 2]
    assert column("theta", wanted, tmp_path / "two") == column("theta", wanted, tmp_path / "one")


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same(tmp_path):
    distributed = pytest.importorskip("distributed")
    wanted = [few("mle"), few("infinity")]
    run(wanted, tmp_path / "here", jobs=1)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", protocol="tcp"
    ) as cluster:
        run(wanted, tmp_path / "there", cluster=cluster.scheduler_address)
    assert column("theta", wanted, tmp_path / "there") == column("theta", wanted, tmp_path / "here")


def test_a_cluster_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "_ANSWERS_WITHIN", "1s")
    with pytest.raises(InputError, match="no Dask scheduler answers at tcp"):
        run([few("mle", (0,))], tmp_path, cluster="tcp://127.0.0.1:9")


def test_repeats_on_one_data_set_and_on_many(tmp_path):
    one, luck = few("mle", (0, 1), Reading.ONE), few("mle", range(5), Reading.LUCK)
    fresh = few("mle", tuple(range(5)))
    run([one, luck, fresh], tmp_path, jobs=1)
    first, second = one.kept(tmp_path)
    assert first["theta"] == second["theta"]
    assert first["data"] == second["data"] == 0
    assert column("mape", [luck], tmp_path) == column("mape", [fresh], tmp_path)
    assert column("data", [luck], tmp_path) == [0, 1, 2, 3, 4]


def test_the_plan_holds_every_run_once():
    planned = tasks(Part.ALL)
    keys = [(task.row.name, task.column.name, task.reading) for task in planned]
    assert len(keys) == len(set(keys))
    table = {task.column.name for task in planned if task.row.name == "gap-mm1k"}
    assert table == {"dc16", "dc128", "infinity", "ours", "cls", "mle", "zero", "mean", "logistic"}
    assert {len(t.seeds) for t in planned if t.column.name == "infinity"} == {20}
    assert {len(t.seeds) for t in planned if t.reading is Reading.LUCK} == {1000}
    assert not any(task.row.source == "text" for task in planned)
    assert not any(task.row.name.startswith("testbed") for task in planned)  # no recording given


def test_a_task_that_fails_does_not_stop_the_others(tmp_path, monkeypatch):
    def fail(task):
        if task.column.random:
            raise SolverError("the gradient is not finite")
        return work(task)

    work = runner.work
    monkeypatch.setattr(runner, "work", fail)
    with pytest.raises(RunError, match="1 of 2 tasks failed: mm1k-fast, infinity, fresh: the grad"):
        run([few("infinity"), few("mle")], tmp_path, jobs=1)
    assert column("seed", [few("mle")], tmp_path) == [0, 1]


@pytest.mark.parametrize("method", ["zero", "dc16", "infinity", "mle"])
def test_records_are_strict_json(tmp_path, method):
    task = few(method, (0,))
    run([task], tmp_path, jobs=1)
    json.loads(task.file(tmp_path).read_text(), parse_constant=pytest.fail)
