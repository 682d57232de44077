"""Parts of the testbed that need no server."""

import os
import signal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import expon

from stationary.errors import InputError, ProgramError
from stationary.testbed import (
    Day,
    Deterministic,
    Exponential,
    Given,
    Ramp,
    Settings,
    Trace,
    Unslowed,
    buffers,
    doctor,
    examine,
    read_profile,
    read_traces,
    tabulate,
    write_traces,
)
from stationary.testbed import settings as settings_module
from stationary.testbed.kernel import precedence
from stationary.testbed.messages import register
from stationary.testbed.processes import interruptible, need_program, undisturbed
from stationary.testbed.sipp import read_messages


def trace(rate=1000.0, seed=0):
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0, 1, int(rate)))
    arrival -= arrival[0]
    response = rng.uniform(1e-4, 2e-3, len(arrival))
    response[::100] = np.nan
    return Trace(rate, 1.0, arrival, response, 10, 11, 3)


class TestServiceTimes:
    def test_slices_of_the_exponential_are_its_conditional_means(self):
        slices = settings_module._exponential_slices(512)
        assert np.mean(slices) == pytest.approx(1.0, abs=1e-12)
        for k in (0, 100, 300, 510):
            low, high = expon.ppf(k / 512), expon.ppf((k + 1) / 512)
            assert slices[k] == pytest.approx(expon.expect(lambda x: x, lb=low, ub=high) * 512)
        assert slices[511] == pytest.approx(expon.ppf(511 / 512) + 1)  # no memory

    def test_a_table_draws_each_slice_equally_often(self):
        lines = Exponential(330).statements().splitlines()
        assert "$RANDOM mod 512" in lines[0]
        assert [int(line.split()[1].rstrip(":")) for line in lines[2:-1]] == list(range(512))
        sleeps = [int(line.split('"')[1]) if '"' in line else 0 for line in lines[2:-1]]
        overhead = settings_module._OVERHEAD_US
        total = np.maximum(np.array(sleeps) + overhead, overhead)
        assert total.mean() == pytest.approx(330, abs=6)

    def test_constant_service_is_one_sleep(self):
        assert Deterministic(330).statements().strip() == 'usleep("280");'
        assert Unslowed().statements() == ""

    @pytest.mark.parametrize("mean", [0, -5, 10, 1e9, float("nan")])
    def test_impossible_means_are_refused(self, mean):
        with pytest.raises(InputError, match="mean service time"):
            Exponential(mean)

    @pytest.mark.parametrize(
        "bad", [{"queue": 1}, {"queue": 1000}, {"seconds": 0}, {"late": 0}, {"seed": -1}]
    )
    def test_settings_are_bounded(self, bad):
        with pytest.raises(InputError, match=next(iter(bad))):
            Settings(**bad)

    def test_twenty_requests_take_the_measured_bytes(self):
        assert Settings(queue=20).buffer_bytes == 25_600


class TestProfiles:
    def test_a_ramp_goes_from_end_to_end(self):
        assert_allclose(Ramp(300, 500).rates(3), [300, 400, 500])

    def test_a_day_swings_once_between_its_ends_and_is_its_seeds(self):
        rates = Day(300, 5000, seed=4).rates(200)
        assert (rates.min(), rates.max()) == (300, 5000)
        assert_array_equal(rates, Day(300, 5000, seed=4).rates(200))
        assert not np.array_equal(rates, Day(300, 5000, seed=5).rates(200))
        wave = np.abs(np.fft.rfft(rates - rates.mean()))
        assert wave.argmax() == 1
        # One continuous run: neighbours have a like load, though not the same.
        steps = np.abs(np.diff(rates))
        assert 0 < steps.max() < 0.25 * 4700

    def test_a_day_of_one_window(self):
        assert Day(300, 5000).rates(1) == pytest.approx(300)

    def test_a_file_of_rates(self, tmp_path):
        file = tmp_path / "rates.csv"
        file.write_text("load,other\n300,1\n400,2\n")
        assert read_profile(file).rates(2).tolist() == [300, 400]
        with pytest.raises(InputError, match="fewer than 3 windows"):
            read_profile(file).rates(3)
        file.write_text("rate\n300\n")
        with pytest.raises(InputError, match="no column 'load'"):
            read_profile(file)
        file.write_text("load\n300\n1e9\n")
        with pytest.raises(InputError, match=r"rates.csv: window 1: the rate must lie"):
            read_profile(file)

    @pytest.mark.parametrize("ends", [(0, 100), (200, 100), (1, 1e9)])
    def test_rates_are_bounded(self, ends):
        with pytest.raises(InputError, match="rates must lie"):
            Ramp(*ends)
        with pytest.raises(InputError, match="number of windows"):
            Given(np.empty(0))


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
        with pytest.raises(InputError, match="no trace of the testbed"):
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


class TestDoctor:
    def test_a_bare_machine_is_told_what_to_install(self, monkeypatch):
        for module in (doctor, buffers):
            monkeypatch.setattr(module, "find_program", lambda name: None)
        monkeypatch.setattr(buffers, "may_change_default", lambda: False)
        needs = {need.name: need for need in examine()}
        missing = {name for name, need in needs.items() if not need.there and need.required}
        assert missing == {"kamailio", "kamailio modules", "queue limit"}
        assert needs["kamailio"].remedy == "apt-get install kamailio"
        assert needs["sipp"].remedy == "apt-get install sip-tester"
        with pytest.raises(ProgramError, match="install gcc"):
            buffers.best_buffer()

    def test_another_system_is_told_so(self, monkeypatch):
        monkeypatch.setattr("platform.system", lambda: "Darwin")
        (need,) = examine()
        assert need.required
        assert not need.there
        assert "Darwin" in need.sentence

    def test_root_without_a_compiler_can_limit_the_queue(self, monkeypatch):
        monkeypatch.setattr(buffers, "find_program", lambda name: None)
        monkeypatch.setattr(buffers, "may_change_default", lambda: True)
        assert buffers.best_buffer() == buffers.SystemDefault()

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


def test_answers_are_awaited_as_long_as_a_full_queue_takes():
    assert Settings().drain == 0.15
    slow = Settings(service=Exponential(50_000))
    assert slow.drain > 2 * (slow.queue + 1) * 0.05


@pytest.mark.parametrize("windows", [0, -1, 4])
def test_a_given_profile_has_as_many_windows_as_asked_for_or_says_why_not(windows):
    with pytest.raises(InputError, match="windows"):
        Given(np.array([300.0, 400.0, 500.0])).rates(windows)


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
