"""The `attnlim` command: verbs, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import errno
import sys
from typing import Annotated, Any, cast

import typer

import attnlim
from attnlim.cli import audit, meanfield, models, phase, report, reproduce, rescale, rules
from attnlim.core.checks import InputError

# newer typer carries a click of its own: these are the error classes of whichever is in use
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
ClickError: type[Exception] = typer.BadParameter.__mro__[2]

INTERRUPTED = 130

app = typer.Typer(
    name="attnlim",
    help="What happens to a transformer's attention as its context grows, and what to do about it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("audit")(audit.command)
app.command("rules")(rules.command)
app.command("phase")(phase.command)
app.command("meanfield")(meanfield.command)
app.command("rescale")(rescale.command)
app.command("report")(report.command)
app.add_typer(models.app, name="models")
app.add_typer(reproduce.app, name="reproduce")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"attnlim {attnlim.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: exit code 0 done, 1 a check failed, 2 bad input, 130 interrupted."""
    try:
        code = app(standalone_mode=False)
    except InputError as reason:
        code = _complain(str(reason))
    except ClickError as reason:
        said = cast(Any, reason).format_message()
        code = _complain(f"{said} See `attnlim --help`." if isinstance(reason, UsageError) else said)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OSError as reason:
        code = _complain(_system_error(reason))
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code by itself
        _complain("interrupted; what was finished is kept, give the same command again to go on")
    sys.exit(code or 0)


def _system_error(reason: OSError) -> str:
    if reason.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full; free some space, then give the same command again to go on"
    path, why = reason.filename2 or reason.filename, reason.strerror or str(reason) or type(reason).__name__
    return f"cannot write or read {path}: {why}" if path else f"cannot go on: {why}"


def _complain(line: str) -> int:
    print(f"attnlim: {' '.join(line.split())}", file=sys.stderr)
    return 2
