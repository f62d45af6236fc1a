"""A checkpoint as Spark writes it, without Spark: the same files in the same order, with made-up content."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path

from rekindle.keeper.records import EpochNumber
from rekindle.state import checkpoint


class PaperQuery:
    """Commits batches into a checkpoint. Every ``snapshot_every``-th version gets a snapshot with shared files."""

    def __init__(
        self,
        root: Path,
        *,
        partitions: int = 2,
        stores: tuple[str, ...] = ("",),
        sources: int = 1,
        snapshot_every: int = 4,
        sst_bytes: int = 300,
        seed: int = 1,
        base: int = 0,
    ) -> None:
        self.root, self.partitions, self.stores, self.sources = root, partitions, stores, sources
        self.snapshot_every, self.sst_bytes, self.base = snapshot_every, sst_bytes, base
        self.random = random.Random(seed)
        self.batch = -1
        self.shared: dict[Path, list[str]] = {}
        checkpoint.create(root, EpochNumber(base))

    @property
    def epoch(self) -> EpochNumber:
        return EpochNumber(self.base + self.batch + 1)

    def begin(self) -> None:
        """Everything of a batch but its commit."""
        batch = self.batch + 1
        if batch == 0:
            self.write("metadata", '{"id":"made up"}')
            self.write("state/0/_metadata/metadata", "v1\n{}")
            self.write("state/0/0/_metadata/schema", "v2\n{}")
        lines = "\n".join(['{"logOffset":%d}' % batch] * self.sources)  # noqa: UP031
        described = json.dumps({"conf": {"spark.sql.shuffle.partitions": str(self.partitions)}})
        self.write(f"offsets/{batch}", f"v1\n{described}\n{lines}")
        for source in range(self.sources):
            name = f"{batch}.compact" if batch % 10 == 9 else f"{batch}"
            self.write(f"sources/{source}/{name}", f'v1\n{{"batchId":{batch}}}')
        for partition in range(self.partitions):
            for store in self.stores:
                self.state(self.root / "state" / "0" / str(partition) / store, batch + 1)

    def commit(self) -> None:
        self.write(f"commits/{self.batch + 1}", 'v1\n{"nextBatchWatermarkMs":0}')
        self.batch += 1

    def run(self, batches: int) -> PaperQuery:
        for _ in range(batches):
            self.begin()
            self.commit()
        return self

    def state(self, folder: Path, version: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{version}.changelog").write_bytes(self.random.randbytes(self.random.randint(0, 90)))
        if version % self.snapshot_every == 0:
            self.snapshot(folder, version)

    def snapshot(self, folder: Path, version: int) -> None:
        held = self.shared.setdefault(folder, [])
        if len(held) > 2:
            held.pop(self.random.randrange(len(held)))
        held.append(f"{version:06d}-{self.random.getrandbits(32):08x}.sst")
        (folder / "SSTs").mkdir(exist_ok=True)
        (folder / "SSTs" / held[-1]).write_bytes(self.random.randbytes(self.sst_bytes))
        files = [{"localFileName": name[:6], "dfsSstFileName": name, "sizeBytes": self.sst_bytes} for name in held]
        with zipfile.ZipFile(folder / f".{version}.part", "w") as archive:
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": 1}))
        (folder / f".{version}.part").rename(folder / f"{version}.zip")

    def forget(self, before: int) -> None:
        """Remove versions as Spark's maintenance does: those before the newest snapshot up to ``before``."""
        for folder, held in self.shared.items():
            snapshots = sorted(int(f.stem) for f in folder.glob("*.zip"))
            oldest = max((s for s in snapshots if s <= before), default=0)
            for file in folder.iterdir():
                if file.is_file() and not file.name.startswith(".") and int(file.stem) < oldest:
                    file.unlink()
            if oldest == snapshots[-1]:
                for file in (folder / "SSTs").iterdir():
                    if file.name not in held:
                        file.unlink()

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by path."""
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
