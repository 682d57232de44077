"""The report: one HTML file that opens anywhere, offline, and is mailed around."""

from stationary.output.report.headline import Answer as Answer
from stationary.output.report.headline import answer as answer
from stationary.output.report.page import check_path as check_path
from stationary.output.report.page import write_report as write_report
