"""Real servers under load on the loopback address, recorded as windows."""

from stationary.testbed.buffers import shim as shim
from stationary.testbed.buffers import system_default as system_default
from stationary.testbed.gunicorn import Gunicorn as Gunicorn
from stationary.testbed.kamailio import Kamailio as Kamailio
from stationary.testbed.profiles import day as day
from stationary.testbed.profiles import ramp as ramp
from stationary.testbed.profiles import read_rates as read_rates
from stationary.testbed.service import Service as Service
from stationary.testbed.service import Shape as Shape
from stationary.testbed.sipp import Sipp as Sipp
from stationary.testbed.source import Arrivals as Arrivals
from stationary.testbed.source import Native as Native
from stationary.testbed.system import Need as Need
from stationary.testbed.system import Summary as Summary
from stationary.testbed.system import System as System
from stationary.testbed.traces import Trace as Trace
from stationary.testbed.traces import read_traces as read_traces
from stationary.testbed.traces import tabulate as tabulate
from stationary.testbed.traces import write_traces as write_traces
