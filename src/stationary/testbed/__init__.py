"""Real servers under load on the loopback address, recorded as windows."""

from stationary.testbed.buffers import shim, system_default
from stationary.testbed.gunicorn import Gunicorn
from stationary.testbed.kamailio import Kamailio
from stationary.testbed.native import Native
from stationary.testbed.profiles import day, ramp, read_rates
from stationary.testbed.service import Service, Shape
from stationary.testbed.sipp import Sipp
from stationary.testbed.source import Arrivals
from stationary.testbed.system import Need, Summary, System
from stationary.testbed.traces import Trace, read_traces, tabulate, write_traces

__all__ = [
    "Arrivals",
    "Gunicorn",
    "Kamailio",
    "Native",
    "Need",
    "Service",
    "Shape",
    "Sipp",
    "Summary",
    "System",
    "Trace",
    "day",
    "ramp",
    "read_rates",
    "read_traces",
    "shim",
    "system_default",
    "tabulate",
    "write_traces",
]
