"""``stationary plan``: one command from a source to an answer, a folder and a report."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import stationary as st
from stationary import words
from stationary.errors import InputError
from stationary.simulation import simulate_requests

SYSTEM = ("--servers", "1", "--capacity", "12")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same server as a table of requests and as one of windows."""
    folder = tmp_path_factory.mktemp("sources")
    truth = st.models.MMmK(servers=1, capacity=12, service_rate=40.0)
    loads = np.repeat([8.0, 12.0, 16.0, 20.0, 24.0], 4)
    log = simulate_requests(truth, loads, 10.0, seed=2)
    rows = zip(log.arrival, log.response, log.answered, strict=True)
    lines = [f"{a:.6f},{r if ok else ''},{200 if ok else 503}" for a, r, ok in rows]
    (folder / "requests.csv").write_text("\n".join(["arrival,response,status", *lines, ""]))
    windows = st.simulate(truth, loads, duration=40.0, seed=1, scheme=st.simulation.Arrivals())
    windows.to_csv(folder / "windows.csv")
    return folder


def test_an_answer_on_one_screen(call, sources):
    slos = ("--slo", "loss<1%", "--slo", "p99<400ms")
    growth = ("--growth", "3%/month", "--unit", "req/s")
    code, out, err = call("plan", sources / "windows.csv", *SYSTEM, *slos, *growth)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("Loss < 1% and p99 < 400 ms hold up to ")
    assert "req/s (95% interval" in lines[0]
    for word in ("is missed first;", "may grow by", "by 3% per month", "Based on", "Next"):
        assert word in out


def test_the_service_that_was_learnt_is_said(call, sources):
    code, out, _ = call("plan", sources / "requests.csv", *SYSTEM, "--slo", "loss<1%")
    assert code in (0, 1)
    assert "serving a request takes 2" in " ".join(out.split())  # 25 ms
    assert "standard deviation 2" in " ".join(out.split())
    assert "passes outside the queue" not in " ".join(out.split())  # it has none


def test_windows_of_requests_can_be_left_out_and_options_of_files_are_refused(call, sources):
    told = ("plan", sources / "requests.csv", *SYSTEM, "--slo", "loss<1%", "--json")
    whole, less = (json.loads(call(*told, *more)[1]) for more in ((), ("--leave-out", "2,5")))
    assert whole["limit"]["load"] != less["limit"]["load"]
    code, _, err = call(*told, "--observe", "0-3")
    assert code == 2
    assert "--observe" in err


def test_windows_out_of_the_ordinary_are_named_and_can_be_left_out(call, sources, tmp_path):
    lines = (sources / "windows.csv").read_text().splitlines()
    head = next(k for k, line in enumerate(lines) if not line.startswith("#"))
    row = lines[head + 9].split(",")
    many = sum(map(int, row[1:12]))
    lines[head + 9] = ",".join([row[0], *(str(many * (k == 9)) for k in range(len(row) - 1))])
    (tmp_path / "odd.csv").write_text("\n".join(lines))
    told = ("plan", tmp_path / "odd.csv", *SYSTEM, "--slo", "loss<1%")
    found, left = (" ".join(call(*told, *more)[1].split()) for more in ((), ("--leave-out", "9")))
    assert re.search(
        r"window 9 \(load [\d.]+\) is unlike others at nearly the same load and counts little",
        found,
    )
    assert "unlike others" not in left


def test_the_answer_for_programs_is_the_librarys(call, sources, tmp_path):
    folder = tmp_path / "plan"
    slos = ("--slo", "loss<1%", "--slo", "p99<400ms")
    code, out, _ = call(
        "plan", sources / "windows.csv", *SYSTEM, *slos, "--present", "22", "--json", "-o", folder
    )
    found, saved = json.loads(out), st.load(folder)
    assert code == 0
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    limit = saved.limit
    assert [found["limit"][key] for key in ("load", "low", "high")] == [
        *(limit.load, limit.low, limit.high)
    ]
    assert found["limit"]["binding"] == str(limit.binding)
    assert found["limit"]["trusted"] is True
    assert (found["present"], found["headroom"]) == (22.0, limit.load / 22 - 1)
    alone = {each["measure"]: each["load"] for each in found["slos"]}
    assert alone == {
        "loss": saved.max_load(loss=0.01).load,
        "p99": saved.max_load(p99=0.4).load,
    }
    assert min(alone.values()) == pytest.approx(limit.load, rel=0.01)
    row = found["forecast"][0]
    assert {"load", "loss", "loss_low", "loss_high", "p99", "p99_low", "p99_high"} <= row.keys()
    assert found["windows"]["count"] == 20
    assert isinstance(found["notes"], list)
    # What is there is not lost silently, and can be replaced.
    again = ("plan", sources / "windows.csv", *SYSTEM, *slos, "-o", folder)
    assert call(*again)[0] == 2
    assert call(*again, "--overwrite")[0] == 0


@pytest.mark.parametrize("name", ["requests.csv", "windows.csv"])
def test_the_library_reads_a_path_as_the_command_does(call, sources, name):
    out = call("plan", sources / name, *SYSTEM, "--slo", "loss<1%", "--json")[1]
    plan = st.plan(sources / name, servers=1, capacity=12, slo="loss<1%")
    found = json.loads(out)
    assert found["limit"]["load"] == plan.limit.load
    assert found["windows"]["count"] == plan.windows.recorded
    assert plan.recipe["source"] == str(sources / name)


def test_the_library_takes_what_an_ingestion_made_and_names_what_is_missing(sources):
    source = st.ingest.Source(str(sources / "requests.csv"))
    made = st.ingest.windows_from_events(source, st.ingest.Cut(capacity=12))
    plan = st.plan(made, servers=1, capacity=12, slo="loss<1%")
    assert plan.limit.low < plan.limit.load < plan.limit.high
    for data, said in {3: "must be Windows", "http://127.0.0.1": "windows_from_prometheus"}.items():
        with pytest.raises(InputError, match=said):
            st.plan(data)
    with pytest.raises(InputError, match="p99<200 has no unit"):
        st.plan(made, servers=1, capacity=12, slo="p99<200")


def test_loads_are_shares_of_the_present_one_and_saved_slos_answer_for_it(call, sources, tmp_path):
    folder = tmp_path / "plan"
    call("plan", sources / "windows.csv", *SYSTEM, "--slo", "loss<1%", "-o", folder)
    rows = json.loads(call("forecast", folder, "--x", "50%,100%", "--json")[1])
    assert [row["load"] for row in rows] == [12.0, 24.0]
    code, out, _ = call("forecast", folder, "--x", "150%", "--present", "20", "--json")
    found = json.loads(out)
    assert code == 0
    assert [row["load"] for row in found["forecast"]] == [30.0]
    assert (found["limit"]["present"], found["limit"]["measure"]) == (20.0, "loss")


def test_an_answer_explains_itself(call, sources, tmp_path):
    folder = tmp_path / "plan"
    call("plan", sources / "requests.csv", *SYSTEM, "--slo", "loss<1%", "-o", folder)
    code, out, err = call("explain", folder)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    said, saved = " ".join(out.split()), st.load(folder)
    for title in ("Answer", "Data", "Models", "Checks", "Assumptions", "Interval", "Windows that"):
        assert f"\n{title}" in f"\n{out}"
    assert f"From {sources / 'requests.csv'}." in said.replace("- ", "")
    for name in saved.fitted:
        assert f"- {name}: off by" in said
    top = saved.influence().iloc[0]
    assert f"at load {words.number(top['load'], 3)}, the limit would be" in said
    assert call("explain", tmp_path)[0] == 2


def test_a_plan_of_requests(call, sources):
    code, out, err = call(
        *("plan", sources / "requests.csv", *SYSTEM, "--slo", "loss<1%"),
        *("--window", "10s", "--json"),
    )
    assert err == ""
    found = json.loads(out)
    assert found["windows"]["count"] >= 18
    assert 24 < found["limit"]["load"] < 40
    assert code == (not found["limit"]["trusted"])


def test_a_plan_of_an_access_log(call, tmp_path):
    """Each line is written when its request is done, in units of the format's own."""
    truth = st.models.MMmK(servers=1, capacity=12, service_rate=40.0)
    log = simulate_requests(truth, np.repeat([8.0, 12.0, 16.0, 20.0, 24.0], 4), 10.0, seed=2)
    done = 1.7e9 + log.arrival + np.where(log.answered, log.response, 0.0)
    lines = [
        f'::1 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" {200 if ok else 503} 512 "-" "-" '
        f"{took if ok else 0.0:.3f} {end:.3f}"
        for end, took, ok in sorted(zip(done, log.response, log.answered, strict=True))
    ]
    path = tmp_path / "access.log"
    path.write_text("\n".join([*lines, ""]))
    options = (*SYSTEM, "--slo", "loss<1%", "--status-lost", "5xx", "--window", "10s", "--json")
    code, out, err = call("plan", path, *options)
    assert (code, err) == (0, "")
    found = json.loads(out)
    exact = st.fit(truth, st.simulate(truth, [8.0, 24.0], duration=1e6, seed=0)).max_load(loss=0.01)
    assert found["limit"]["low"] < exact.load < found["limit"]["high"]
    assert found["windows"]["observed"] == ["service times"]
    code, _, err = call("plan", path, *options, "--time-unit", "s")
    assert code == 2
    assert "has units of its own" in err


def test_it_says_which_queue_lengths_were_never_observed(call, sources, tmp_path):
    table = pd.read_csv(sources / "windows.csv", comment="#")
    longest = max(int(c[2:]) for c in table if c.startswith("Q=") and table[c].sum() > 0)
    said = f"queues of more than {longest} were never observed"
    folder, asked = tmp_path / "plan", (*SYSTEM, "--slo", "loss<1%")
    _, out, _ = call("plan", sources / "windows.csv", *asked, "-o", folder)
    assert said in " ".join(out.split())
    assert said in (folder / "report.html").read_text(encoding="utf-8").lower()
    for more in (["plan", sources / "windows.csv", *asked], ["forecast", folder]):
        assert json.loads(call(*more, "--json")[1])["longest_queue"] == longest
    assert said in call("forecast", folder, "--x", "20,30")[1].lower()
    # Smaller than what was seen, nothing is left that nobody saw.
    _, out, _ = call("forecast", folder, "--x", "20,30", "--what-if", f"capacity={longest}")
    assert "never observed" not in out


def test_what_is_not_given_is_said_with_its_effect(call, sources):
    code, out, _ = call("plan", sources / "requests.csv", "--slo", "loss<1%", "--json")
    found = json.loads(out)
    assert code in (0, 1)
    taken = {each["name"]: each for each in found["assumed"]}
    assert (taken["servers"]["value"], taken["servers"]["given"]) == (1, False)
    most = taken["capacity"]["most"]
    assert (most, taken["capacity"]["given"]) == (200, False)
    assert (taken["patience"]["value"], taken["patience"]["given"]) == (None, False)
    smaller, larger = taken["capacity"]["others"]
    assert 9 <= smaller["value"] < 12 < larger["value"] == most
    assert smaller["load"] < larger["load"]
    assert sum(found["interval"]["shares"].values()) == pytest.approx(1.0)
    _, out, _ = call("plan", sources / "requests.csv", "--slo", "loss<1%", "--servers", "1")
    said = " ".join(out.split())
    assert "Assumed 1 server" in said
    ends = r"\(not known: give --capacity; with \d+ the limit is [\d.]+, with 200 [\d.]+"
    assert re.search(ends, said)
    assert "Next plan again with --capacity" in said.replace("Plan", "plan")
    assert "clients do not retry" in said
    assert len(out.splitlines()) <= 20


def test_lost_requests_show_the_capacity(call, tmp_path):
    truth = st.models.MMmK(servers=1, capacity=6, service_rate=40.0)
    log = simulate_requests(truth, np.repeat([10.0, 20.0, 26.0], 6), 10.0, seed=2)
    found = pd.DataFrame({"arrival": log.arrival, "response": log.response})
    found.assign(status=np.where(log.answered, 200, 503)).to_csv(tmp_path / "log.csv", index=False)
    _, out, _ = call("plan", tmp_path / "log.csv", "--slo", "loss<5%", "--servers", "1", "--json")
    taken = {each["name"]: each for each in json.loads(out)["assumed"]}["capacity"]
    assert (taken["value"], taken["most"], taken["given"]) == (6, None, False)


def test_without_an_slo_it_says_what_it_asked_and_the_present_load_decides(call, sources):
    code, out, _ = call("plan", sources / "windows.csv", *SYSTEM, "--present", "38")
    assert code == 1
    assert out.startswith("Loss < 0.1% holds up to ")
    assert "no SLO was given" in out.replace("\n", " ").replace("No SLO", "no SLO")


@pytest.mark.parametrize(
    ("options", "load", "latency"),
    [
        (
            ("--preset", 'http{job="api"}'),
            'sum(rate(http_request_duration_seconds_count{job="api"}[W]))',
            'sum by (le) (increase(http_request_duration_seconds_bucket{job="api"}[W]))',
        ),
        (("--load-expr", "rate(a[1m])", "--latency", "b[W]"), "rate(a[1m])", "b[W]"),
    ],
)
def test_a_prometheus_is_asked_for_load_and_latency(call, monkeypatch, options, load, latency):
    asked = {}

    def read(source, cut, **given):
        asked.update(given, address=source.address)
        raise InputError("there is no such server")

    monkeypatch.setattr("stationary.ingest.windows_from_prometheus", read)
    code, _, err = call("plan", "http://127.0.0.1:9", *options)
    assert (code, err) == (2, "error: there is no such server\n")
    assert (asked["load"], asked["latency"], asked.get("gauge")) == (load, latency, None)
