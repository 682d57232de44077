"""The report: one HTML file that opens anywhere, offline, and can be sent by mail."""

from stationary.output.report.answer import Answer as Answer
from stationary.output.report.answer import answer as answer
from stationary.output.report.forecasts import measured as measured
from stationary.output.report.page import check_path as check_path
from stationary.output.report.page import write_report as write_report
