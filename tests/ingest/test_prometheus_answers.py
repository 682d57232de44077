"""Answers of a Prometheus that no Prometheus would give: refused in one sentence, and in time."""

import contextlib
import json
import socket
import threading

import pytest

from stationary.errors import InputError, ProgramError
from stationary.ingest import Prometheus, prometheus_client
from stationary.ingest.prometheus_client import parse_answer

POINTS = [[1000, "3"], [1001, "4"]]


def body(result, **more):
    data = {"resultType": "matrix", "result": result}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def series(**changes):
    return body([{"metric": {}, "values": POINTS} | changes])


def test_a_good_answer_is_read():
    entries = [{"metric": {"le": "+Inf"}, "values": [[1, "NaN"], [2.5, "7"]]}]
    answer = parse_answer(body(entries, warnings=["careful"]), "load: 'x'", "http://p")
    (one,) = answer.data.result
    assert (one.metric, one.values[1]) == ({"le": "+Inf"}, (2.5, 7.0))
    assert one.values[0][1] != one.values[0][1]
    assert answer.warnings == ["careful"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"status": "success"}',
        b'{"status": "success", "data": {"resultType": "matrix"}}',
        b'{"status": "success", "data": []}',
        body(None),
        body(7),
        body([None]),
        body(["x"]),
        body([{"values": POINTS}]),
        series(metric=None),
        series(metric=[["a"]]),
        series(metric={"le": 5}),
        series(values=None),
        series(values=[1000, "3"]),
        series(values=[[1000]]),
        series(values=[[1000, "3", "4"]]),
        series(values=[[None, "3"]]),
        series(values=[[float("nan"), "3"]]),
        series(values=[[10**400, "3"]]),
        series(values=[[1000, "three"]]),
        series(values=[[1000, None]]),
    ],
)
def test_a_malformed_answer_is_refused(answer):
    with pytest.raises(InputError, match=r"http://p does not answer as Prometheus .* got b.*\?$"):
        parse_answer(answer, "load: 'x'", "http://p")


@contextlib.contextmanager
def sending(*parts, pause=0.0):
    """A server that sends these bytes to whoever asks, with pauses; yields its address."""
    stop = threading.Event()
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(2**16)
                for part in parts:
                    connection.sendall(part)
                    if stop.wait(pause):
                        return
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(2**16):  # unread bytes would reset the connection
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@pytest.mark.parametrize(
    "parts", [(HEAD, *[b" "] * 100), [b"H", b"T", *[b"x"] * 100]], ids=["body", "head"]
)
def test_the_time_out_bounds_an_answer_that_drips(parts):
    with sending(*parts, pause=0.1) as url:
        source = Prometheus(url, 1000, 1060, step=1, timeout=0.5, retries=0)
        with pytest.raises(ProgramError, match=r"asked once: timed out, .* --timeout"):
            source.one("load", "x", source.times(10)[0])


def test_an_answer_cut_short_is_no_answer():
    with sending(HEAD, body([])) as url:
        source = Prometheus(url, 1000, 1060, step=1, timeout=5, retries=0)
        with pytest.raises(ProgramError, match="asked once: IncompleteRead"):
            source.one("load", "x", source.times(10)[0])


def test_the_size_of_an_answer_is_bounded(monkeypatch):
    monkeypatch.setattr(prometheus_client, "_MOST_BYTES", 2**20)
    with sending(b"HTTP/1.1 200 OK\r\n\r\n", *[b" " * 2**18] * 8) as url:
        source = Prometheus(url, 1000, 1060, step=1, timeout=5, retries=0)
        with pytest.raises(InputError, match="more than 1 MiB; ask for fewer series"):
            source.one("load", "x", source.times(10)[0])


def test_the_number_of_series_is_bounded(monkeypatch):
    monkeypatch.setattr(prometheus_client, "_MOST_VALUES", 100)
    answer = body([{"metric": {"k": str(k)}, "values": POINTS} for k in range(3)])
    with sending(b"HTTP/1.1 200 OK\r\n\r\n", answer) as url:
        source = Prometheus(url, 1000, 1060, step=1, timeout=5, retries=0)
        with pytest.raises(InputError, match=r"gives 3 series of 61 samples.*sum\(x\)"):
            source.one("load", "x", source.times(10)[0])
