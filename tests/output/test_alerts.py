"""Limits as rules of Prometheus, judged by its own tools."""

import json
import math
import subprocess
from dataclasses import replace

import pytest

from programs import required
from stationary.errors import InputError
from stationary.output.alerts import alert_rules
from stationary.planning.limits import Limit
from stationary.terms.slo import Slo
from stationary.terms.trust import Choice, Chosen, Doubt, Reason

SLO = Slo("loss", 0.001)
LIMIT = Limit((SLO,), SLO, load=120.0, low=110.0, high=130.0, level=0.95, present=100.0)
NAME = 'the "model" {{ there }}: so # it is'
DOUBT = Doubt(Reason.NO_MODEL, choice=Choice(Chosen.WRONG, best=NAME, share=0.2, low=1.0, high=9.0))
FAR = replace(LIMIT, tested=105.0, doubt=DOUBT)
OPEN = Doubt(Reason.OPEN)
QUEUE = Slo("mean_queue", 3.0)
BOTH = replace(LIMIT, slos=(SLO, QUEUE), binding=QUEUE)
LOAD = 'sum(rate(requests_total{job="web"}[1m]))'


@pytest.fixture
def promtool(tmp_path):
    """Run promtool on texts, each in a file; return what it says, after it agreed."""
    program = required("promtool")

    def run(*command, **files):
        for name, text in files.items():
            (tmp_path / f"{name}.yml").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [program, *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"headroom": 0.2, "hold": "1h30m"},
        {"labels": {"service": 'a: "b" #c\\ é', "team": "{x}"}, "hold": "0"},
    ],
)
@pytest.mark.parametrize("limit", [LIMIT, FAR, replace(BOTH, high=math.inf)])
@pytest.mark.parametrize("load", [LOAD, "a\n  + b", "up # as it is"])
def test_promtool_takes_the_rules(promtool, limit, load, options):
    code, said = promtool("check", "rules", "rules.yml", rules=alert_rules(limit, load, **options))
    assert (code, "SUCCESS: 6 rules found" in said) == (0, True), said


def unit_test(per_second, alerts, recorded):
    """A test of promtool: what fires and is recorded after ten minutes of a steady load."""
    evaluated = [
        {"eval_time": "10m", "alertname": name, "exp_alerts": expected}
        for name, expected in alerts.items()
    ]
    samples = [
        {
            "expr": f"stationary:{name}",
            "eval_time": "10m",
            "exp_samples": [
                {"labels": f'stationary:{name}{{measure="loss",bound="0.001"}}', "value": value}
            ],
        }
        for name, value in recorded.items()
    ]
    series = {"series": 'requests_total{job="web"}', "values": f"0+{15 * per_second}x60"}
    test = {
        "interval": "15s",
        "input_series": [series],
        "alert_rule_test": evaluated,
        "promql_expr_test": samples,
    }
    return json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [test]})


def fired(severity, summary):
    return [
        {
            "exp_labels": {"measure": "loss", "bound": "0.001", "severity": severity},
            "exp_annotations": {
                "summary": summary,
                "description": "Loss stays at or below 0.001 up to a load of 120 (95% interval "
                "110 to 130).",
            },
        }
    ]


@pytest.mark.parametrize(
    ("load", "headroom", "near", "above"),
    [
        (109, 0.0, False, False),
        (111, 0.0, True, False),
        (119, 0.0, True, False),
        (121, 0.0, True, True),
        (87, 0.25, False, False),  # 110 / 1.25 = 88
        (89, 0.25, True, False),
    ],
)
def test_alerts_fire_above_and_not_below(promtool, load, headroom, near, above):
    now = f"The load is {load}"
    vouched = "110, up to which the data vouches for loss <= 0.001."
    summary = f"{now}, above {vouched}"
    if headroom:
        summary = f"{now} and could not grow by 25 % within {vouched}"
    critical = f"{now}, above 120, the limit that meets loss <= 0.001."
    alerts = {
        "LoadNearLimit": fired("warning", summary) if near else [],
        "LoadAboveLimit": fired("critical", critical) if above else [],
    }
    recorded = {"load": load, "limit": 120, "limit_low": 110, "limit_used": load / 120}
    text = alert_rules(LIMIT, LOAD, headroom=headroom)
    code, said = promtool(
        "test", "rules", "test.yml", rules=text, test=unit_test(load, alerts, recorded)
    )
    assert code == 0, said


def test_an_alert_waits(promtool):
    text = alert_rules(LIMIT, LOAD, hold="20m")
    quiet = {"LoadNearLimit": [], "LoadAboveLimit": []}
    code, said = promtool("test", "rules", "test.yml", rules=text, test=unit_test(200, quiet, {}))
    assert code == 0, said


def test_a_limit_that_is_not_trusted_is_marked():
    text = alert_rules(FAR, LOAD)
    assert text.count('trusted: "no"') == 6
    assert text.count('"This limit is not to be trusted: none is to be trusted: ') == 2
    assert text.count(r"the \"model\" {{ \"{{\"") == 2
    # The data vouches for less than the interval: the warning comes there.
    assert ") > 105" in text
    assert '"vector(105)"' in text
    assert "trusted" not in alert_rules(LIMIT, LOAD)


def test_rules_of_several_slos_name_all_and_are_labelled_by_the_first_to_be_missed():
    text = alert_rules(BOTH, LOAD)
    assert text.count('measure: "mean_queue"') == text.count('bound: "3"') == 6
    assert 'name: "stationary_loss_mean_queue"' in text
    assert text.count("loss <= 0.001 and mean_queue <= 3") == 2
    assert text.count("Loss at or below 0.001 and mean queue at or below 3 hold") == 2
    assert "mean queue is the first to be missed" in text


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (replace(LIMIT, load=math.inf, high=math.inf), "any load meets loss <= 0.001"),
        (replace(LIMIT, load=0.0, low=0.0, high=0.0), "no load meets loss <= 0.001"),
        (replace(LIMIT, low=0.0, doubt=OPEN), "no load can be .* leave this load open.*record"),
        (replace(LIMIT, low=0.0), "no load can be said .* begins at 0; record"),
        (replace(LIMIT, tested=0.0, doubt=DOUBT), "no load can be said .* misplaces 20% of the"),
    ],
)
def test_answers_that_are_open_are_refused(limit, message):
    with pytest.raises(InputError, match=message):
        alert_rules(limit, LOAD)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"load": " "}, "expression of the load is empty"),
        ({"headroom": -0.1}, "headroom is a share"),
        ({"headroom": math.nan}, "headroom is a share"),
        ({"hold": "5 minutes"}, "as in 5m or 90s; got '5 minutes'"),
        ({"labels": {"a-b": "c"}}, "got 'a-b'"),
        ({"labels": {"severity": "page"}}, "got 'severity'"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        alert_rules(LIMIT, **{"load": LOAD, **options})
