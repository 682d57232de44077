"""SIPp, the load generator of the paper, with a clock that is fine enough.

SIPp has no Poisson arrivals. The calls of a window are created as fast as it can and each waits a
uniformly distributed pause: given their number, so do the points of a Poisson process, and the
number itself is drawn from a Poisson distribution. Times come from its short message trace.
"""

from __future__ import annotations

import csv
import math
import subprocess
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stationary.errors import ProgramError
from stationary.testbed.buffers import PROGRAMS, compiled
from stationary.testbed.kernel import LOOPBACK, precedence
from stationary.testbed.processes import last_words, need_program, running
from stationary.testbed.source import CORE, PRIORITY, Arrivals, Sent, Source, requests_of

if TYPE_CHECKING:
    from stationary.testbed.kamailio import Kamailio

_SPEED = 10  # how much faster SIPp's clock runs: its smallest step is then 0.1 ms
_LEAD_MS = 200  # milliseconds that SIPp may take to create the calls of a window
_GRACE = 20.0  # seconds beyond its window after which SIPp is taken to hang

_RARE = 1e-3
"""A gap between arrivals is a stall if a smaller share of Poisson windows would show it."""

_DONE = (0, 1)  # SIPp's exit codes for all calls answered, and for some not


@dataclass(frozen=True)
class Sipp(Source):
    """SIPp; needs gcc for its clock. Its arrivals have no seed: it takes its own."""

    def window(self, port: int, rate: float, system: Kamailio, number: int, folder: Path) -> Sent:
        """Run SIPp for one window."""
        program = need_program("sipp", "sip-tester")
        clock = folder / "fineclock.so"
        if not clock.exists():
            clock = compiled("fineclock", folder)
        poisson = system.arrivals is Arrivals.POISSON
        calls, _ = requests_of(rate, system, number)
        if not calls:
            return Sent(np.empty(0), np.empty(0), 0)
        scenario, trace = folder / "register.xml", folder / "messages.tsv"
        scenario.write_text(_scenario(system, poisson), encoding="utf-8")
        trace.unlink(missing_ok=True)
        command: list[str | Path] = [program, f"{LOOPBACK}:{port}", "-i", LOOPBACK]
        # No port is named: SIPp then looks for a free one by itself.
        command += ["-sf", scenario, "-m", str(calls), "-l", str(calls + 1)]
        command += ["-r", "1000000" if poisson else f"{rate / _SPEED:.6f}"]
        command += ["-nr", "-nd", "-nostdin", "-timer_resol", "1", "-trace_shortmsg"]
        command += ["-shortmessage_file", trace, "-shortmessage_overwrite", "true"]
        environment = {"LD_PRELOAD": str(clock), "SIPP_SPEED": str(_SPEED), "TERM": "dumb"}
        log = folder / "sipp.log"
        with (
            precedence(PRIORITY, CORE),
            running(command, environment, log) as process,
        ):
            try:
                code = process.wait(system.seconds + system.drain + _GRACE)
            except subprocess.TimeoutExpired:
                raise ProgramError(
                    f"SIPp did not end within {_GRACE:g} s of its window at {rate:g} per second"
                ) from None
        if code not in _DONE or not trace.exists():
            raise ProgramError(f"SIPp failed with exit code {code}; {last_words(log)}")
        arrival, response = read_messages(trace)
        return Sent(arrival, response, _silences(arrival, rate, poisson))


def read_messages(trace: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times sent, from the first, and response times, from SIPp's short message trace."""
    sent: dict[str, float] = {}
    answered: dict[str, float] = {}
    with trace.open(encoding="utf-8", errors="replace", newline="") as file:
        for record in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if len(record) < 7:
                continue
            _, _, at, way, call, _, first_line = record[:7]
            if way == "S":
                sent.setdefault(call, float(at))
            elif first_line.startswith("SIP/2.0 200"):
                answered.setdefault(call, float(at))
    start = np.array(list(sent.values()))
    end = np.array([answered.get(call, math.nan) for call in sent])
    order = np.argsort(start, kind="stable")
    # The trace is in microseconds: a reply in the same one as its request took no time, not less.
    took = np.where(np.isnan(end), np.nan, np.maximum(end - start, 0.0))
    return (start - start.min(initial=math.inf))[order], took[order]


def _scenario(system: Kamailio, poisson: bool) -> str:
    first = _LEAD_MS * _SPEED
    last = first + round(system.seconds * 1000 * _SPEED)
    template = Template((PROGRAMS / "register.xml").read_text(encoding="utf-8"))
    pause = f'  <pause distribution="uniform" min="{first}" max="{last}"/>' if poisson else ""
    return template.substitute(pause=pause, timeout=round(system.drain * 1000 * _SPEED))


def _silences(arrival: NDArray[np.float64], rate: float, poisson: bool) -> int:
    """How many gaps between requests are longer than arrivals of this kind have."""
    longest = math.log(max(len(arrival), 1) / _RARE) / rate if poisson else 2 / rate + 1e-3
    return int((np.diff(arrival) > longest).sum())
