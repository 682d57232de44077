"""Parts of the testbed that need no server."""

import os
import signal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from stationary.errors import InputError, ProgramError
from stationary.testbed import (
    Gunicorn,
    Kamailio,
    Service,
    Shape,
    Trace,
    buffers,
    day,
    kamailio,
    ramp,
    read_rates,
    read_traces,
    tabulate,
    write_traces,
)
from stationary.testbed.kernel import precedence
from stationary.testbed.processes import interruptible, need_program, undisturbed
from stationary.testbed.sipp import read_messages
from stationary.testbed.source import register


def trace(rate=1000.0, seed=0):
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0, 1, int(rate)))
    arrival -= arrival[0]
    response = rng.uniform(1e-4, 2e-3, len(arrival))
    response[::100] = np.nan
    return Trace(rate, 1.0, arrival, response, 3, 10, 11)


class TestServiceTimes:
    @pytest.mark.parametrize(
        ("service", "oracle"),
        [
            (Service(Shape.EXPONENTIAL, 2.0), stats.expon(scale=2)),
            (Service(Shape.GAMMA, 2.0, 0.25), stats.gamma(4, scale=0.5)),
            (
                Service(Shape.LOGNORMAL, 2.0, 3.0),
                stats.lognorm(np.sqrt(np.log(4)), scale=1.0),  # e^(s^2 / 2) = 2
            ),
        ],
        ids=["exponential", "gamma", "lognormal"],
    )
    def test_draws_and_slices_are_those_of_the_distribution(self, service, oracle):
        assert (oracle.mean(), oracle.var() / 4) == pytest.approx((2, service.variability or 1))
        drawn = service.draw(np.random.default_rng(0), 2000)
        assert stats.kstest(drawn, oracle.cdf).pvalue > 0.01
        assert_array_equal(drawn, service.draw(np.random.default_rng(0), 2000))
        slices = service.slices(512)
        assert np.mean(slices) == pytest.approx(2.0, abs=1e-9)
        for k in (0, 100, 300, 510):
            low, high = oracle.ppf([k / 512, (k + 1) / 512])
            mean = oracle.expect(lambda x: x, lb=low, ub=high) * 512
            assert slices[k] == pytest.approx(mean, rel=1e-6)

    def test_a_table_draws_each_slice_equally_often(self):
        lines = Kamailio(service=Service(Shape.EXPONENTIAL, 330e-6)).statements.splitlines()
        assert "$RANDOM mod 512" in lines[0]
        assert [int(line.split()[1].rstrip(":")) for line in lines[2:-1]] == list(range(512))
        sleeps = [int(line.split('"')[1]) if '"' in line else 0 for line in lines[2:-1]]
        assert np.mean(sleeps) + 50 == pytest.approx(330, abs=6)

    def test_constant_service_is_one_sleep(self):
        assert Kamailio().statements.strip() == 'usleep("280");'
        assert Kamailio(service=None).statements == ""
        assert_array_equal(
            Service(Shape.DETERMINISTIC, 2.0).draw(np.random.default_rng(0), 3), [2.0, 2.0, 2.0]
        )

    @pytest.mark.parametrize(
        ("made", "named"),
        [
            (lambda: Service(Shape.EXPONENTIAL, 0), "mean service time"),
            (lambda: Service(Shape.EXPONENTIAL, float("nan")), "mean service time"),
            (lambda: Service(Shape.DETERMINISTIC, 1e9), "mean service time"),
            (lambda: Service(Shape.EXPONENTIAL, 1, 0.5), "no variability"),
            (lambda: Service(Shape.GAMMA, 1), "needs a variability"),
            (lambda: Service(Shape.LOGNORMAL, 1, -1.0), "needs a variability"),
            (lambda: Kamailio(service=Service(Shape.EXPONENTIAL, 1e-5)), "of Kamailio"),
            (lambda: Kamailio(queue=1), "queue"),
            (lambda: Kamailio(queue=1000), "queue"),
            (lambda: Kamailio(seconds=0), "seconds"),
            (lambda: Kamailio(late=0), "late"),
            (lambda: Kamailio(seed=-1), "seed"),
            (lambda: Gunicorn(workers=0), "workers"),
            (lambda: Gunicorn(backlog=4000), "backlog"),
            (lambda: Gunicorn(patience=0), "patience"),
            (lambda: Gunicorn(cpu_share=2), "cpu_share"),
            (lambda: Gunicorn(seconds=100), "seconds"),
        ],
    )
    def test_impossible_settings_are_refused(self, made, named):
        with pytest.raises(InputError, match=named):
            made()

    def test_twenty_requests_take_the_measured_bytes(self):
        assert Kamailio(queue=20).buffer_bytes == 25_600

    def test_answers_are_awaited_as_long_as_a_full_queue_takes(self):
        assert Kamailio().drain == 0.15
        assert Kamailio(service=Service(Shape.EXPONENTIAL, 0.05)).drain > 2 * 21 * 0.05


class TestProfiles:
    def test_a_ramp_goes_from_end_to_end(self):
        assert_allclose(ramp(300, 500, 3), [300, 400, 500])
        shuffled = ramp(300, 500, 50, seed=1)
        assert_allclose(np.sort(shuffled), ramp(300, 500, 50))
        assert not np.array_equal(np.sort(shuffled), shuffled)

    def test_a_day_swings_once_between_its_ends_and_is_its_seeds(self):
        rates = day(300, 5000, 200, seed=4)
        assert (rates.min(), rates.max()) == (300, 5000)
        assert_array_equal(rates, day(300, 5000, 200, seed=4))
        assert not np.array_equal(rates, day(300, 5000, 200, seed=5))
        wave = np.abs(np.fft.rfft(rates - rates.mean()))
        assert wave.argmax() == 1
        # One continuous run: neighbours have a like load, though not the same.
        steps = np.abs(np.diff(rates))
        assert 0 < steps.max() < 0.25 * 4700
        assert day(300, 5000, 1) == pytest.approx(300)

    def test_a_file_of_rates(self, tmp_path):
        file = tmp_path / "rates.csv"
        file.write_text("load,other\n300,1\n400,2\n")
        assert read_rates(file).tolist() == [300, 400]
        assert read_rates(file, 1).tolist() == [300]

    @pytest.mark.parametrize(
        ("text", "windows", "message"),
        [
            ("load\n300\n400\n", 3, "fewer than 3 windows"),
            ("load\n300\n400\n", 0, "number of windows"),
            ("load\n300\n400\n", -1, "number of windows"),
            ("rate\n300\n", None, "no column 'load'"),
            ("load\n300\n1e9\n", None, r"rates.csv: window 1: the rate must lie"),
        ],
    )
    def test_a_wrong_file_of_rates(self, tmp_path, text, windows, message):
        file = tmp_path / "rates.csv"
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            read_rates(file, windows)

    @pytest.mark.parametrize("profile", [ramp, day])
    def test_rates_are_bounded(self, profile):
        for ends in ((0, 100), (200, 100), (1, 1e9)):
            with pytest.raises(InputError, match="rates must lie"):
                profile(*ends, 3)
        with pytest.raises(InputError, match="number of windows"):
            profile(300, 400, 20_000)


class TestTraces:
    @pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.csv.gz"])
    def test_what_is_written_is_read(self, tmp_path, name):
        traces = [trace(500, 1), trace(700, 2)]
        write_traces(traces, tmp_path / name)
        back = read_traces(tmp_path / name)
        assert len(back) == 2
        for one, other in zip(traces, back, strict=True):
            assert_allclose(other.arrival, one.arrival, atol=1e-9)
            assert_allclose(other.response, one.response, atol=1e-9)
            assert (other.rate, other.seconds) == (one.rate, one.seconds)
            assert (other.drops_socket, other.drops_snmp, other.stalled) == (10, 11, 3)
        ours, theirs = tabulate(traces, 20).table, tabulate(back, 20).table
        pd.testing.assert_frame_equal(ours, theirs, atol=0.2)

    def test_other_files_are_refused(self, tmp_path):
        with pytest.raises(InputError, match=r"written to .parquet"):
            write_traces([trace()], tmp_path / "r.txt")
        file = tmp_path / "windows.csv"
        file.write_text("load,Q=0\n1,2\n")
        with pytest.raises(InputError, match=r"no trace of Kamailio.*stationary ingest"):
            read_traces(file)

    def test_the_table_has_the_kernels_counts_beside_ours(self):
        table = tabulate([trace()], 20).table
        names = ["load", "sent", "answered", "late", "unanswered", "drops_socket", "drops_snmp"]
        assert list(table.columns[:10]) == [*names, "stalled", "service_us", "full_at"]
        assert table["unanswered"].tolist() == [10]

    def test_nothing_recorded_is_an_error(self):
        with pytest.raises(ProgramError, match="not one window"):
            tabulate([], 20)


def test_messages_of_sipp_become_times(tmp_path):
    file = tmp_path / "messages.tsv"
    rows = [
        ("10.000100", "S", "1-9@127.0.0.1", "REGISTER sip:127.0.0.1 SIP/2.0"),
        ("10.000300", "S", "2-9@127.0.0.1", "REGISTER sip:127.0.0.1 SIP/2.0"),
        ("10.000400", "R", "1-9@127.0.0.1", "SIP/2.0 200 OK"),
        ("10.000500", "S", "3-9@127.0.0.1", "REGISTER sip:127.0.0.1 SIP/2.0"),
        ("10.000900", "R", "3-9@127.0.0.1", "SIP/2.0 200 OK"),
        ("10.001000", "R", "2-9@127.0.0.1", "SIP/2.0 500 Server Error"),
    ]
    file.write_text(
        "".join(f"2020-01-01\t0:0\t{t}\t{w}\t{c}\tCSeq:1 REGISTER\t{m}\n" for t, w, c, m in rows)
    )
    arrival, response = read_messages(file)
    assert_allclose(arrival, [0, 2e-4, 4e-4], atol=1e-9)
    assert_allclose(response, [3e-4, np.nan, 4e-4], atol=1e-9)


def test_a_register_has_the_size_that_was_measured():
    assert 292 <= len(register(3, 40000, 5070, "w12")) <= 607


class TestNeeds:
    def test_a_bare_machine_is_told_what_to_install(self, monkeypatch):
        for module in (kamailio, buffers):
            monkeypatch.setattr(module, "find_program", lambda name: None)
            monkeypatch.setattr(module, "may_change_default", lambda: False)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        needs = {need.name: need for system in (Kamailio(), Gunicorn()) for need in system.needs()}
        missing = {name for name, need in needs.items() if not need.there and need.required}
        assert missing == {"kamailio", "kamailio modules", "queue limit", "gunicorn"}
        assert needs["kamailio"].remedy == "apt-get install kamailio"
        assert needs["sipp"].remedy == "apt-get install sip-tester"
        assert needs["gunicorn"].remedy == "pip install 'stationary[testbed]'"
        with pytest.raises(ProgramError, match="install gcc"):
            buffers.best_buffer()

    def test_another_operating_system_is_told_so(self, monkeypatch):
        monkeypatch.setattr("platform.system", lambda: "Darwin")
        for system in (Kamailio(), Gunicorn()):
            (need,) = system.needs()
            assert need.required
            assert not need.there
            assert "Darwin" in need.sentence
            with pytest.raises(ProgramError, match=r"Linux alone.*Darwin"):
                next(system.record([300.0]))

    def test_root_without_a_compiler_can_limit_the_queue(self, monkeypatch):
        monkeypatch.setattr(buffers, "find_program", lambda name: None)
        monkeypatch.setattr(buffers, "may_change_default", lambda: True)
        assert buffers.best_buffer() is buffers.system_default

    def test_a_missing_program_is_named_with_its_package(self):
        with pytest.raises(ProgramError, match="apt-get install some-package"):
            need_program("no-such-program", "some-package")


def test_the_first_signal_interrupts_and_others_wait():
    before = signal.getsignal(signal.SIGTERM)
    seen = []
    with interruptible():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            seen.append("interrupted")
            os.kill(os.getpid(), signal.SIGINT)  # would end the cleaning up
            seen.append("cleaned up")
    assert seen == ["interrupted", "cleaned up"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_precedence_is_given_back():
    before = os.sched_getaffinity(0), os.sched_getscheduler(0)
    with precedence(10, 1) as allowed:
        inside = os.sched_getscheduler(0)
        assert (inside == os.SCHED_FIFO) == allowed
    assert (os.sched_getaffinity(0), os.sched_getscheduler(0)) == before


def test_signals_wait_until_what_must_not_be_broken_off_is_done():
    done, before = [], signal.getsignal(signal.SIGINT)

    def write():
        with undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is before
