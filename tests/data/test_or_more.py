"""A column ``Q=10plus`` or ``Q=10+`` counts every state from 10 up, of any model."""

import pytest

import stationary as st
from stationary.errors import InputError


@pytest.mark.parametrize("last", ["Q=3plus", "Q=3+"])
def test_ten_or_more_is_the_range_up_to_the_capacity(tmp_path, last):
    truth = st.models.MMmK(servers=1, capacity=9, service_rate=20.0)
    windows = st.simulate(truth, [8.0, 12.0, 16.0] * 4, duration=20.0, seed=3)
    counts = windows.counts.numpy()
    lines = [f"load,Q=0,Q=1,Q=2,{last}"]
    rows = zip(windows.loads.tolist(), counts[:, :3], counts[:, 3:].sum(1), strict=True)
    lines += [f"{load},{a:.0f},{b:.0f},{c:.0f},{rest:.0f}" for load, (a, b, c), rest in rows]
    (tmp_path / "open.csv").write_text("\n".join([*lines, ""]))
    closed = "\n".join([lines[0].replace(last, "Q=3..9"), *lines[1:], ""])
    (tmp_path / "closed.csv").write_text(closed)
    model = st.models.MMmK(servers=1, capacity=9)
    fits = [st.fit(model, st.read_windows(tmp_path / f"{name}.csv")) for name in ("open", "closed")]
    assert fits[0].estimates == fits[1].estimates
    assert fits[0].nll == fits[1].nll
    small = st.models.MMmK(servers=1, capacity=2)
    with pytest.raises(InputError, match=r"'3\+' is not in the model"):
        st.fit(small, st.read_windows(tmp_path / "open.csv"))
