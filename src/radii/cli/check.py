"""``radii check``: verify a proof that ``radii verify --proof`` wrote, by an independent checker."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from radii.cli import terminal
from radii.cli.options import Json


def check(
    proof: Annotated[Path, typer.Argument(help="A file that `radii verify --proof` wrote.")],
    network: Annotated[Path | None, typer.Option(help="The ONNX file that must be the proof's.")] = None,
    query: Annotated[Path | None, typer.Option("--property", help="The VNN-LIB file that must be the proof's.")] = None,
    json: Json = None,
) -> None:
    """Check a proof of `unsat` with independent code.

    Exit code 0: the proof holds. 1: it is rejected.
    """
    from radii import progress
    from radii.untrusted_text import check_file

    for file in (proof, network, query):
        if file is not None:
            check_file(file)
    from radii.verification.checker.plain_network import ProofError
    from radii.verification.proof import check_proof
    from radii.verification.vnnlib import read_text

    wanted = None if network is None else network.read_bytes()
    text = None if query is None else read_text(query)
    reason = ""
    leaves, inside = 0, ""
    try:
        with terminal.progress_shown(), progress.task("checking", None, "leaves") as bar:
            leaves, arrays = check_proof(proof, bar.advance)
        inside = sha256(arrays["network"].tobytes()).hexdigest()
        if wanted is not None and sha256(wanted).hexdigest() != inside:
            raise ProofError(f"{proof} is about another network than {network}.")
        if text is not None and text.encode() != arrays["property"].tobytes():
            raise ProofError(f"{proof} is about another property than {query}.")
    except ProofError as error:
        reason = str(error)
    console = terminal.show(json)
    if reason:
        console.print(f"rejected: {reason}", soft_wrap=True)
    else:
        console.print(f"holds: {leaves:,} leaves checked, for the network with sha256 {inside}.", soft_wrap=True)
    terminal.write_json(
        {"proof": str(proof), "holds": not reason, "leaves": leaves, "network": inside, "why": reason}, json
    )
    if reason:
        raise typer.Exit(1)
