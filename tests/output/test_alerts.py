"""Limits as rules for Prometheus, judged by its own tools."""

import json
import math
import subprocess
from dataclasses import replace

import pytest
import yaml

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
UNTRUSTED = replace(LIMIT, tested=105.0, doubt=DOUBT)
QUEUE = Slo("mean_queue", 3.0)
BOTH = replace(LIMIT, slos=(SLO, QUEUE), binding=QUEUE)
LOAD = 'sum(rate(requests_total{job="web"}[1m]))'


def rules(*given, **options):
    """The rules as a program reads them."""
    (group,) = yaml.safe_load(alert_rules(*given, **options))["groups"]
    return group["name"], group["rules"]


@pytest.fixture
def promtool(tmp_path):
    """Run promtool on texts, each in a file; it must agree."""
    program = required("promtool")

    def run(*command, **files):
        for name, text in files.items():
            (tmp_path / f"{name}.yml").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [program, *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize(
    "options",
    [
        {"headroom": 0.2, "hold": "1h30m"},
        {"labels": {"service": 'a: "b" #c\\ é', "team": "{x}"}, "hold": "0"},
    ],
)
@pytest.mark.parametrize("limit", [LIMIT, UNTRUSTED, replace(BOTH, high=math.inf)])
@pytest.mark.parametrize("load", [LOAD, "a\n  + b", "up # as it is"])
def test_promtool_takes_the_rules(promtool, limit, load, options):
    text = alert_rules(limit, load, **options)
    assert "SUCCESS: 6 rules found" in promtool("check", "rules", "rules.yml", rules=text)


def test_names_of_measures_are_no_templates(promtool):
    slo = Slo("{{ x }}", 0.5)
    text = alert_rules(replace(LIMIT, slos=(slo,), binding=slo), LOAD)
    promtool("check", "rules", "rules.yml", rules=text)
    assert text.count("{{ $value | humanize }}") == 2


def unit_test(per_second, alerts, recorded):
    """A test of promtool: what fires and is recorded after ten minutes of a steady load."""
    evaluated = [
        {"eval_time": "10m", "alertname": name, "exp_alerts": expected}
        for name, expected in alerts.items()
    ]
    labels = '{measure="loss",bound="0.001"}'
    samples = [
        {
            "expr": f"stationary:{name}",
            "eval_time": "10m",
            "exp_samples": [{"labels": f"stationary:{name}{labels}", "value": value}],
        }
        for name, value in recorded.items()
    ]
    test = {
        "interval": "15s",
        "input_series": [
            {"series": 'requests_total{job="web"}', "values": f"0+{15 * per_second}x60"}
        ],
        "alert_rule_test": evaluated,
        "promql_expr_test": samples,
    }
    return json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [test]})


def fired(severity, summary):
    description = "Loss < 0.1% holds up to 120 (95% interval 110 to 130)."
    return [
        {
            "exp_labels": {"measure": "loss", "bound": "0.001", "severity": severity},
            "exp_annotations": {"summary": summary, "description": description},
        }
    ]


@pytest.mark.parametrize(
    ("load", "headroom", "near", "above"),
    [
        (109, 0.0, False, False),
        (111, 0.0, True, False),
        (121, 0.0, True, True),
        (87, 0.25, False, False),  # 110 / 1.25 = 88
        (89, 0.25, True, False),
    ],
)
def test_alerts_fire_above_and_not_below(promtool, load, headroom, near, above):
    now = f"The load is {load}"
    vouched = "110, up to which the data show that loss < 0.1% holds."
    growth = ": 25% more would be above" if headroom else ", above"
    critical = f"{now}, above the limit of 120, up to which loss < 0.1% holds."
    alerts = {
        "LoadNearLimit": fired("warning", f"{now}{growth} {vouched}") if near else [],
        "LoadAboveLimit": fired("critical", critical) if above else [],
    }
    recorded = {"load": load, "limit": 120, "limit_low": 110, "limit_used": load / 120}
    text = alert_rules(LIMIT, LOAD, headroom=headroom)
    test = unit_test(load, alerts, recorded)
    promtool("test", "rules", "test.yml", rules=text, test=test)


def test_an_expression_is_written_as_it_was_given():
    written = alert_rules(LIMIT, "sum(rate(x[5m]))")
    assert "expr: (sum(rate(x[5m]))) / 120\n" in written
    assert rules(LIMIT, "x # y")[1][3]["expr"] == "(x # y\n) / 120"


def test_an_alert_waits(promtool):
    text = alert_rules(LIMIT, LOAD, hold="20m")
    quiet = unit_test(200, {"LoadNearLimit": [], "LoadAboveLimit": []}, {})
    promtool("test", "rules", "test.yml", rules=text, test=quiet)


def test_a_limit_that_is_not_trusted_is_marked():
    _, marked = rules(UNTRUSTED, LOAD)
    assert [rule["labels"]["trusted"] for rule in marked] == ["no"] * 6
    for rule in marked[4:]:
        assert "not to be trusted: the best of the models, " in rule["annotations"]["warning"]
        assert 'the "model" {{ "{{" }} there }}' in rule["annotations"]["warning"]
    # The data vouch for less than the interval: the warning comes there.
    assert marked[2]["expr"] == "vector(105)"
    assert marked[4]["expr"].endswith(") > 105")
    assert "trusted" not in alert_rules(LIMIT, LOAD)


def test_rules_of_several_slos_name_all_and_are_labelled_by_the_first_to_be_missed():
    name, several = rules(BOTH, LOAD)
    assert name == "stationary_loss_mean_queue"
    for rule in several:
        assert (rule["labels"]["measure"], rule["labels"]["bound"]) == ("mean_queue", "3")
    for rule in several[4:]:
        assert "loss < 0.1% and mean queue < 3" in rule["annotations"]["summary"]
        assert "Mean queue is missed first" in rule["annotations"]["description"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"load": math.inf, "high": math.inf}, "any load meets loss < 0.1%.*lower"),
        ({"load": 0.0, "low": 0.0, "high": 0.0}, "no load meets loss < 0.1%.*raise"),
        ({"low": 0.0, "doubt": Doubt(Reason.OPEN)}, "loss < 0.1%.* this load open.*record"),
        ({"low": 0.0}, "no load can be said .* begins at 0; record"),
        ({"tested": 0.0, "doubt": DOUBT}, "no load can be said .* off by 20%"),
    ],
)
def test_answers_that_are_open_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        alert_rules(replace(LIMIT, **changes), LOAD)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"load": " "}, "expression of the load is empty"),
        ({"headroom": -0.1}, "headroom is a share.*-0.1"),
        ({"headroom": math.nan}, "headroom is a share.*nan"),
        ({"hold": "5 minutes"}, "5m or 90s; got '5 minutes'"),
        ({"labels": {"a-b": "c"}}, "label.*got 'a-b'"),
        ({"labels": {"severity": "page"}}, "label.*got 'severity'"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        alert_rules(LIMIT, **{"load": LOAD, **options})
