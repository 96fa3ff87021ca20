"""Files are whole or absent: many writers, full disks, links, devices, pipes, modes and long names."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from radii import files
from radii.errors import InputError
from radii.files import check_writable, is_unfinished, whole_file, write_whole

SOURCE = Path(files.__file__).parent
WRITER = """
import sys
from pathlib import Path
from radii.files import write_whole
for turn in range(150):
    write_whole(Path(sys.argv[1]), sys.argv[2].encode() * (1 + turn % 3) * 50_000)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_writers_never_tear_a_file_and_never_fail(tmp_path: Path) -> None:
    target = tmp_path / "shared.json"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(target), letter]) for letter in "ab"]
    reads = torn = 0
    while any(writer.poll() is None for writer in writers):
        if target.exists():
            content = target.read_bytes()
            reads += 1
            torn += len(set(content)) != 1 or len(content) % 50_000 != 0
    assert [writer.wait() for writer in writers] == [0, 0]
    assert reads > 20
    assert torn == 0
    assert names(tmp_path) == ["shared.json"]


def test_threads_of_one_process_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "shared"
    contents = [bytes([letter]) * 100_000 for letter in b"abcdefgh"]
    threads = [threading.Thread(target=write_whole, args=(target, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() in contents
    assert names(tmp_path) == ["shared"]


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    target = tmp_path / "result.json"
    target.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill() -> None:
        with whole_file(target) as file:
            file.write(b"new")
            if failing == "write":
                full()

    if failing != "write":
        monkeypatch.setattr(os, failing, full)
    with pytest.raises(InputError, match=r"result\.json cannot be written: No space left"):
        fill()
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["result.json"]


def test_a_real_full_disk_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No space left"):
        write_whole(Path("/dev/full"), b"content")


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with whole_file(tmp_path / "a") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert names(tmp_path) == []


def test_the_mode_of_a_private_file_is_kept_and_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    private, new = tmp_path / "private", tmp_path / "new"
    private.write_bytes(b"")
    private.chmod(0o600)
    before = os.umask(0o027)
    try:
        write_whole(private, b"secret")
        write_whole(new, b"public")
    finally:
        os.umask(before)
    assert private.stat().st_mode & 0o777 == 0o600
    assert new.stat().st_mode & 0o777 == 0o640


def test_a_link_is_followed_to_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link, dangling = tmp_path / "real" / "file", tmp_path / "link", tmp_path / "dangling"
    target.write_bytes(b"old")
    link.symlink_to(Path("real") / "file")
    dangling.symlink_to(tmp_path / "real" / "later")
    write_whole(link, b"new")
    write_whole(dangling, b"first")
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert target.read_bytes() == b"new"
    assert (tmp_path / "real" / "later").read_bytes() == b"first"


def test_a_planted_link_of_the_old_temporary_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".result.json.part").symlink_to(victim)
    write_whole(tmp_path / "result.json", b"{}")
    assert victim.read_bytes() == b"precious"


def test_devices_and_pipes_are_written_through(tmp_path: Path) -> None:
    write_whole(Path("/dev/null"), b"gone")
    assert Path("/dev/null").is_char_device()
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    write_whole(link, b"gone")
    assert link.is_symlink()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"through")
    reader.join()
    assert heard == [b"through"]
    assert pipe.is_fifo()


def test_standard_output_is_written_through_wherever_it_leads(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; import radii.files; print('before', flush=True); "
        "radii.files.write_whole(Path('/dev/stdout'), b'written\\n'); print('after')"
    )
    with (tmp_path / "out").open("ab") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    piped = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert (tmp_path / "out").read_text() == piped.stdout.decode() == "before\nwritten\nafter\n"


@pytest.mark.parametrize("name", ["n" * 250, "é" * 125, "n" * 255])
def test_long_names_work(tmp_path: Path, name: str) -> None:
    write_whole(tmp_path / name, b"content")
    assert (tmp_path / name).read_bytes() == b"content"


def test_names_that_are_not_utf8_work(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.json"))
    write_whole(path, b"content")
    assert path.read_bytes() == b"content"


def test_places_that_cannot_be_written_are_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for bad in (tmp_path, tmp_path / "file" / "below"):
        with pytest.raises(InputError):
            check_writable(bad)
        with pytest.raises(InputError):
            write_whole(bad, b"")
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(Path("/proc/nothing"), b"")
    check_writable(Path("/dev/null"))
    check_writable(tmp_path / "later" / "deep" / "file")


def test_what_a_kill_leaves_can_be_told(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from radii.files import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as file:\n    file.write(b'half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], check=False)
    left = list(tmp_path.iterdir())
    assert len(left) == 1
    assert is_unfinished(left[0])


def test_no_other_module_writes_a_file_aside(tmp_path: Path) -> None:
    """One atomic writer: whoever renames a file by hand is told here. Whole folders are renamed by their owners."""
    folders = {"data/cache.py", "data/hub.py", "runs/store.py", "runs/executors/_remote.py"}
    for path in SOURCE.rglob("*.py"):
        text, name = path.read_text(), path.relative_to(SOURCE).as_posix()
        if name == "files.py" or name in folders:
            continue
        for sign in ("os.replace(", "os.rename(", "aside.replace(", ".write_bytes(", ".write_text("):
            assert sign not in text, f"{name} writes files by itself: {sign}"
