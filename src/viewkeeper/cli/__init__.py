"""The command line: `viewkeeper`, thin over the library, one module per group of commands.

    app        the commands by name, errors and exit codes
    options    what commands share: the database, the format
    rows       init, put, get, find, scan, delete
    views      refresh, explain, verify, repair, history, changes
    status     where every view is, also live
    running    run: continuous maintenance
    prompt     sql: a statement, a file, or a prompt
    files      import and export (sources, loading, text_values)
    programs   demo and bench
    show       rows as a table, JSON, CSV or Arrow
    start      what a short command need not wait for; Spark's words out of sight
    reference  docs/cli.md from the commands themselves

The law: data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage,
3 a view differs from its query.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code.

    Nothing that is imported becomes garbage, so looking for it waits until a database is opened (`options`).
    """
    import gc

    gc.disable()
    from viewkeeper.cli.app import run

    return run(arguments)
