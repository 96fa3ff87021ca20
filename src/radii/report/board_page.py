"""A leaderboard: a box for each contest, in which alone models can be compared."""

from __future__ import annotations

import shlex
from itertools import groupby

from radii.report.html import Bar, Bars, Commands, Prose, Report, Section
from radii.runs.standings import Board, Contest, Standing

APART = (
    "The boxes differ in attacks, proofs or points. Only models of one box can be compared: weaker attacks leave more "
    "points unbroken."
)


def page(board: Board, where: str) -> Report:
    """The board of the store ``where``: a section for each dataset and threat, a box for each effort."""
    sections = []
    for _, group in groupby(board.contests, key=lambda contest: contest.question):
        contests = list(group)
        blocks = tuple(_box(board, contest) for contest in contests)
        several = [board.contests[contest] for contest in contests if len(board.contests[contest]) > 1]
        commands = tuple(_compared(standings, where) for standings in several)
        below = (Commands(commands),) if commands else ()
        sections.append(Section(contests[0].title, (*blocks, *below), APART if len(contests) > 1 else ""))
    if board.unread:
        told = tuple(Prose(f"{run}: {reason}") for run, reason in board.unread.items())
        sections.append(Section("Runs that could not be read", told))
    count = sum(map(len, board.contests.values()))
    return Report(
        title=f"{count} evaluation{'s' if count != 1 else ''} of robustness",
        subtitle=f"All evaluations in {where}",
        verdict="Models are ordered by their proved share, then by the share that attacks left. Shares whose intervals "
        "overlap may be equal; radii compare tests a difference point by point.",
        sections=tuple(sections),
    )


def _box(board: Board, contest: Contest) -> Bars:
    bars = tuple(
        Bar(own.model, own.clean, own.robust, notes=(own.identity,), tried=own.certificate is not None)
        for own in board.contests[contest]
    )
    return Bars(contest.effort, bars, numbers=board.table(contest))


def _compared(standings: tuple[Standing, ...], where: str) -> str:
    """The command that compares the first two."""
    first, second = standings[0].run, standings[1].run
    return shlex.join(["radii", "compare", first, second, "--store", where, "--html", "compare.html"])
