import pytest
import torch

from stationary._support import files as atomic
from stationary.errors import RunError
from stationary.learning import checkpoints


def test_round_trip_of_nested_state(tmp_path):
    file = tmp_path / "c"
    state = {
        "step": 3,
        "text": "a.b/c",
        "tensor": torch.randn(3, dtype=torch.float64),
        "empty": torch.empty(0, dtype=torch.long),
        "scalar": torch.tensor(1.5),
        "nested": {"0": {"m": torch.ones(2)}, "none": None},
    }
    checkpoints.write(file, state)
    again = checkpoints.read(file)
    assert (again["step"], again["text"], again["nested"]["none"]) == (3, "a.b/c", None)
    assert torch.equal(again["tensor"], state["tensor"])
    assert again["empty"].dtype == torch.long
    assert again["scalar"].shape == ()
    assert torch.equal(again["nested"]["0"]["m"], torch.ones(2))


def test_a_write_that_fails_leaves_the_old_state(tmp_path, monkeypatch):
    file = tmp_path / "c"
    checkpoints.write(file, {"step": 1})

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(atomic.os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        checkpoints.write(file, {"step": 2})
    assert checkpoints.read(file)["step"] == 1


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x00" * 100])
def test_damage_is_named(tmp_path, content):
    file = tmp_path / "c"
    file.write_bytes(content)
    with pytest.raises(RunError, match="damaged"):
        checkpoints.read(file)
