"""Faults of disks and files: full, slow, a segment or a layer that is damaged or gone. See ``faults`` for the model."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import RekindleError
from rekindle.keeper.records import Segment
from rekindle.verify.faults import NotInjected, choose
from rekindle.verify.trial import Trial

DISK_SIZE = "768m"
FULL_S = 4.0
MET_S = 5.0
SLOW_S = 6.0
SLOW_MS = (40, 200)
NOTICED_S = 90.0
LAYER_S = 60.0
TRIES = 4
SHIM = Path(__file__).with_name("slow_disk.c")


# -- a full disk -------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own in memory, mounted below ``folder``. Raises NotInjected where that is not allowed."""
    place = folder / "disk"
    place.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotInjected(f"no small file system can be made: {error}") from None
    if done.returncode != 0:
        why = done.stderr.strip() or "mount failed"
        raise NotInjected(f"no small file system can be made ({why}); try it with: unshare -rm rekindle verify ...")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


def full_disk(trial: Trial, pick: float) -> str:
    disk = trial.root.parent
    filler = disk / "filler"
    fill(filler)
    since_s = time.time()
    try:
        trial.wait(FULL_S)
        fill(filler)  # what was given back meanwhile
        left = os.statvfs(disk).f_bavail
    finally:
        filler.unlink()
    if left >= 16:
        raise NotInjected(f"{left} blocks were free in the end")

    def met() -> set[str]:
        return {event.subject for event in trial.events("disk_full") if event.at_s > since_s - 1}

    trial.until(met, MET_S)  # it is told once there is room for telling
    return f"no byte was free for {FULL_S:g} s; met by {', '.join(sorted(met())) or 'nobody'}"


def fill(path: Path) -> None:
    """Write until nothing more fits."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 20, 4096):
            try:
                while True:
                    os.write(fd, b"\0" * size)
            except OSError:
                continue
    finally:
        os.close(fd)


# -- a slow disk -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """What makes the processes of a run slow to sync: a library that is loaded into them, and the file it obeys."""

    library: Path
    file: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "REKINDLE_SLOW_DISK": str(self.file)}

    def slow(self, trial: Trial, pick: float) -> str:
        low, high = SLOW_MS
        delay_ms = int(low + pick * (high - low))
        self.file.write_text(str(delay_ms))
        try:
            trial.wait(SLOW_S)
        finally:
            self.file.unlink()
        counted = Path(f"{self.file}.count")
        count = counted.stat().st_size if counted.exists() else 0
        counted.unlink(missing_ok=True)
        if not count:
            raise NotInjected("nothing was synced meanwhile")
        return f"each of {count} syncs took {delay_ms} ms longer"


def slow_disk(folder: Path) -> SlowDisk:
    """Compile the library. Raises NotInjected where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotInjected("there is no C compiler (cc or gcc) to build what delays fsync")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "slow_disk.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotInjected(f"what delays fsync cannot be built: {done.stderr.strip()[:200]}")
    return SlowDisk(library, folder / "slow")


# -- segments ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unread:
    """A segment that a fragment or a sink has still to read."""

    reader: str
    stream: str
    epoch: int
    segment: Segment


def corrupt_segment(trial: Trial, pick: float) -> str:
    return _hit_segment(trial, pick, flip_a_bit, "a bit flipped")


def missing_segment(trial: Trial, pick: float) -> str:
    return _hit_segment(trial, pick, Path.unlink, "gone")


def _hit_segment(trial: Trial, pick: float, hit: Callable[[Path], None], how: str) -> str:
    """All processes are ended first, so that what is damaged is surely read afterwards."""
    for attempt in range(TRIES):
        if trial.ended is not None:
            raise NotInjected("the run had come to its end")
        end_all(trial)
        found = unread(trial)
        if found:
            break
        trial.start()
        trial.wait(2.0 + attempt + pick)
    else:
        raise NotInjected("everything that was published had been read each time")
    victim = choose(found, pick, "segment")
    path = trial.home.inside(victim.segment.path)
    good = path.read_bytes()
    mtime = path.stat().st_mtime_ns
    since_s = time.time()
    hit(path)
    where = f"{how}: a segment of epoch {victim.epoch} of {victim.stream}"

    def noticed() -> bool:
        events = [e for e in trial.events("epoch_retried", "worker_failed") if e.at_s > since_s]
        return any("damaged" in str(e.detail.get("reason", "")) for e in events)

    try:
        trial.start()
        trial.until(lambda: noticed() or trial.ended is not None, NOTICED_S)
        happened = noticed()
        end_all(trial)
    finally:
        path.write_bytes(good)
        os.utime(path, ns=(mtime, mtime))
    trial.start()
    if not happened:
        raise NotInjected(f"{where}; {victim.reader} did not read it in time")
    return f"{where}; noticed, and put back"


def unread(trial: Trial) -> list[Unread]:
    """What is published and not yet taken in by the epochs of its readers that are published."""
    keeper = trial.keeper
    found: list[Unread] = []
    for record in keeper.streams().values():
        head = keeper.head(record.stream)
        claim = keeper.claim_of(record.fragment, head) if head else None
        for name in record.inputs:
            through = claim.spans[name].through if claim is not None and name in claim.spans else 0
            for epoch in keeper.epochs(name, after=through):
                found += [Unread(record.fragment, name, epoch.epoch, segment) for segment in epoch.output.segments]
    for sink, (stream, delivered) in keeper.deliveries().items():
        for epoch in keeper.epochs(stream, after=delivered):
            found += [Unread(sink, stream, epoch.epoch, segment) for segment in epoch.output.segments]
    return found


def end_all(trial: Trial) -> None:
    """SIGKILL of the supervisor and of every node."""
    if trial.ended is None:
        trial.kill_supervisor()
    trial.kill_nodes()


def flip_a_bit(path: Path) -> None:
    """One bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# -- layers ------------------------------------------------------------------------------------------


def corrupt_layer(trial: Trial, pick: float) -> str:
    return _hit_layer(trial, pick, flip=True)


def missing_layer(trial: Trial, pick: float) -> str:
    return _hit_layer(trial, pick, flip=False)


def _hit_layer(trial: Trial, pick: float, *, flip: bool) -> str:
    """The local checkpoints go as well, so that the layers are surely needed."""
    fragments: list[str] = []

    def stored() -> bool:
        names = sorted({record.fragment for record in trial.keeper.streams().values()})
        fragments[:] = [name for name in names if trial.keeper.safe_point(name) is not None]
        return bool(fragments)

    if not trial.until(lambda: stored() or trial.ended is not None, LAYER_S) or not fragments:
        raise NotInjected("no layer was stored: no stream keeps state and ships it, or nothing was shipped in time")
    if trial.ended is not None:
        raise NotInjected("the run had come to its end")
    fragment = choose(fragments, pick, "fragment with layers")
    end_all(trial)
    safe = trial.keeper.safe_point(fragment)
    objects = _objects(trial, fragment)
    if safe is None or not objects:
        trial.start()
        raise NotInjected(f"the layers of {fragment} are not in the home")
    newest = max(objects, key=lambda path: (path.stat().st_mtime_ns, path.name))
    gone = 0
    for replica in (trial.home.work / fragment).iterdir():
        if (replica / "checkpoint").is_dir():
            shutil.rmtree(replica)
            gone += 1
    if flip:
        flip_a_bit(newest)
    else:
        newest.unlink()
    since_s = time.time()
    trial.start()

    def joined() -> list[str]:
        events = [e for e in trial.events("fragment_joined") if e.subject == fragment and e.at_s > since_s]
        return [str(event.detail["how"]) for event in events]

    if not trial.until(lambda: joined() or trial.ended is not None, NOTICED_S) or not joined():
        raise RekindleError(f"{fragment!r} did not come back without its newest layer", detail=str(newest))
    what = "a bit flipped in" if flip else "gone:"
    where = f"{what} {newest.name} of {fragment} at epoch {safe.epoch}"
    return f"{where}, {gone} local checkpoints gone; back by {joined()[0]}"


def _objects(trial: Trial, fragment: str) -> list[Path]:
    """The objects of a fragment's layers in the home's own store."""
    store = trial.root / "backup"
    return [path for path in store.rglob("*") if path.is_file() and fragment in str(path.relative_to(store))]
