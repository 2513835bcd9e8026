from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.embedded.node.log_files import LineReader, find_since, find_tail, log_files, read_last_output
from muster.embedded.node.logs import DEFAULT_CONTAINER_LINK, Logs
from muster.embedded.node.supervisor.journal_and_logs import LogWriter
from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest, NotFound


def line(text: str, second: float = 0.0, tag: str = "F", stream: str = "stdout") -> bytes:
    moment = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
    return f"{moment} {stream} {tag} {text}\n".encode()


def write(folder: Path, name: str, *lines: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return path


async def collect(stream: AsyncIterator[bytes]) -> str:
    return b"".join([piece async for piece in stream]).decode()


class Container:
    """A container's log folder, read as `kubectl logs` would."""

    def __init__(self, root: Path) -> None:
        self.logs = Logs(str(root))
        self.folder = Path(self.logs.folder("team", "p", "uid"))
        self.place = self.folder / "main"
        self.over = True
        self.news = asyncio.Event()

    def open(self, query: LogQuery) -> AsyncIterator[bytes]:
        attempt = self.logs.last_attempt(str(self.folder), "main")
        return self.logs.read(str(self.place), attempt, query, lambda: self.over, self.news)

    async def read(self, query: LogQuery) -> str:
        return await collect(self.open(query))

    def end(self) -> None:
        self.over = True
        self.news.set()


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


NUMBERED = [line(f"n{i}", float(i)) for i in range(10)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (LogQuery(), "".join(f"n{i}\n" for i in range(10))),
        (LogQuery(tail_lines=2), "n8\nn9\n"),
        (LogQuery(tail_lines=0), ""),
        (LogQuery(tail_lines=100), "".join(f"n{i}\n" for i in range(10))),
        (LogQuery(limit_bytes=4), "n0\nn"),
        (LogQuery(limit_bytes=0), ""),
        (LogQuery(tail_lines=1, timestamps=True), "1970-01-01T00:00:09.000000000Z n9\n"),
    ],
)
async def test_queries(container: Container, query: LogQuery, expected: str) -> None:
    write(container.place, "0.log", *NUMBERED)
    assert await container.read(query) == expected


async def test_a_long_line_is_put_together(container: Container) -> None:
    write(
        container.place,
        "0.log",
        line("a"),
        line("be", tag="P"),
        line("gin", tag="P"),
        line(" end"),
        line("no end", tag="P"),
    )
    assert await container.read(LogQuery()) == "a\nbegin end\nno end"
    assert await container.read(LogQuery(tail_lines=1)) == "no end"
    assert await container.read(LogQuery(tail_lines=2)) == "begin end\nno end"
    stamped = await container.read(LogQuery(tail_lines=2, timestamps=True))
    assert stamped.count("1970-01-01") == 2


async def test_files_that_were_set_aside_belong_to_it(container: Container) -> None:
    write(container.place, "0.log.2", *NUMBERED[:3])
    write(container.place, "0.log.1", *NUMBERED[3:6])
    write(container.place, "0.log", *NUMBERED[6:])
    assert await container.read(LogQuery()) == "".join(f"n{i}\n" for i in range(10))
    assert await container.read(LogQuery(tail_lines=5)) == "".join(f"n{i}\n" for i in range(5, 10))


async def test_attempts(container: Container) -> None:
    assert container.logs.last_attempt(str(container.folder), "main") == -1
    for attempt in (0, 2, 10):
        write(container.place, f"{attempt}.log", line(f"attempt {attempt}"))
    assert await container.read(LogQuery()) == "attempt 10\n"
    for attempt, expected in ((2, "attempt 2\n"), (1, "")):
        stream = container.logs.read(str(container.place), attempt, LogQuery(), lambda: True, container.news)
        assert await collect(stream) == expected


async def test_since(container: Container) -> None:
    now = time.time()
    write(container.place, "0.log.1", *(line(f"old {i}", now - 100 + i) for i in range(50)))
    write(container.place, "0.log", *(line(f"new {i}", now - 40 + i) for i in range(30)))
    assert await container.read(LogQuery(since_seconds=15)) == "".join(f"new {i}\n" for i in range(26, 30))
    assert await container.read(LogQuery(since_seconds=15, tail_lines=1)) == "new 29\n"
    assert await container.read(LogQuery(since_seconds=5, tail_lines=20)) == ""
    assert len((await container.read(LogQuery(since_seconds=1000))).splitlines()) == 80


def brute_tail(folder: Path, count: int) -> bytes:
    texts = b"".join(Path(f.path).read_bytes() for f in log_files(str(folder)))
    whole = LineReader(timestamps=False).feed(texts).splitlines(keepends=True)
    return b"".join(whole[len(whole) - count :]) if count else b""


@pytest.mark.parametrize("count", [0, 1, 2, 7, 999, 1000, 1500, 5000, 9999])
def test_the_tail_is_found_from_the_end_across_blocks(tmp_path: Path, count: int) -> None:
    lines = [line(f"{i} " + "x" * (i * 37 % 400), tag="P" if i % 11 == 5 else "F") for i in range(4000)]
    write(tmp_path, "0.log.1", *lines[:1500])
    write(tmp_path, "0.log", *lines[1500:])
    files = log_files(str(tmp_path))
    start = find_tail(files, count)
    rest = Path(files[start.file].path).read_bytes()[start.offset :]
    rest += b"".join(Path(f.path).read_bytes() for f in files[start.file + 1 :])
    assert LineReader(timestamps=False).feed(rest) == brute_tail(tmp_path, min(count, 4000 - 4000 // 11 - 1))


@pytest.mark.parametrize("second", [-5.0, 0.0, 0.5, 17.0, 17.25, 998.9, 999.0, 2000.0])
def test_a_time_is_found_by_binary_search(tmp_path: Path, second: float) -> None:
    write(tmp_path, "0.log", *(line("x" * (i % 300), float(i)) for i in range(1000)))
    files = log_files(str(tmp_path))
    start = find_since(files, second)
    rest = Path(files[0].path).read_bytes()[start.offset :]
    assert rest.count(b"\n") == sum(1 for i in range(1000) if i >= second)


async def test_the_tail_of_a_large_log_reads_little(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    container.place.mkdir(parents=True)
    block = line("y" * 1000) * 1000
    with (container.place / "0.log").open("wb") as file:
        for _ in range(100):
            file.write(block)
    read = 0
    real: Callable[[int, int, int], bytes] = os.pread

    def counting(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read
        data = real(descriptor, size, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    assert len((await container.read(LogQuery(tail_lines=3))).splitlines()) == 3
    assert read < 200_000


async def test_follow_ends_with_the_container_and_loses_nothing(container: Container) -> None:
    container.over = False
    write(container.place, "0.log", line("before"))
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def follow() -> None:
        async for piece in container.open(LogQuery(follow=True)):
            pieces.put_nowait(piece)

    task = asyncio.create_task(follow())
    assert await pieces.get() == b"before\n"
    write(container.place, "0.log", line("during"))
    assert await pieces.get() == b"during\n"
    write(container.place, "0.log", line("last"))
    container.end()
    await task
    assert pieces.get_nowait() == b"last\n"


async def test_follow_goes_over_to_the_next_file(container: Container) -> None:
    container.over = False
    current = write(container.place, "0.log", line("one"))
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def follow() -> None:
        async for piece in container.open(LogQuery(follow=True)):
            pieces.put_nowait(piece)

    task = asyncio.create_task(follow())
    assert await pieces.get() == b"one\n"
    # Twice in a row, before the follower can read.
    write(container.place, "0.log", line("two"))
    current.rename(container.place / "0.log.1")
    write(container.place, "0.log", line("three"))
    (container.place / "0.log.1").rename(container.place / "0.log.2")
    current.rename(container.place / "0.log.1")
    write(container.place, "0.log", line("four"))
    assert [await pieces.get() for _ in range(3)] == [b"two\n", b"three\n", b"four\n"]
    container.end()
    await task


async def test_follow_misses_no_file_whatever_is_dropped_meanwhile(container: Container) -> None:
    """File systems reuse the inode of a removed file for the next one."""
    container.over = False
    container.place.mkdir(parents=True)
    log = LogWriter(str(container.place), 0, max_bytes=200, files=2)
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def follow() -> None:
        async for piece in container.open(LogQuery(follow=True)):
            pieces.put_nowait(piece)

    log.write(line("0"))
    task = asyncio.create_task(follow())
    assert await pieces.get() == b"0\n"
    for number in range(1, 60):
        log.write(line(str(number)))
        assert await pieces.get() == f"{number}\n".encode()
    log.close()
    container.end()
    await task


GAP = "[430 bytes of this log were dropped here: only the last 3 x 215 bytes are kept]"


def write_numbers(container: Container, first: int, last: int) -> LogWriter:
    """Lines of 43 bytes with their time, five in a file, three files."""
    container.place.mkdir(parents=True, exist_ok=True)
    log = LogWriter(str(container.place), 0, max_bytes=215, files=3)
    for number in range(first, last):
        log.write(line(f"{number:02}", float(number)))
    return log


@pytest.mark.parametrize(
    ("query", "first"),
    [
        (LogQuery(), GAP),
        (
            LogQuery(tail_lines=100),
            GAP,
        ),
        (LogQuery(timestamps=True, limit_bytes=41), "1970-01-01T00:00:10.000000000Z [430 bytes"),
        (LogQuery(tail_lines=14), "11"),
        (LogQuery(tail_lines=3), "22"),
    ],
)
async def test_a_reader_is_told_what_was_dropped(container: Container, query: LogQuery, first: str) -> None:
    write_numbers(container, 0, 25).close()
    assert (await container.read(query)).splitlines()[0] == first


async def test_a_slow_follower_is_told_what_was_dropped(container: Container) -> None:
    container.over = False
    log = write_numbers(container, 0, 2)
    stream = container.open(LogQuery(follow=True))
    assert await anext(stream) == b"00\n01\n"
    for number in range(2, 30):
        log.write(line(f"{number:02}", float(number)))
    log.close()
    container.end()
    rest = (await collect(stream)).splitlines()
    assert rest == ["02", "03", "04", GAP, *(f"{number:02}" for number in range(15, 30))]


async def test_follow_waits_for_the_first_line(container: Container) -> None:
    container.over = False
    stream = container.logs.read(str(container.place), 0, LogQuery(follow=True), lambda: container.over, container.news)
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    write(container.place, "0.log", line("at last"))
    assert await first == b"at last\n"
    container.end()
    assert [piece async for piece in stream] == []


async def test_several_may_follow_and_one_may_leave(container: Container) -> None:
    container.over = False
    write(container.place, "0.log", line("x"))
    other = Container(Path(container.folder).parents[2])
    other.logs = container.logs
    other.over = False
    first, second = container.open(LogQuery(follow=True)), other.open(LogQuery(follow=True))
    assert await anext(first) == await anext(second) == b"x\n"
    waiting = asyncio.ensure_future(anext(first))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    write(container.place, "0.log", line("y"))
    assert await anext(second) == b"y\n"
    other.end()
    assert [piece async for piece in second] == []


async def test_which_container(tmp_path: Path) -> None:
    logs = Logs(str(tmp_path))
    folder = Path(logs.folder("team", "p", "uid"))
    (folder / "main").mkdir(parents=True)
    assert logs.container(str(folder), "p", "") == "main"
    with pytest.raises(BadRequest, match=r"container nope is not valid for pod p, choose one of: \[main\]"):
        logs.container(str(folder), "p", "nope")
    (folder / "init").mkdir()
    with pytest.raises(BadRequest, match=r"a container name must be specified for pod p, choose one of: \[init main\]"):
        logs.container(str(folder), "p", "")
    (folder / DEFAULT_CONTAINER_LINK).symlink_to("main")
    assert logs.container(str(folder), "p", "") == "main"
    assert logs.container(str(folder), "p", "init") == "init"


async def test_of_several_pods_of_a_name_the_latest_counts(tmp_path: Path) -> None:
    logs = Logs(str(tmp_path))
    with pytest.raises(NotFound):
        logs.newest("team", "p")
    for age, uid in enumerate(("new", "old")):
        folder = Path(logs.folder("team", "p", uid))
        folder.mkdir(parents=True)
        os.utime(folder, (1000 - age, 1000 - age))
    assert logs.newest("team", "p") == logs.folder("team", "p", "new")


@pytest.mark.parametrize(
    ("limit", "expected"), [(100, "one\ntwo, no end"), (11, "two, no end"), (5, "o end"), (12, "\ntwo, no end")]
)
def test_the_end_of_one_stream(tmp_path: Path, limit: int, expected: str) -> None:
    write(tmp_path, "0.log", line("an earlier attempt"))
    write(tmp_path, "1.log.1", line("one"), line("of the other", stream="stderr"))
    write(tmp_path, "1.log", line("two, ", tag="P"), line("again", stream="stderr"), line("no end", tag="P"))
    assert read_last_output(str(tmp_path), limit).decode() == expected
    assert read_last_output(str(tmp_path), 100, "stderr") == b"of the other\nagain\n"


def test_an_attempt_without_output_has_no_file(tmp_path: Path) -> None:
    assert read_last_output(str(tmp_path / "none"), 10) == b""
