"""A fuzzer of the command line: mutated files go in, and no command may crash, hang or litter.

Every case runs in a forked process with a bound on time and memory. It must end with exit code 0,
1 or 2, print no traceback, say an error in a few lines, and leave no file behind that nobody asked
for. ``make fuzz`` runs many cases; a failure prints the seed that makes it again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from dataclasses import replace as replace_case
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

HERE = Path(__file__).parent
SECONDS = 60
"""Time of the processor; on a busy machine a clock would tell of others."""

_OPTIONS = 0.3
"""Share of cases whose arguments are changed, too."""

BYTES = 12 * 2**30
"""Address space, of which torch and its libraries map several GiB without using them."""

VALUES = re.split(
    " ",
    "nan inf -inf -1 0 -0 1e308 -1e308 1e-320 1e400 99999999999999999999 1.5 1e9 0x10 1_000 true "
    "null None , ; : { } [ ] \\ \x00 \x1b[31m \ufeff é 空 1,5 =1+1 ../x /etc/passwd -5e-324 Q=-1 ",
)


OPTIONS = re.split(
    "\n",
    "nan\ninf\n-1\n0\n1e-320\n99999999999999999999\n\n \n--\n-\n--json\n--slo\nloss<0\nloss<-1%\n"
    "loss<101%\np99<1ms\np0<1\np100<1s\nresponse_time<inf\nmmmk\nmmmk:servers=0\nerlang:servers=2\n"
    "mmmk:capacity=1\nservice:capacity=3\nx:y\n=\n:\n5:1\n1:2:0\n5,,6\n1e308\né\n\x1b[31m\n0ms\n1e9d\n"
    "/nowhere/x\n.\n--observe\n0-\n--level\n0.999999999\nload=5\n--what-if\nservers=+1\nfaster=0",
)
"""Arguments that nobody expects where one is."""

FORGED = [None, -1, 0, 1, 2.5, 1e308, 1e-320, "x", "", [], {}, True, {"float": "nan"}, [1]]
_DEEPER = 0.95


# Files that are as they should be.


def windows(_):
    rows = ["load,Q=0,Q=1,Q=2,Q=3"]
    rows += [f"{5 + k},{900 - 40 * k},{200 + 10 * k},{40 + 5 * k},{8 + 3 * k}" for k in range(8)]
    return "\n".join(rows).encode() + b"\n"


def requests(_):
    rows = ["arrival,response,status"]
    rows += [f"{0.02 * k:.3f},{0.01 + 0.001 * (k % 7):.4f},200" for k in range(300)]
    return "\n".join(rows).encode() + b"\n"


def json_lines(_):
    rows = [{"arrival": 0.02 * k, "response": 0.01, "status": 200} for k in range(200)]
    return "\n".join(map(json.dumps, rows)).encode() + b"\n"


def nginx(_):
    line = '127.0.0.1 - - [01/May/2026:12:00:{:02d} +0000] "GET / HTTP/1.1" 200 5 0.01{}\n'
    return "".join(line.format(k // 10, k % 10) for k in range(300)).encode()


LOGS = [
    '[2026-05-01T12:00:{:02d}.{}00Z] "GET / HTTP/1.1" 200 - 0 5 9 8 "-" "c" "i" "h" "1.1.1.1:80"',
    '1.1.1.1 - - [01/May/2026:12:00:{:02d} +0000] "GET / HTTP/1.1" 200 5 1{}000',
    "May 01 12:00:{:02d} lb haproxy[1]: 1.1.1.1:5 [01/May/2026:12:00:0{}.099] web app/s1 "
    '0/0/0/46/46 200 512 - - ---- 1/1/1/1/0 0/0 "GET /api HTTP/1.1"',
    '{{"ts":17776224{:02d}.{},"msg":"handled request","duration":0.01,"status":200}}',
    '{{"StartUTC":"2026-05-01T12:00:{:02d}.{}Z","Duration":9000000,"DownstreamStatus":200}}',
]
"""Lines of Envoy, Apache, HAProxy, Caddy and Traefik, with seconds and a digit more."""


def logs(choice):
    line = choice.choice(LOGS)
    return "".join(line.format(k // 10, k % 10) + "\n" for k in range(300)).encode()


def rules(choice):
    return choice.choice(sorted((HERE.parent / "examples").glob("*.toml"))).read_bytes()


def prism(_):
    return (HERE / "prism" / "tandem.sm").read_bytes()


def prometheus(query, start, end, step):
    """Return what a Prometheus answers: a load of about ten, a gauge, or when it was scraped."""
    times = [start + k * step for k in range(round((end - start) / step) + 1)]
    if query.startswith("timestamp"):
        values = [[t, str(t)] for t in times]
    else:
        values = [[t, str(9 + t % 3 if query == "l" else int(t) % 4)] for t in times]
    result = [{"metric": {"le": "\x1b[31m"}, "values": values}]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(answer).encode()


def as_parquet(make):
    """Return a maker of the same table as a Parquet file."""

    def made(choice):
        import pandas as pd

        place = BytesIO()
        pd.read_csv(BytesIO(make(choice))).to_parquet(place, index=False)
        return place.getvalue()

    return made


# What may happen to them.


def flip(data, choice):
    at = choice.randrange(len(data))
    return data[:at] + bytes([choice.randrange(256)]) + data[at + 1 :]


def cut(data, choice):
    return data[: choice.randrange(len(data))]


def drop(data, choice):
    first = choice.randrange(len(data))
    return data[:first] + data[first + choice.randrange(1, 40) :]


def repeat(data, choice):
    lines = data.splitlines(keepends=True)
    line = choice.choice(lines)
    at = choice.randrange(len(lines) + 1)
    return b"".join([*lines[:at], line * choice.choice([1, 3, 50]), *lines[at:]])


def shuffle(data, choice):
    lines = data.splitlines(keepends=True)
    choice.shuffle(lines)
    return b"".join(lines)


def replace(data, choice):
    """Put a value that nobody expects where a word or a number stands."""
    text = data.decode(errors="replace")
    places = [k for k, c in enumerate(text) if c.isalnum()]
    if not places:
        return data
    first = last = choice.choice(places)
    while last < len(text) and (text[last].isalnum() or text[last] in "._-"):
        last += 1
    return (text[:first] + choice.choice(VALUES) + text[last:]).encode()


def number(data, choice):
    """Put another number where one stands: what is read, and goes a long way."""
    text = data.decode(errors="replace")
    places = list(re.finditer(r"(?<![\w.])\d+(\.\d+)?(?![\w.])", text))
    if not places:
        return data
    found, value = choice.choice(places), choice.choice(["0", "1", "7", "1000", "1e-3", "1e6"])
    return (text[: found.start()] + value + text[found.end() :]).encode()


def insert(data, choice):
    at = choice.randrange(len(data) + 1)
    return data[:at] + choice.choice(VALUES).encode() + data[at:]


def encode(data, choice):
    text = data.decode(errors="replace")
    return choice.choice([text.encode("utf-16"), b"\xef\xbb\xbf" + data, text.encode("utf-32")])


MUTATIONS = [flip, cut, drop, repeat, shuffle, replace, replace, insert, encode, *[number] * 9]


def option(arguments, choice):
    """Change one argument of a command: its value, its order, or whether it is there."""
    if len(arguments) < 2:
        return arguments
    at = choice.randrange(1, len(arguments))
    change = choice.choice(["value", "value", "part", "drop", "double", "swap"])
    if change == "value":
        return [*arguments[:at], choice.choice(OPTIONS), *arguments[at + 1 :]]
    if change == "part":
        text = replace(arguments[at].encode(), choice).decode(errors="replace").replace("\x00", "")
        return [*arguments[:at], text, *arguments[at + 1 :]]
    if change == "drop":
        return arguments[:at] + arguments[at + 1 :]
    if change == "double":
        return arguments[:at] + arguments[at : at + 1] + arguments[at:]
    other = choice.randrange(1, len(arguments))
    swapped = list(arguments)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    return swapped


def forged(file, choice):
    """Change one value of a saved run and sign it anew, so that it is read."""
    content = json.loads(file.read_text(encoding="utf-8"))
    del content["checksum"]
    place, key = content, choice.choice(sorted(content))
    while isinstance(place[key], (dict, list)) and place[key] and choice.random() < _DEEPER:
        place = place[key]
        key = choice.choice(sorted(place) if isinstance(place, dict) else range(len(place)))
    place[key] = choice.choice(FORGED)
    signature = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(content | {"checksum": signature}), encoding="utf-8")


def mutated(data, choice):
    for _ in range(choice.choice([0, 1, 1, 1, 2, 3, 8])):
        data = choice.choice(MUTATIONS)(data, choice) if data else data
    return data


# Commands.


@dataclass(frozen=True)
class Case:
    """A command, the file that it is given, and the files that it may leave."""

    name: str
    make: object
    file: str
    command: str
    outputs: tuple[str, ...] | None = ()


FIT = "--model mmmk:servers=1,capacity=6"
INGESTED = "--window 1s -o o.csv"
CASES = [
    Case("fit", windows, "in.csv", f"fit in.csv {FIT} -o run", ("run",)),
    Case("fit-slo", windows, "in.csv", f"fit in.csv {FIT} --slo loss<1% --json"),
    Case("fit-rules", windows, "in.csv", "fit in.csv --model good.toml"),
    Case(
        "fit-prism",
        prism,
        "in.sm",
        "fit good.csv --model in.sm:c=3 --theta mu2 --x lambda=load --group-by q",
    ),
    Case("check", windows, "in.csv", f"check in.csv {FIT} --json"),
    Case("compare", windows, "in.csv", f"compare in.csv {FIT} --jobs 1 --ahead 20,30"),
    Case("simulate", rules, "in.toml", "simulate in.toml --x 5 -o o.csv", ("o.csv",)),
    Case("ingest-csv", requests, "in.csv", f"ingest in.csv --capacity 5 {INGESTED}", ("o.csv",)),
    Case("fit-parquet", as_parquet(windows), "in.parquet", f"fit in.parquet {FIT} --json"),
    Case(
        "ingest-parquet",
        as_parquet(requests),
        "in.parquet",
        f"ingest in.parquet --capacity 5 {INGESTED}",
        ("o.csv",),
    ),
    Case("plan", windows, "in.csv", "plan in.csv --capacity 6 --slo loss<1% -o p", ("p",)),
    Case("ingest-jsonl", json_lines, "in.jsonl", f"ingest in.jsonl {INGESTED}", ("o.csv",)),
    Case("ingest-log", logs, "in.log", f"ingest in.log {INGESTED}", ("o.csv",)),
    Case("plan-log", logs, "in.log", "plan in.log --servers 2 --slo p99<1s"),
    Case("plan-requests", requests, "in.csv", "plan in.csv --capacity 6 --json"),
    Case(
        "plan-prometheus",
        lambda _: b"",
        "answer.json",
        "plan URL --load-expr l --gauge g --start 1000 --end 1060 --step 1s --window 10s",
    ),
    Case("ingest-nginx", nginx, "in.log", f"ingest in.log --format nginx {INGESTED}", ("o.csv",)),
    Case(
        "ingest-prometheus",
        lambda _: b"",
        "answer.json",
        "ingest prometheus URL --load l --gauge g --start 1000 --end 1060 --step 1s --window 10s "
        "--retries 0 -o o.csv",
        ("o.csv",),
    ),
    Case("forecast-run", None, "run", "forecast run --x 5:30:5 --json"),
    Case("limit-run", None, "run", "forecast run --slo loss<1%"),
    Case("what-if-run", None, "run", "forecast run --slo loss<1% --what-if servers=+1"),
    Case("explain-run", None, "run", "explain run"),
    Case("simulate-run", None, "run", "simulate run --x 5 -o o.csv", ("o.csv",)),
    Case("check-run", None, "run", "check run --json"),
    Case("report-run", None, "run", "report run --no-compare -o r.html", ("r.html",)),
    Case("rules-run", None, "run", "rules run --slo loss<1% --load-expr sum(x)"),
]


class Answers(BaseHTTPRequestHandler):
    """A Prometheus, some of whose answers are mutated."""

    choice = random.Random(0)  # noqa: S311
    kept = 0.5
    """Probability that an answer is left as it is."""

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        asked = dict(parse_qsl(urlsplit(self.path).query or body))
        ends = [float(asked.get(name, 1)) for name in ("start", "end", "step")]
        answer = prometheus(asked.get("query", ""), *ends)
        if self.choice.random() > self.kept:
            answer = mutated(answer, self.choice)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


def run(arguments, folder, seconds=SECONDS, most=BYTES):
    """Run a command in a forked process; return its exit code and what it said."""
    said = folder.with_name(f"{folder.name}.said")
    child = os.fork()
    if child == 0:
        code = 70
        try:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            signal.alarm(10 * seconds)  # whatever waits for ever takes no time of the processor
            os.chdir(folder)
            with said.open("wb", buffering=0) as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
            sys.argv = ["stationary", *arguments]
            from stationary.cli import main

            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    text = said.read_bytes().decode(errors="replace")
    said.unlink()
    return os.waitstatus_to_exitcode(status), text


def prepared(folder):
    """Make what cases share: good files, and a run of them."""
    (folder / "good.csv").write_bytes(windows(None))
    (folder / "good.toml").write_bytes((HERE.parent / "examples" / "tandem.toml").read_bytes())
    code, said = run(f"fit good.csv {FIT} --slo loss<1% -o run".split(), folder)
    if code not in (0, 1):
        raise RuntimeError(said)
    return folder


def problem(case, code, said, left):
    """What is wrong with how a command ended; empty if nothing is."""
    if code in (-signal.SIGALRM, -signal.SIGXCPU):
        return "took too long"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in said:
        return "a traceback"
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    if code == 2 and (len(errors) != 1 or not errors[0].isprintable()):
        return "not one line that says what is wrong"
    if code == 2 and len(said.splitlines()) > 12:
        return "an error among more than a dozen lines"
    if any(ord(c) < 32 and c not in "\n\r\t" for c in said):
        return "control characters"
    unexpected = {name for name in left if name.startswith(".") or name.endswith("~")}
    if case.outputs is not None:
        unexpected = left - set(case.outputs)
    if unexpected:
        return f"left {sorted(unexpected)} behind"
    return ""


def attempt(seed, shared, folder):
    """Run the case of one seed; return its name and what is wrong, if anything."""
    choice = random.Random(seed)  # noqa: S311
    case = choice.choice(CASES)
    for name in ("good.csv", "good.toml"):
        shutil.copy(shared / name, folder / name)
    arguments = case.command.split()
    server = None
    if case.make is None:
        shutil.copytree(shared / "run", folder / "run")
        file = choice.choice(sorted(p for p in (folder / "run").rglob("*") if p.is_file()))
        if choice.random() < 0.5:
            forged(folder / "run" / "plan.json", choice)
        else:
            file.write_bytes(mutated(file.read_bytes(), choice))
    else:
        data = mutated(case.make(choice), choice)
        (folder / case.file).write_bytes(data)
        if "URL" in arguments:
            handler = type("Handler", (Answers,), {"choice": choice})
            server = HTTPServer(("127.0.0.1", 0), handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            arguments[arguments.index("URL")] = f"http://127.0.0.1:{server.server_port}"
    if choice.random() < _OPTIONS:
        for _ in range(choice.choice([1, 1, 2, 4])):
            arguments = option(arguments, choice)
        # A command may then write wherever an argument says, in its own folder.
        case = replace_case(case, outputs=None)
    before = {path.name for path in folder.iterdir()}
    code, said = run(arguments, folder)
    if server is not None:
        server.shutdown()
        server.server_close()
    left = {path.name for path in folder.iterdir()} - before
    return case.name, code, problem(case, code, said, left), said


def fuzz(seeds, report=print):
    """Run many cases; return how they ended, and those that ended badly."""
    ends, bad = Counter(), []
    with tempfile.TemporaryDirectory() as place:
        shared = Path(place) / "shared"
        shared.mkdir()
        prepared(shared)
        for seed in seeds:
            folder = Path(place) / str(seed)
            folder.mkdir()
            began = time.monotonic()
            name, code, wrong, said = attempt(seed, shared, folder)
            ends[name, code] += 1
            if wrong:
                bad.append((seed, name, wrong, said))
                took = time.monotonic() - began
                report(f"seed {seed}, {name}: {wrong} ({took:.1f} s)\n{said[-1500:]}")
            shutil.rmtree(folder)
    return ends, bad


def warm():
    """Load what every command needs, so that forked processes start at once."""
    import torch

    torch.set_num_threads(1)
    import stationary as st

    st.fit(st.models.MMmK(capacity=6), st.Windows([1.0, 2.0], [[9, 3], [8, 5]], [0, 1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case")
    given = parser.parse_args()
    warm()
    ends, bad = fuzz(range(given.seed, given.seed + given.cases), partial(print, flush=True))
    for (name, code), count in sorted(ends.items()):
        print(f"{name:20} exit {code:3}: {count}")
    print(f"{given.cases} cases, {len(bad)} ended badly")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
