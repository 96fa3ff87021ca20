"""The command line: one module per command; a command's module is imported when the command is used."""

from __future__ import annotations

import ast
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from types import MethodType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from radii.cli import terminal
from radii.cli.options import Quiet, Verbose, option_hint, with_shared
from radii.errors import ContradictionError, InputError, unknown_name
from radii.process import keep_freed
from radii.registry import published, source_file

INTERRUPTED = 130
COMMANDS = {  # with the first line of its help, so that the list of commands loads none of them
    "assess": "Measure a dataset, reference classifiers and your model; write one HTML report.",
    "audit": "How robust could any classifier on this data be? For example: radii audit mnist mnist+binarize.",
    "train": "Train a classifier; the same command again finds the run, and after a kill continues it.",
    "lr-search": "Search the learning rate, log-uniformly; the test split is not touched.",
    "evaluate": "Clean accuracy, the bracket of robust accuracy, broken radii and reasons to doubt them.",
    "attack": "Try one attack on test points; its result is an upper bound of robust accuracy, no more.",
    "certify": "Certified accuracy over the radius, with its interval; several methods go into one chart.",
    "doctor": "Check a model and its data on a few points, in about ten seconds; exit code 1 if something is wrong.",
    "gate": "Test requirements on points in random order until each is decided; exit code 1 if one fails.",
    "card": "Write a model card: front matter for the Hugging Face hub, and the figures in words.",
    "compare": "Compare evaluations of several models on the points they share: shares, paired differences, chance.",
    "board": "Write a leaderboard of all evaluations of a store; unlike ones stay apart.",
    "export": "Write a model as ONNX or .pt2, its constrained layers folded to plain ones, its certificate inside.",
    "verify": "Prove that no input meets a property (`unsat`), or find one that does (`sat`).",
    "check": "Check a proof of `unsat` with independent code.",
    "study": "Run studies, published ones and your own; nothing is computed twice.",
    "forecast": "How much data does a target need? For example: radii forecast data-scaling --target 0.7.",
    "datasets": "List datasets that a name reaches, or describe one: radii datasets photos+resize:64.",
    "variants": "Draw a dataset's variants side by side, for example: radii variants mnist --smooth 2 5 8.",
    "runs": "List, show, compare and delete committed runs.",
}


class _LazyCommands(TyperGroup):
    """The commands; a command's module is imported when the command is used, not when it is listed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The commands by group."""
        _show_help(self, ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The commands in the order of ``--help``: radii's own, then those of other packages."""
        return [*COMMANDS, *published("radii.commands")]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """What the list needs to know of the command ``cmd_name``: its name and its line."""
        line = COMMANDS.get(cmd_name) or _first_line(published("radii.commands").get(cmd_name, ""))
        return TyperCommand(cmd_name, help=line) if line else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first of ``args`` names, with its options, and the rest of them."""
        if args[0] == "help":  # `radii help`, `radii help train`
            args = [*args[1:], "--help"]
            if len(args) == 1:
                print(ctx.get_help())
                raise typer.Exit
        return args[0], load_command(args[0]), args[1:]


def load_command(name: str) -> Any:
    """The command or group of commands called ``name``, with its options."""
    places = published("radii.commands")
    if name not in COMMANDS and name not in places:
        raise _unknown_command(name, [*COMMANDS, *places])
    place, _, function = places.get(name, "").partition(":") if name not in COMMANDS else ("", "", "")
    function = function or name.replace("-", "_")
    module = import_module(place or f"radii.cli.{function}")
    own = getattr(module, "app", None)  # of a command with commands or a class of its own
    if own is None:
        own = typer.Typer(add_completion=False)
        own.command()(with_shared(getattr(module, function)))
    command = typer.main.get_command(own)
    command.name = name
    return _with_own_help(command)


def _with_own_help(command: Any) -> Any:
    """``command``, and the commands below it, with radii's own help."""
    command.format_help = MethodType(_show_help, command)
    for below in getattr(command, "commands", {}).values():
        _with_own_help(below)
    return command


def _show_help(command: Any, context: Any, formatter: Any) -> None:
    from radii.cli.help_page import format_help  # loaded where it is asked for

    format_help(command, context, formatter)


def _first_line(path: str) -> str:
    """The help of a command at ``module:attribute``, read from the first line of its module, which is not imported."""
    file = source_file(path) if path else None
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) if file is not None else None
    return (text or "").partition("\n")[0].rpartition("``: ")[2].capitalize()


app = typer.Typer(
    name="radii",
    cls=_LazyCommands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="How far can an input move before a classifier errs? proved ≤ true ≤ broken.",
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"radii {version('radii')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[  # noqa: ARG001  # the callback uses it
        bool, typer.Option("--version", "-V", help="The version of radii.", callback=_tell_version, is_eager=True)
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    terminal.set_verbosity(quiet=quiet, verbose=verbose)
    keep_freed()


def run() -> None:
    """Entry point of ``radii``: exit 0 success, 1 a check failed, 2 bad input, 130 Ctrl-C or SIGTERM."""
    os.environ["PYTHONSAFEPATH"] = "1"  # helper processes never import from the folder in which one works
    code = guarded(_start)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the work is done; nothing is left to be told
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    sys.exit(code)


def _start() -> Any:
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a command under nohup stays deaf
        signal.signal(signal.SIGINT, _interrupt)
    terminal.prepare_streams()
    return app(standalone_mode=False)


_received: list[int] = []  # signals that asked this command to end


def _interrupt(number: int, _frame: object = None) -> None:
    """SIGTERM (docker stop, a batch system at its limit) ends a command as Ctrl-C does; a second one at once."""
    _received.append(number)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt


def guarded(command: Callable[[], Any]) -> int:
    """Run a command; a user's mistake becomes one sentence on stderr and an exit code.

    A signal may arrive while a compiled module is imported, which turns it into an ImportError of its own: after
    a signal every error is the end that was asked for.

    Args:
        command: what to run; it returns an exit code or None.
    """
    terminal.reset_verbosity()
    _received.clear()
    try:
        code = int(command() or 0)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this code without a word
            raise KeyboardInterrupt
        return code
    except SystemExit as leave:
        if not isinstance(leave.__context__, BrokenPipeError):  # rich leaves so when nobody reads its help
            raise
        _discard_output()
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return _tell_interrupted()
    except Exception as error:
        return _tell_interrupted() if _received else _tell(error)
    finally:
        terminal.reset_verbosity()  # another command of the same process, or the library, says what is usual


def _tell_interrupted() -> int:
    terminal.complain("Interrupted. What was committed is kept; the same command continues.")
    return INTERRUPTED


def _tell(error: Exception) -> int:
    """Say what was wrong in one sentence, and return the exit code; an error of radii itself is raised again."""
    if isinstance(error, InputError | ContradictionError):
        if terminal.is_verbose():
            terminal.errors.print_exception()
        terminal.complain(str(error))
        return 2 if isinstance(error, InputError) else 1
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):  # `radii … | head`
        _discard_output()
        return 0
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        terminal.complain(f"{error.strerror or error}{where}.")
        return 2
    sentence = _usage_sentence(error)
    if sentence is None:
        raise error
    if sentence:  # a command without its arguments has printed its help already
        terminal.complain(sentence)
    return 2


ELSEWHERE = {"diff": "compare", "rm": "delete", "remove": "delete", "ls": "list", "fit": "train", "test": "evaluate"}


def _unknown_command(name: str, known: Sequence[str]) -> InputError:
    """The sentence for a ``name`` that no command has, with the command that other programs call so."""
    meant = ELSEWHERE.get(name)
    if meant in known:
        return InputError(f"No command is called {name!r}. Did you mean {meant!r}? Known: {', '.join(known)}.")
    return unknown_name("command", name, known)


def _nearest_option(error: Any) -> str:
    """The option that was meant by a wrong one; empty if none is near."""
    wrong, possible = getattr(error, "option_name", ""), getattr(error, "possibilities", None) or ()
    near = get_close_matches(wrong, possible, n=1, cutoff=0.6)
    return f"No option is called {wrong}. Did you mean {near[0]}?" if near else ""


def _discard_output() -> None:
    """Nobody reads any more: what is left in the buffers goes nowhere, without a complaint at the end of Python."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(nowhere, stream.fileno())


def _usage_sentence(error: Exception) -> str | None:
    """What a user reads for a wrong option, a missing argument or too little memory; None for any other error."""
    if type(error).__module__.startswith(("click", "typer")):
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            print(message)
            return ""
        context: Any = getattr(error, "ctx", None)
        command = getattr(context, "command_path", "")
        if wrong := re.fullmatch(r"No such command '(.*)'\..*", message, re.DOTALL):
            return str(_unknown_command(wrong[1], context.command.list_commands(context)))
        if lacking := re.fullmatch(r"Missing (argument|option) '([^']*)'.*", message, re.DOTALL):
            from radii.cli.help_page import example

            return f"The {lacking[1]} {lacking[2]} is missing. For example: {example(command, lacking[2])}"
        return option_hint(command, getattr(error, "option_name", "")) or _nearest_option(error) or message
    if isinstance(error, MemoryError) or "allocate memory" in str(error):  # torch raises a RuntimeError
        return "There is not enough memory for this; choose a smaller model, width or batch size."
    return None


if __name__ == "__main__":
    run()
