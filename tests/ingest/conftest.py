"""What several files of tests share."""

import pandas as pd
import pytest

from stationary.ingest import Columns, Source, windows_from_events


@pytest.fixture
def made_of(tmp_path):
    """Windows of a table, or of the text of a CSV file."""

    def make(table, cut, columns=None):
        path = tmp_path / ("log.csv" if isinstance(table, str) else "log.parquet")
        if isinstance(table, str):
            path.write_text(table.replace(" ", "\n") + "\n")
        else:
            pd.DataFrame(table).to_parquet(path, index=False)
        return windows_from_events(Source(str(path), columns or Columns()), cut)

    return make
