"""The command line: one module per command; here they are gathered and mistakes become sentences."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

import typer

from radii.allocator import keep_freed
from radii.cli import terminal
from radii.errors import ContradictionError, InputError

app = typer.Typer(
    name="radii",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="How far can an input move before a classifier errs? proved ≤ true ≤ broken.",
)


@app.callback()
def _main() -> None:
    keep_freed()


INTERRUPTED = 130
COMMANDS = (
    "assess",
    "audit",
    "train",
    "lr_search",
    "evaluate",
    "attack",
    "certify",
    "verify",
    "export",
    "theory",
    "study",
    "forecast",
    "claims",
    "datasets",
    "variants",
    "runs",
)

for command in COMMANDS:  # one module each; they import what is heavy when they run
    import_module(f"radii.cli.{command}").register(app)


def run() -> None:
    """Entry point of ``radii``: exit 0 success, 1 a check failed, 2 bad input, 130 Ctrl-C or SIGTERM."""
    os.environ["PYTHONSAFEPATH"] = "1"  # helper processes never import from the folder in which one works
    signal.signal(signal.SIGTERM, _interrupt)
    terminal.prepare_streams()
    sys.exit(guarded(lambda: app(standalone_mode=False)))


def _interrupt(*_: object) -> None:
    """SIGTERM (docker stop, a batch system at its limit) ends a command as Ctrl-C does; a second one at once."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt


def guarded(command) -> int:  # type: ignore[no-untyped-def]
    """Run a command; a user's mistake becomes one sentence on stderr and an exit code."""
    try:
        code = int(command() or 0)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this code without a word
            raise KeyboardInterrupt
        return code
    except (InputError, ContradictionError) as error:
        terminal.complain(str(error))
        return 2 if isinstance(error, InputError) else 1
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        terminal.complain("Interrupted. What was committed is kept; the same command continues.")
        return INTERRUPTED
    except BrokenPipeError:  # `radii … | head`
        sys.stderr.close()
        return 0
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        terminal.complain(f"{error.strerror or error}{where}.")
        return 2
    except Exception as error:
        if type(error).__module__.startswith(("click", "typer")):  # a wrong flag or a missing argument
            terminal.complain(error.format_message() if hasattr(error, "format_message") else str(error))
            return 2
        if isinstance(error, MemoryError) or "allocate memory" in str(error):  # torch raises a RuntimeError
            terminal.complain("There is not enough memory for this; choose a smaller model, width or batch size.")
            return 2
        raise


if __name__ == "__main__":
    run()
