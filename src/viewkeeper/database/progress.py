"""A progress bar on the terminal while a refresh works. Nothing where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viewkeeper.engine.maintainer import Maintainer
    from viewkeeper.engine.reports import ViewReport


@contextmanager
def shown_progress(maintainer: Maintainer) -> Iterator[None]:
    """Show, on standard error, which views are done. The bar goes when the block ends."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    before = maintainer.progress
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("refreshing views", total=None)

        def show(report: ViewReport, views: int) -> None:
            bar.update(task, total=views, advance=1, description=f"refreshed {report.view}")

        maintainer.progress = show
        try:
            yield
        finally:
            maintainer.progress = before
