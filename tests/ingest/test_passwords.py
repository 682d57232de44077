"""No message, no record and no name of a source shows a password."""

import pytest

from stationary import read_windows
from stationary.cli._options import command_line
from stationary.errors import InputError, hide_passwords
from stationary.ingest import Cut, Postgres, Source, windows_from_events

ADDRESSES = [
    "postgresql://me:pass@secret@host/base",
    "postgresql://me:pass/secret@host/base",
    "postgresql://me:secret%zz@host/base",
    "postgresql://me:secret@host/base?nonsense=1",
    "postgresql://me:s%40secret@/base?host=/nowhere",
    "postgresql://me:secret@host/base",
    "POSTGRESQL://me:secret@host/base",
    "postgresql+psycopg://me:secret@host/base",
    "postgres://me:my secret@host/base",
    "postgresql://me:s@crets@secret@host/base",
    "mysql://me:secret@host/base",
    "mysql+pymysql://me:secret@host/base.csv",
    "https://me:secret@host/requests.parquet",
    "s3://key:secret@bucket/requests.parquet",
    "host=127.0.0.1 port=1 password=secret dbname=base",
    "password='my secret' port=1 host=127.0.0.1",
    "PASSWORD = secret host=127.0.0.1 port=1",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_hidden_in_texts(address):
    for text in (address, f"{address}: there is no such file", f"error: {address.lower()}, me@x"):
        assert "secret" not in hide_passwords(text)


@pytest.mark.parametrize(
    "text",
    [
        "q=1,token=3",
        "it is written postgresql://user:password@host:5432/database",
        "written http://127.0.0.1:9090, or http://user:password@127.0.0.1:9090",
        "http://127.0.0.1:9090/ does not answer; ask me@host",
        "a note @ 5 s: 3/4",
    ],
)
def test_other_texts_stay(text):
    assert hide_passwords(text) == text


@pytest.mark.parametrize("address", ADDRESSES)
def test_sources_do_not_show_them(address):
    source = Source(address, table="t", format="csv")
    assert "secret" not in f"{source} {source.name} {Postgres(address)}"
    with pytest.raises(InputError) as caught:
        windows_from_events(source, Cut(1.0))
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"
    with pytest.raises(InputError) as caught:
        read_windows(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["mysql://me:secret@host/base", "https://me:secret@host/r.parquet"]
)
def test_other_databases_are_refused_with_what_to_do(address):
    with pytest.raises(InputError, match=r"://\*\*\*@host.* PostgreSQL.* export the table"):
        windows_from_events(Source(address), Cut(1.0))


@pytest.mark.parametrize("address", ADDRESSES[:3] + ADDRESSES[-3:])
def test_every_form_of_an_address_is_a_database(address):
    assert Source(address).is_database


def test_a_file_may_be_called_like_a_setting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host=a.csv").write_text("arrival,response\n0,1\n5,1\n")
    assert len(windows_from_events(Source("host=a.csv"), Cut(1.0)).table) == 1


def test_recorded_commands_do_not_show_them(monkeypatch):
    address = "postgresql://me:my secret@host/b"
    monkeypatch.setattr("sys.argv", ["x", "fit", address, "password=secret"])
    assert command_line() == "stationary fit 'postgresql://***@host/b' 'password=***'"
