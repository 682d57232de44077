"""The small languages of the command line."""

import pytest

from stationary.cli._models import ModelText
from stationary.cli._parse import (
    parse_changes,
    parse_grid,
    parse_loads,
    parse_range,
)
from stationary.errors import InputError
from stationary.models import MMmK, Relaxed
from stationary.terms.slo import Slo, as_slos

# Loads.


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ("10", [10]),
        ("10,20,30", [10, 20, 30]),
        (" 10 , 20 ", [10, 20]),
        ("10:12", [10, 11, 12]),
        ("10:20:5", [10, 15, 20]),
        ("10:21:5", [10, 15, 20]),
        ("0.1:0.3:0.1", [0.1, 0.2, 0.3]),
        ("60:64.8:1.2", [60, 61.2, 62.4, 63.6, 64.8]),
        ("1e3:1.2e3:100", [1000, 1100, 1200]),
        ("5:5", [5]),
        ("10:12,20,30:31", [10, 11, 12, 20, 30, 31]),
        ("20,10", [20, 10]),
        ("10,20,", [10, 20]),
    ],
)
def test_loads(text, loads):
    assert parse_loads(text) == loads  # exactly: 62.4 and not 62.400000000000006


@pytest.mark.parametrize(
    ("text", "loads"),
    [("120%", [60.0]), ("80%:110%", [40.0, 45.0, 50.0, 55.0]), ("50%, 30", [25.0, 30.0])],
)
def test_loads_as_shares_of_the_present_one(text, loads):
    assert parse_loads(text, 50.0) == loads


def test_a_share_needs_a_load_to_be_a_share_of():
    with pytest.raises(InputError, match=r"a share such as 120% is one of a saved plan's"):
        parse_loads("120%")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no loads given; write them as 10:60:2"),
        (" , ", "no loads given"),
        ("abc", "loads 'abc': a load must be a number; got 'abc'"),
        ("10-60", "a load must be a number; got '10-60'"),
        ("10;20", "a load must be a number; got '10;20'"),
        ("10:", "a load must be a number; got ''"),
        ("10::2", "a load must be a number; got ''"),
        ("nan", "a load must be finite; got 'nan'"),
        ("10:inf", "a load must be finite; got 'inf'"),
        ("20:10", "loads '20:10': write LOW:HIGH or LOW:HIGH:STEP, upwards"),
        ("10:20:0", "LOW:HIGH:STEP, upwards"),
        ("10:20:-1", "LOW:HIGH:STEP, upwards"),
        ("1:2:3:4", "LOW:HIGH:STEP, upwards"),
        ("1:1e9", "more than 100000 of them"),
        ("1:2:1e-320", "more than 100000 of them"),
        ("-1e308:1e308", "more than 100000 of them"),
    ],
)
def test_bad_loads(text, message):
    with pytest.raises(InputError, match=message):
        parse_loads(text)


# Grids.


def test_a_grid_of_one_input_is_loads():
    assert parse_grid(["10:12"], ("load",)) == [10, 11, 12]
    assert parse_grid(["load=10:12"], ("load",)) == [10, 11, 12]


def test_a_grid_of_two_inputs_is_every_combination():
    grid = parse_grid(["warmth=1,2", "load=10:12:2"], ("load", "warmth"))
    assert grid == [(10, 1), (10, 2), (12, 1), (12, 2)]


@pytest.mark.parametrize(
    ("texts", "inputs"),
    [
        (["10", "20"], ("load",)),
        (["10"], ("load", "warmth")),
        (["load=10"], ("load", "warmth")),
        (["load=10", "speed=3"], ("load", "warmth")),
        (["load=10", "load=11", "warmth=3"], ("load", "warmth")),
    ],
)
def test_each_input_is_given_once(texts, inputs):
    with pytest.raises(InputError, match=f"give each input once.* inputs are {', '.join(inputs)}"):
        parse_grid(texts, inputs)


def test_a_grid_has_an_end():
    with pytest.raises(InputError, match="make 100000000 combinations"):
        parse_grid(["load=1:10000", "warmth=1:10000"], ("load", "warmth"))


# Ranges.


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (None, None),
        ("1:1000", (1, 1000)),
        (":1000", (None, 1000)),
        ("1:", (1, None)),
        (" 1 : 2 ", (1, 2)),
        ("5:5", (5, 5)),
        ("-1:1", (-1, 1)),
    ],
)
def test_range(text, ends):
    assert parse_range(text) == ends


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a range is LOW:HIGH, with either end left out; got ''"),
        (":", "with either end left out"),
        ("11", "with either end left out; got '11'"),
        ("1-1000", "with either end left out; got '1-1000'"),
        ("1:2:3", "with either end left out"),
        ("a:b", "range 'a:b': end must be a number; got 'a'"),
        ("1:inf", "must be finite"),
        ("15:11", "a range is LOW:HIGH, upwards; got '15:11'"),
    ],
)
def test_bad_range(text, message):
    with pytest.raises(InputError, match=message):
        parse_range(text)


# Limits.


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("loss<0.1%", ("loss", 0.001)),
        ("loss<0.001", ("loss", 0.001)),
        ("loss<=1e-3", ("loss", 0.001)),
        ("  mean_queue  <  5 ", ("mean_queue", 5.0)),
    ],
)
def test_slo(text, bound):
    assert Slo.parse(text) == Slo(*bound)


@pytest.mark.parametrize(
    "text",
    [
        *("", "loss", "loss>0.1", "loss=0.1", "<0.1", "loss<", "loss<0.1, mean_queue<3"),
        *("loss<one%", "loss<0.1<0.2", "loss<nan", "loss<inf", "loss<1 %%", "loss<5 parsecs"),
    ],
)
def test_bad_slo(text):
    with pytest.raises(InputError, match="measure<bound, as in 'loss<") as error:
        Slo.parse(text)
    assert repr(text) in str(error.value)


def test_a_measure_has_one_bound():
    with pytest.raises(InputError, match="loss has two bounds"):
        as_slos(["loss<0.1", "mean_queue<3", "loss<0.2"])


# Changes.

NOW = {"servers": 4, "capacity": 20}


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("servers=5", {"servers": 5}),
        ("servers=+1", {"servers": 5}),
        ("servers=-1", {"servers": 3}),
        ("capacity=+50%", {"capacity": 30}),
        ("capacity=-10%", {"capacity": 18}),
        ("capacity=+15%", {"capacity": 23}),
        ("faster=1.2", {"faster": 1.2}),
        ("faster=+20%", {"faster": 1.2}),
        ("faster=-0.5", {"faster": 0.5}),
        (" servers = +1 , capacity=30, faster=2,", {"servers": 5, "capacity": 30, "faster": 2}),
    ],
)
def test_changes(text, changes):
    found = parse_changes(text, NOW)
    assert found == changes
    assert [type(value) for value in found.values()] == [type(v) for v in changes.values()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "what-if '': say what changes, as in servers=\\+1"),
        (
            "servers",
            "write name=value, as in servers=5, servers=\\+1 or .*; got 'servers'",
        ),
        ("=5", "got '=5'"),
        ("servers=5,servers=6", "'servers' is given twice"),
        (
            "server=5",
            "no 'server' to change; did you mean 'servers'.*capacity, faster",
        ),
        ("service_rate=5", "no 'service_rate' to change"),
        ("servers=", "what-if 'servers=': write name=value.*got 'servers='"),
        ("servers=more", "servers must be a number; got 'more'"),
        ("servers=+more", "servers must be a number; got '\\+more'"),
        ("servers=50%", "servers in percent needs a sign, as in \\+50% or -20%; got '50%'"),
        ("servers=+10%", "servers \\+10% makes 4.4 of 4, and it must be whole: write 5"),
        ("capacity=+0.5", "capacity \\+0.5 makes 20.5 of 20"),
        ("servers=+inf", "must be finite"),
    ],
)
def test_bad_changes(text, message):
    with pytest.raises(InputError, match=message):
        parse_changes(text, NOW)


# Models.


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("mmmk", {}),
        ("MMmK:", {}),
        ("mmmk:servers=2,capacity=10", {"servers": 2, "capacity": 10}),
        (" mmmk : servers = 2 , ", {"servers": 2}),
        ("mmmk:service_rate=2.5e1", {"service_rate": 25.0}),
    ],
)
def test_options(text, options):
    found = ModelText(text).options
    assert ModelText(text).model().name == "mmmk"
    assert found == options
    assert [type(value) for value in found.values()] == [type(v) for v in options.values()]


def test_model_and_its_relaxation():
    model = ModelText("mmmk:servers=2,capacity=4,service_rate=3").model()
    assert isinstance(model, MMmK)
    assert model.options == {"servers": 2, "capacity": 4}
    assert model.estimates == {"service_rate": 3.0}
    relaxed = ModelText("mmmk:capacity=4").model(relax=50.0)
    assert isinstance(relaxed, Relaxed)
    assert relaxed.alpha == 50.0
    assert relaxed.base.options == {"servers": 1, "capacity": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no model ''; there are: .*mmmk"),
        ("mm1", "there is no model 'mm1'; .*there are: .*mmmk.*uppertriangular"),
        ("multidiagonl", "did you mean 'multidiagonal'"),
        ("mmmk servers=1", "there is no model 'mmmk servers=1'"),
        ("mmmk:capactiy=20", "option 'capactiy'; did you mean 'capacity'"),
        ("mmmk:capacity", "write name=value, as in servers=1; got 'capacity'"),
        ("mmmk:=3", "write name=value, .*; got '=3'"),
        ("mmmk:capacity=", "write name=value, .*; got 'capacity='"),
        ("mmmk:capacity=twenty", "capacity must be a number; got 'twenty'"),
        ("mmmk:capacity=10,capacity=11", "'capacity' is given twice"),
        ("mmmk:name=3", "no option 'name'"),
        ("mmmk:capacity=2.5", "capacity must be a whole number from 1 to .*; got 2.5"),
        ("mmmk:capacity=0", "capacity must be a whole number from 1 to .*; got 0"),
        ("mmmk:capacity=1e400", "capacity must be finite"),
        ("mmmk:servers=0", "servers must be a whole number from 1 to"),
        ("mmmk:service_rate=0", "service_rate must be positive; got 0"),
        ("multidiagonal:rate_9=1", "option 'rate_9'; .*rate_1, rate_2, rate_3"),
        ("uppertriangular:states=2", "states must be a whole number from 3 to"),
        ("relaxed", "relax a model with --relax"),
        ("relaxed:model=3", "relax a model with --relax"),
    ],
)
def test_bad_model(text, message):
    with pytest.raises(InputError, match=message):
        ModelText(text).model()


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_relaxation(alpha):
    with pytest.raises(InputError, match="alpha must be positive and finite"):
        ModelText("mmmk").model(relax=alpha)


def test_a_file_does_not_hide_a_model_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mmmk").write_text("no model")
    assert ModelText("mmmk:capacity=4").model().options == {"servers": 1, "capacity": 4}
    assert isinstance(ModelText("mmmk").model(), MMmK)


def test_a_file_of_any_name_is_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = """
    params = {}
    variables = {n = [0, "K"]}
    constants = {K = 3}
    rules = {up = "n < K -> n += 1 at load", down = "n > 0 -> n -= 1 at 1"}
    """
    for name in ("a.txt", "a.b:c.toml", "c.TOML"):
        (tmp_path / name).write_text(text)
        assert len(ModelText(f"{name}:K=5").model().states) == 6, name
        assert len(ModelText(name).model().states) == 4
    (tmp_path / "plain").write_text(text)
    assert len(ModelText("./plain:K=5").model().states) == 6
    with pytest.raises(InputError, match=r"there is no model 'a\.tomlx'"):
        ModelText("a.tomlx:K=1").model()


def test_many_options_are_no_name_of_a_file(call, tmp_path):
    many = "statedependent:depth=40,capacity=50," + ",".join(
        f"service_{k}={k}" for k in range(1, 41)
    )
    assert ModelText(many).model().estimates["service_40"] == 40
    long = "mmmk:service_rate=" + "0" * 300 + "5"
    assert ModelText(long).model().estimates == {"service_rate": 5.0}
    assert call("simulate", long, "--x", "1", "-o", tmp_path / "w.csv")[0] == 0
