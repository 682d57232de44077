"""The studio as a server: who may speak to it, what it makes, and what it survives."""

import asyncio
import bz2
import gzip
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from multiprocessing.context import SpawnProcess

import numpy as np
import pytest
from starlette.requests import Request
from studios import log_of, running, wait_for

import stationary as st
from stationary.errors import InputError, RunError
from stationary.studio.answers import Asked, View, bands, labelled, said
from stationary.studio.app import Studio
from stationary.studio.data import windows
from stationary.studio.jobs import Job
from stationary.studio.library import Library
from stationary.studio.slow import Slow, rules, table
from stationary.studio.uploads import Uploads
from stationary.studio.work import known_of, make

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def saved(plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans") / "checkout"
    plan.save(folder)
    return folder


@pytest.fixture(scope="module")
def studio(saved, tmp_path_factory):
    with running(saved, output=tmp_path_factory.mktemp("studio")) as started:
        yield started


def follow(studio, job):
    """Wait for the end of a job; return its last state."""

    def end():
        state = json.loads(studio.get(f"api/jobs/{job}")[2])
        return state if {"plan", "error"} & state.keys() else None

    return wait_for(end)


# What the pages show is what the plan answers.


def test_sentences_and_limits_are_the_plans(plan):
    record = said(View(plan), Asked.of([("slo", "loss<2%")]))
    limit = plan.max_load("loss<2%")
    assert record["limit"]["load"] == limit.load
    assert (record["limit"]["low"], record["limit"]["high"]) == (limit.low, limit.high)
    assert record["answer"].startswith("Loss < 2% holds up to")


def test_bands_are_the_plans_forecast_and_the_quick_curve_is_that_of_its_estimates(plan):
    view = View(plan)
    found = bands(view, Asked())
    ahead = plan.forecast(found["load"], measures=["loss"])
    assert found["curves"]["loss"]["high"] == ahead["loss_high"].tolist()
    assert "interval" not in view.facts("answer", Asked())["answer"]
    quick = view.curves(Asked())
    at = plan.model.at(np.array(quick["load"])[:, None], plan.model.theta.detach())
    exact = plan.model.measure("loss")(at).detach().numpy()
    assert np.allclose(quick["now"]["loss"], exact, rtol=1e-12)


def test_a_what_if_is_the_plans_own(plan):
    view, asked = View(plan), Asked.of([("servers", "3"), ("patience", "0.5"), ("load", "9")])
    other = plan.what_if(servers=3, patience=0.5)
    assert said(view, asked)["limit"]["load"] == other.limit.load
    quick = view.curves(asked)
    model = other.model
    at = model.at(np.array(quick["load"])[:, None], model.theta.detach())
    assert np.allclose(quick["changed"]["loss"], model.measure("loss")(at).detach(), rtol=1e-12)


def test_a_window_that_was_tampered_with_stands_out(plan):
    seen = plan.windows.states
    data = seen.data.clone()
    data[7] = data[7].flip(-1)  # mostly full where it was mostly empty
    odd = st.fit(plan.model, st.Windows(plan.windows.x, observations=[seen.with_data(data)]))
    rows = windows(View(odd), Asked())["windows"]
    worst = max(range(len(rows)), key=lambda k: abs(rows[k]["off"]))
    assert worst == 7
    assert any("fuller or slower" in reason for reason in rows[7]["reasons"])


def test_the_checks_of_a_plan_that_warns_are_shown(plan, tmp_path):
    seen = plan.windows.states
    data = seen.data.clone()
    data[len(data) // 2 :] = data[len(data) // 2 :].flip(-1)  # the system changed half-way
    found = st.fit(plan.model, st.Windows(plan.windows.x, observations=[seen.with_data(data)]))
    verdicts = {finding.verdict for finding in found.findings}
    assert "warning" in verdicts
    studio = Studio(Library(tmp_path))
    studio.scratch.cleanup()
    asked = {"type": "http", "path_params": {"token": "t", "name": "changed"}, "query_string": b""}
    shown = studio.render(Request(asked), "checks", view=View(found))
    marked = re.findall(
        r'<details class="(\w+)".*?class="verdict">\S+ ([^<]+)<', shown.body.decode(), re.S
    )
    said_ = {"ok": "fine", "warning": "warning", "unknown": "the data do not say enough"}
    assert {verdict for verdict, _ in marked} == verdicts
    assert all(said_[verdict] == text for verdict, text in marked)


def test_a_bound_on_windows_may_have_the_unit_of_their_loads():
    task = {"slo": ["p99<200"], "servers": "2,4", "patience": "30s", "window": "10s"}
    known, slos = known_of({**task, "holds": "windows"})
    assert known == {"servers": [2, 4], "patience": 30.0, "window": 10.0}
    assert [slo.bound for slo in slos] == [200.0]


def test_what_must_hold_is_what_the_address_says(plan):
    view, asked = View(plan), Asked.of([("slo", "loss<2%"), ("slo", "mean_queue<3")])
    facts = view.facts("what-if", asked)
    assert [(slo["measure"], slo["bound"]) for slo in facts["slos"]] == [
        ("loss", 0.02),
        ("mean_queue", 3.0),
    ]
    assert facts["charted"] == ["loss", "p99", "mean_queue"]
    assert facts["limit"] is None  # that of the plan is of other SLOs
    assert view.facts("what-if", Asked())["limit"]["load"] == view.sketch.limit.load


def test_sentences_name_fields_of_the_page_and_not_options():
    assert labelled("set --patience, not --json") == "set Patience, not --json"


def test_the_data_of_a_saved_what_if_are_of_the_system_as_it_was(plan, tmp_path):
    plan.what_if(servers=3).save(tmp_path / "three")
    found = windows(View(st.load(tmp_path / "three")), Asked())
    assert "the data are of the system as it was" in found["note"]
    assert [row["load"] for row in found["windows"]] == plan.windows.loads.tolist()
    assert not any(row["reasons"] for row in found["windows"])
    task = {"plan": str(tmp_path / "three"), "without": [0], "output": str(tmp_path / "new")}
    with pytest.raises(InputError, match="plan of the observed system"):
        make(task, lambda *given, **facts: None)


def test_a_plan_of_two_inputs_is_sent_to_the_report():
    def rates(load, temperature, p):
        return {(0, 1): load, (1, 0): p.mend * temperature}

    model = st.models.FromFunction(
        rates, states=["up", "down"], params={"mend": 5.0}, inputs=("load", "temperature")
    )
    x = [[load, warm] for load in (1.0, 2.0, 3.0, 4.0) for warm in (1.0, 2.0)]
    seen = st.simulate(model, x=x, duration=100.0, seed=1)
    with pytest.raises(InputError, match=r"load, temperature.*stationary report"):
        View(st.fit(model, seen))


# Who may speak to it.


def test_without_the_token_there_is_nothing(studio):
    host = f"http://{studio.host}/"
    for path in ("", "new", "static/studio.css", "x" * 32 + "/new", "%2e%2e/new"):
        status, headers, text = studio.get(host + path)
        assert (status, text.split()[0]) == (404, "Open")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_a_foreign_host_or_origin_is_refused(studio):
    path = studio.address.split(studio.host)[1] + "new"
    for host, status in (("evil.example", 400), (f"evil.example:{studio.host[10:]}", 400)):
        line = studio.raw(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert f" {status} " in line
    evil = "http://evil.example"
    assert studio.get("new", Origin=evil)[0] == 403
    assert studio.get("new", **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert studio.post("api/plans", {}, Origin=evil)[0] == 403
    assert studio.send("POST", "api/plans", b"{}")[0] == 403  # without any origin
    assert studio.get("new", Origin=f"http://{studio.host}")[0] == 200
    line = studio.raw(
        f"GET {path} HTTP/1.1\r\nHost: {studio.host}\r\nOrigin: http://[\r\n\r\n".encode()
    )
    assert " 403 " in line
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a\r\n"
    head = f"GET /x HTTP/1.1\r\nHost: {studio.host}\r\n{upgrade}\r\n"
    assert " 404 " in studio.raw(head.encode())
    assert " 404 " in studio.raw(f"OPTIONS * HTTP/1.1\r\nHost: {studio.host}\r\n\r\n".encode())


def test_the_token_reaches_the_browser_by_a_file_of_the_user(saved, tmp_path):
    script, seen = tmp_path / "browser.py", tmp_path / "seen.txt"
    script.write_text(
        "import json, os, sys, urllib.request\n"
        "file = urllib.request.url2pathname(sys.argv[1].removeprefix('file://'))\n"
        "mode = os.stat(os.path.dirname(file)).st_mode & 0o777\n"
        f"with open({str(seen)!r} + '.part', 'w') as made:\n"
        "    json.dump([sys.argv[1], mode, open(file).read()], made)\n"
        f"os.rename({str(seen)!r} + '.part', {str(seen)!r})\n"
    )
    with running(saved, output=tmp_path, browser=f"{sys.executable} {script} %s") as studio:
        wait_for(seen.exists)
        address, mode, text = json.loads(seen.read_text())
        assert studio.address.split("/")[3] not in address
        assert mode == 0o700
        assert studio.address in text
        # A browser calls this a visit from another site; scripts of other sites stay out.
        visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert studio.get("new", **visit, **{"Sec-Fetch-Dest": "document"})[0] == 200
        assert studio.get("new", **visit, **{"Sec-Fetch-Dest": "iframe"})[0] == 403


def test_every_answer_forbids_what_the_page_does_not_need(studio):
    for path in ("new", "plans/checkout/answer", "static/chart.js", "plans/checkout/api/curves"):
        status, headers, text = studio.get(path)
        policy = headers["Content-Security-Policy"]
        assert status == 200
        assert "unsafe" not in policy
        assert "script-src 'self'" in policy
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == (
            "nosniff",
            "no-referrer",
        )
        assert " style=" not in text
        assert " onclick=" not in text


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..", "nothing", "%2fetc"])
def test_no_path_is_taken_from_the_browser(studio, name):
    assert studio.get(f"plans/{name}/answer")[0] in (400, 404)
    assert studio.get(f"plans/checkout/files/{name}")[0] == 404
    task = {"upload": name, "source": "/etc/passwd", "output": "/tmp/nowhere", "plan": "/etc"}
    status, _, text = studio.post("api/plans", task)
    assert (status, "upload is gone" in text) == (400, True)


def test_a_wrong_question_gets_a_sentence(studio):
    for query, said_ in (
        ("slo=loss<x", "an SLO is written"),
        ("slo=latency<1s", "latency"),
        ("servers=many", "servers must be a number"),
        ("servers=0", "servers"),
        ("servers=7&capacity=5", "at least the servers, 7"),
        ("capacity=100000", "capacity must be 1 to"),
    ):
        query = query.replace("<", "%3C")
        for kind in ("said",) if query.startswith("slo") else ("said", "curves"):
            status, _, text = studio.get(f"plans/checkout/api/{kind}?{query}")
            assert status == 400
            assert said_.lower() in json.loads(text)["error"].lower()
    for body in (b"[" * 9, b"[" * 100_000, b"\xff", b"[]", b'{"without": 5}'):
        status, _, text = studio.post("plans/checkout/api/again", body)
        assert (status, "reload the page" in text) == (400, True)
    job = json.loads(studio.post("plans/checkout/api/again", {"without": []})[2])["job"]
    assert "choose the windows" in follow(studio, job)["error"]


def test_a_wrong_address_leads_back_and_what_must_hold_goes_along(studio):
    person = {"Accept": "text/html,*/*"}
    status, _, text = studio.get("plans/checkout/answer?slo=loss%3Cx", **person)
    way = f'href="/{studio.address.split("/")[3]}/plans/checkout/answer"'
    assert (status, "An SLO is written" in text, way in text) == (400, True, True)
    status, _, text = studio.get("plans/nothing/answer", **person)
    assert (status, "There is no plan" in text, "/new" in text) == (400, True, True)
    assert (
        "plans/checkout/what-if?slo=loss%3C2%25"
        in studio.get("plans/checkout/models?slo=loss%3C2%25")[2]
    )


def test_the_first_page_is_a_plan_or_where_one_is_made(saved, tmp_path):
    def first(folder, opened, source=None):
        studio = Studio(Library(folder, opened), source)
        studio.scratch.cleanup()
        request = Request({"type": "http", "path_params": {"token": "t"}})
        return asyncio.run(studio.home(request)).headers["location"]

    assert first(tmp_path, saved) == "/t/plans/checkout/answer"
    assert first(tmp_path, saved, tmp_path / "access.log") == "/t/new"
    assert first(tmp_path, None) == "/t/new"
    other = shutil.copytree(saved, tmp_path / "what? #2")
    assert first(tmp_path, other) == "/t/plans/what%3F%20%232/answer"


# What is sent to it.


BAD = {
    "empty.csv": (b"", "empty"),
    "photo.png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, "text"),
    "logs.zip": (b"PK\x03\x04" + b"\0" * 99, "zip archive"),
    "bomb.csv.gz": (gzip.compress(b"a,b\n" + b"1,2\n" * 2**25), "unpacked"),
    "cut.csv.gz": (gzip.compress(b"arrival,response\n" * 999)[:60], "damaged"),
    "false.parquet": (b"PAR1" + b"\0" * 64 + b"PAR1", "damaged"),
    "prose.log": (b"dear reader\nthis is no log\n" * 9, ""),
    "remarks.csv": (b"# nothing\n# at all\n", "no row"),
    "broken.jsonl": (b'{"time": 1}\n{"time": \n', "not rows of jsonl"),
    "arrays.jsonl": (b"[1, 2]\n[3, 4]\n", "not rows of jsonl"),
    "deep.jsonl": (b'{"time": 1}\n' + b"[" * 50_000 + b"\n", "not rows of jsonl"),
    "long.jsonl": (b'{"time": "' + b"x" * 2**17 + b'"}\n', "no row"),
    "nul.csv": (b"a,b\n1,\x002\n", "text"),
    "packed.csv": (b"BZh91AY&SY\0\0" * 9, "text"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_upload_gets_a_sentence(studio, name):
    body, said_ = BAD[name]
    status, _, text = studio.post(f"api/uploads?name={name}", body)
    error = json.loads(text)["error"]
    assert status == 400
    assert said_ in error
    assert name in error
    assert "/tmp" not in error


def test_rows_of_json_end_at_newlines_alone_and_show_what_utf_8_can_carry(tmp_path):
    file = tmp_path / "shop.jsonl"
    file.write_bytes(
        '{"time": 1, "path": "a\u2028b"}\r\n{"time": 2, "path": "\\ud800"}\n'.encode()
        + b'{"time": 3, "path": "'
        + b"x" * 2**17
    )
    uploads = Uploads(tmp_path / "studio")
    preview = uploads.preview(uploads.register(file, file.name))
    assert preview["columns"] == ["time", "path"]
    assert preview["rows"] == [["1", "a\u2028b"], ["2", "?"]]


def test_a_table_packed_with_bzip2_is_read(studio):
    body = b"arrival,response\n" + b"".join(b"%d,0.1\n" % k for k in range(99))
    status, _, text = studio.post("api/uploads?name=shop.csv.bz2", bz2.compress(body))
    assert (status, json.loads(text)["columns"]) == (200, ["arrival", "response"])


def test_few_uploads_are_kept_and_a_file_of_the_user_stays(tmp_path):
    async def body():
        yield b"arrival,response\n1.0,0.1\n"

    own = tmp_path / "own.csv"
    own.write_text("# nothing\n")
    folder = tmp_path / "studio"
    folder.mkdir()
    uploads = Uploads(folder)
    mine = uploads.register(own, own.name)
    keys = [asyncio.run(uploads.receive("a.csv", 10, body())) for _ in range(7)]
    assert len(list(folder.iterdir())) == 4
    assert uploads.get(keys[-1])[0].exists()
    for _ in range(2):  # what is wrong with it is said every time
        with pytest.raises(InputError, match=r"own.csv: there is no row"):
            uploads.preview(mine)
    uploads.forget(mine)
    assert own.exists()


def test_an_upload_of_two_gigabytes_is_refused_before_it_is_read(studio):
    path = studio.address.split(studio.host)[1]
    head = (
        f"POST {path}api/uploads?name=big.log HTTP/1.1\r\nHost: {studio.host}\r\n"
        f"Origin: http://{studio.host}\r\nContent-Length: {2**31}\r\n\r\n"
    )
    assert " 400 " in studio.raw(head.encode() + b"127.0.0.1 - -\n")


def test_the_name_of_an_upload_is_no_path(tmp_path):
    async def body():
        yield b"arrival,response,status\n1.0,0.1,200\n2.0,0.1,200\n"

    uploads = Uploads(tmp_path)
    name = "../../etc/x.sh;rm -rf.csv"
    key = asyncio.run(uploads.receive(name, 10, body()))
    file, shown = uploads.get(key)
    assert (file.parent, file.suffix, "/" in shown) == (tmp_path, ".csv", False)
    assert uploads.preview(key)["likely"]["response"] == "response"


def test_windows_are_told_from_requests(tmp_path):
    uploads = Uploads(tmp_path / "studio")
    for head, holds in (
        ("start,load,sent,Q=0,Q=1", "windows"),  # as ingest writes them
        ("load,Q=0,Q=1", "windows"),
        ("start,load,duration", "requests"),
    ):
        file = tmp_path / "table.csv"
        file.write_text(f"{head}\n" + ",".join("1" * (head.count(",") + 1)) + "\n")
        assert uploads.preview(uploads.register(file, file.name))["holds"] == holds


def test_a_plan_that_fails_leaves_no_folder_where_the_server_is_gone(tmp_path):
    task = {"plan": str(tmp_path / "nothing"), "without": [1], "output": str(tmp_path / "new")}
    (tmp_path / "new").mkdir()
    command = [sys.executable, "-m", "stationary.studio.work"]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True)
    assert "error" in json.loads(done.stdout)
    assert not (tmp_path / "new").exists()


# What it makes.


def test_from_an_upload_to_files(studio, tmp_path):
    status, _, text = studio.post("api/uploads?name=shop.csv", log_of(tmp_path).read_bytes())
    preview = json.loads(text)
    assert (status, preview["holds"], preview["format"]) == (200, "requests", "csv")
    assert preview["columns"] == ["arrival", "response", "status"]
    assert len(preview["rows"]) == 6
    task = {
        "upload": preview["upload"],
        "columns": {"arrival": "arrival", "response": "response", "status": "status"},
        "servers": "2",
        "capacity": "12",
        "slo": ["loss<1%"],
        "title": "Shop",
    }
    job = json.loads(studio.post("api/plans", task)[2])["job"]
    second = studio.post("api/plans", task)
    assert (second[0], "being made already" in second[2]) == (400, True)
    state = follow(studio, job)
    assert state["plan"] == "shop"
    assert any("left out" in note for note in state["notes"])
    status, headers, page = studio.get("plans/shop/files/report.html")
    assert (status, "attachment" in headers["Content-Disposition"]) == (200, True)
    assert "Loss &lt; 1% holds up to" in page
    assert studio.get("plans/shop/files/forecast.csv")[2].startswith("load,loss,loss_low")
    rules = studio.get("plans/shop/files/rules.yml?load_expr=sum(x)")[2]
    assert "stationary:limit" in rules
    assert "sum(x)" in rules


def test_wrong_columns_get_a_sentence(studio, tmp_path):
    body = b"when,took\n" + b"".join(b"%d,0.1\n" % k for k in range(99))
    key = json.loads(studio.post("api/uploads?name=odd.csv", body)[2])["upload"]
    task = {"upload": key, "columns": {"arrival": "when", "response": "nothing"}}
    for wrong, named in (
        ({"servers": "one"}, "servers"),
        ({"slo": ["loss<soon"]}, "loss<soon"),
        ({"patience": "ages"}, "patience"),
        ({"window": [1]}, "window"),
        ({"slo": ["lss<1%"]}, "there is no measure 'lss'"),
        ({"slo": ["p99<200"]}, "write p99<200ms or p99<200s"),
        ({"servers": "4", "capacity": "2"}, "counts requests in service, too"),
        ({"time_unit": "hours"}, "the unit of times is s, ms, us, ns; got 'hours'"),
        ({"columns": 5}, "reload"),
        ({"columns": {"arrival": ["when"]}}, "reload"),
        ({"columns": {"arrival": {"when": 1}}}, "reload"),
    ):
        status, _, text = studio.post("api/plans", {**task, **wrong})
        assert (status, named in json.loads(text)["error"]) == (400, True)
    error = follow(studio, json.loads(studio.post("api/plans", task)[2])["job"])["error"]
    assert "odd.csv" in error
    assert "nothing" in error


def test_windows_left_out_make_a_new_plan_and_leave_the_old_one(studio, saved, plan):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    path = "plans/checkout/api/again"
    state = follow(studio, json.loads(studio.post(path, {"without": [0, 3]})[2])["job"])
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before
    library = Library(studio.output)
    made = library.view(state["plan"]).plan
    assert len(made.windows) == len(plan.windows) - 2
    keep = [k for k in range(len(plan.windows)) if k not in (0, 3)]
    assert made.windows == plan.windows.select(keep)
    assert made.question == plan.question


def test_a_plan_can_be_cancelled_and_leaves_nothing(studio):
    folder = studio.output
    there = set(folder.iterdir())
    job = json.loads(studio.post("plans/checkout/api/again", {"without": [1]})[2])["job"]
    assert studio.post(f"api/jobs/{job}/cancel", {})[0] == 200
    assert follow(studio, job)["error"] == "Cancelled."
    wait_for(lambda: set(folder.iterdir()) == there)


def test_a_killed_server_loses_no_plan(saved, tmp_path):
    with running(saved, output=tmp_path) as studio:
        job = json.loads(studio.post("plans/checkout/api/again", {"without": [1]})[2])["job"]
        state = json.loads(studio.get(f"api/jobs/{job}")[2])
        assert "error" not in state
        os.kill(studio.process.pid, signal.SIGKILL)
        studio.process.wait()
        (place,) = wait_for(Library(tmp_path).places).values()
        assert st.load(place).limit.load > 0
    assert st.load(saved).limit.load > 0


def test_downloads_wait_for_one_another_and_a_lost_process_is_replaced(saved):
    async def talk():
        slow = Slow()
        try:
            for function in (said, said):
                asked = slow.ask(saved, "tab", function, Asked())
                assert (await asked)["limit"]
            files = [(table, Asked()), (rules, Asked(), "sum(x)")]
            texts = await asyncio.gather(*[slow.ask(saved, None, *each) for each in files])
            assert [text.split("\n")[0][:5] for text in texts] == ["load,", "group"]
            for child in multiprocessing.active_children():
                if isinstance(child, SpawnProcess):  # other tests may have workers of their own
                    child.kill()
            with pytest.raises(RunError, match="ask again"):
                await slow.ask(saved, "tab", bands, Asked())
            assert (await slow.ask(saved, "tab", bands, Asked()))["curves"]
        finally:
            slow.close()

    asyncio.run(talk())


def test_a_plan_that_is_removed_meanwhile_gets_a_sentence(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "gone")
    library = Library(tmp_path / "studio", tmp_path / "gone")
    assert library.view("gone")
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(RunError, match="there is no plan in 'gone' any more"):
        library.view("gone")


def test_a_job_that_is_over_is_not_signalled(tmp_path, monkeypatch):
    signalled = []
    monkeypatch.setattr(os, "killpg", lambda *given: signalled.append(given))
    job = Job({"plan": str(tmp_path), "output": str(tmp_path / "new")}, lambda: None)
    wait_for(lambda: not job.running and job.process.poll() is not None)
    job.cancel()
    assert "error" in job.state
    assert signalled == []


def test_a_bootstrap_is_repeated_without_the_windows_and_a_stochastic_fit_is_refused(
    plan, tmp_path
):
    single = st.fit(plan.model, plan.windows).bootstrap(20, jobs=1)
    single.save(tmp_path / "single")
    task = {"plan": str(tmp_path / "single"), "without": [0], "output": str(tmp_path / "new")}
    made = make(task, lambda *given, **facts: None)
    assert len(made.refits.theta) + made.refits.failed == 20
    assert made.windows.observations[0].kind == single.windows.observations[0].kind
    single.having(recipe={"method": "Stochastic(epochs=50)"}).save(tmp_path / "other")
    with pytest.raises(InputError, match=r"Stochastic\(epochs=50\).*does not repeat"):
        make({**task, "plan": str(tmp_path / "other")}, lambda *given, **facts: None)


def test_two_tabs_get_a_folder_each(tmp_path):
    library = Library(tmp_path)
    places = [library.new("Shop & Co") for _ in range(3)]
    assert [place.name for place in places] == ["shop-co", "shop-co-2", "shop-co-3"]


def test_a_port_that_is_taken_and_a_source_that_is_not_there(call, studio, saved):
    port = studio.host.split(":")[1]
    code, _, err = call("studio", saved, "--port", port, "--no-browser")
    assert (code, f"port {port}" in err) == (2, True)
    code, _, err = call("studio", saved, "--port", "70000", "--no-browser")
    assert (code, "--port must be" in err) == (2, True)
    code, _, err = call("studio", "nowhere.log", "--no-browser")
    assert (code, "nowhere.log" in err) == (2, True)
