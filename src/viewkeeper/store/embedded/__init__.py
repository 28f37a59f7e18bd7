"""The embedded store: one folder, SQLite through ADBC, one file per region. Any process may open it."""

from viewkeeper.store.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]
