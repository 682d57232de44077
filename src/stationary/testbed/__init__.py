"""The real testbed: Kamailio under load on the loopback address, recorded as windows."""

from stationary.testbed.buffers import Shim, SystemDefault
from stationary.testbed.doctor import Need, examine
from stationary.testbed.native import Native
from stationary.testbed.profiles import Day, Given, Ramp, read_profile
from stationary.testbed.record import Trace, record, tabulate
from stationary.testbed.settings import Arrivals, Deterministic, Exponential, Settings, Unslowed
from stationary.testbed.sipp import Sipp
from stationary.testbed.traces import read_traces, write_traces

__all__ = [
    "Arrivals",
    "Day",
    "Deterministic",
    "Exponential",
    "Given",
    "Native",
    "Need",
    "Ramp",
    "Settings",
    "Shim",
    "Sipp",
    "SystemDefault",
    "Trace",
    "Unslowed",
    "examine",
    "read_profile",
    "read_traces",
    "record",
    "tabulate",
    "write_traces",
]
