"""The determinism check: every deterministic fragment is computed twice, in ways that must make no difference.

Once here, as it is; once in another process, with another PYTHONHASHSEED, another number of shuffle partitions, and its
input rows in another order and other files. Both start from an empty state. Where the outputs differ, the fragment's
operators are computed one by one, up to each, until the first that differs is found; and in what way it must be
computed for that.

Not found: what differs only from one day, one host or one version of a package to the next.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from rekindle.errors import RekindleError
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.ledger import Ledger
from rekindle.node.bench import Bench
from rekindle.node.variants import Computed, Variant
from rekindle.plan import Fragment
from rekindle.streams.differences import differing
from rekindle.verify.audit import Tell, Wish, check_wish, scratch_of
from rekindle.verify.code import Code
from rekindle.verify.findings import NOTE, WRONG, Finding, Report
from rekindle.verify.other import Other, computed, works_of
from rekindle.verify.reach import reach_of

DETERMINISM = "determinism"
EPOCHS = 20
APART_S = 1.1  # between two computations that are compared: a clock in whole seconds has moved on

EACH_TIME = "each time that it is computed: there is a clock, a random number or a call to something else in it"
PROCESS = "in another process: it depends on the order of a set or on hash(), which PYTHONHASHSEED changes"
PARTITIONS = "with another number of partitions: it depends on which rows a task gets"
ORDER = "when its input rows come in another order: sort by rk.position() or by a key that tells rows apart"
TOGETHER = "when partitions, order of rows and process change together"


def check_determinism(
    code: Code,
    home: Home,
    keeper: Keeper,
    *,
    keeper_url: str | None = None,
    wish: Wish | None = None,
    cores: int = 2,
    seed: int = 1,
    tell: Tell = lambda what, done, total: None,
) -> Report:
    """Compute published epochs of ``home`` again, in two ways, and compare them with each other.

    ``code.bench`` is what is computed on here. ``wish`` are the streams and epochs, the newest ``EPOCHS`` of each
    unless given. ``keeper`` may be read-only.
    """
    ledger = keeper.ledger()
    check_wish(ledger, wish or Wish())
    with (
        scratch_of(home) as scratch,
        Other(code.file, home, keeper_url, cores, seed, scratch / "other") as other,
        code.bench(ledger, scratch) as here,
    ):
        return _Check(here, other, ledger, keeper, scratch, wish or Wish(last=EPOCHS), cores, seed, tell).run()


class _Check:
    def __init__(
        self,
        bench: Bench,
        other: Other,
        ledger: Ledger,
        keeper: Keeper,
        scratch: Path,
        wish: Wish,
        cores: int,
        seed: int,
        tell: Tell,
    ) -> None:
        self._bench = bench
        self._other = other
        self._ledger = ledger
        self._keeper = keeper
        self._scratch = scratch
        self._wish = wish
        self._plain = Variant(cores)
        self._partitions = Variant(2 * cores + 1)
        self._twisted = Variant(2 * cores + 1, seed)
        self._tell = tell
        self._folders = 0
        self._computed_s = time.monotonic()

    def run(self) -> Report:
        report = Report()
        first: dict[str, tuple[Fragment, list[int], Computed]] = {}
        wanted = [f for f in self._bench.analysis.fragments if self._wish.wants(f.name)]
        for number, fragment in enumerate(wanted):
            self._tell("computing here", number, len(wanted))
            if not fragment.deterministic:
                report.add(DETERMINISM, fragment.name, 0, "epochs", remark="logged, not deterministic: not checked")
                continue
            epochs, why = self._epochs(fragment)
            if epochs:
                first[fragment.name] = (fragment, epochs, self._here(fragment, fragment.name, epochs))
            else:
                what = f"fragment {fragment.name!r} has no epoch that can be computed again"
                hint = "run it on some input first; what was trimmed cannot be checked"
                note = Finding(NOTE, DETERMINISM, fragment.name, 0, what, why or "none is published", hint)
                report.add(DETERMINISM, fragment.name, 0, "epochs", [note])
        for number, (name, (fragment, epochs, one)) in enumerate(first.items()):
            self._tell("computing in another process", number, len(first))
            report.add(DETERMINISM, name, len(epochs), "epochs", self._compare(fragment, epochs, one))
        self._tell("computing in another process", len(first), len(first))
        return report

    def _epochs(self, fragment: Fragment) -> tuple[list[int], str]:
        """The newest of the wanted epochs that follow on each other."""
        reach = reach_of(self._ledger, fragment.name, self._wish.of(self._ledger, fragment.name), stateful=False)
        return ([int(s.claim.epoch) for s in reach.stretches[-1].steps] if reach.stretches else []), reach.why

    # -- computing -------------------------------------------------------------------------------------

    def _here(self, fragment: Fragment, operator: str, epochs: list[int]) -> Computed:
        found = computed(self._bench, self._keeper, fragment, operator, epochs, self._plain, self._folder())
        self._computed_s = time.monotonic()
        return found

    def _there(self, fragment: Fragment, operator: str, epochs: list[int], variant: Variant) -> Computed:
        self._wait()
        return self._other.compute(fragment.name, operator, epochs, variant, self._folder())

    def _wait(self) -> None:
        time.sleep(max(0.0, self._computed_s + APART_S - time.monotonic()))

    def _folder(self) -> Path:
        self._folders += 1
        return self._scratch / f"computed-{self._folders}"

    # -- comparing -------------------------------------------------------------------------------------

    def _compare(self, fragment: Fragment, epochs: list[int], one: Computed) -> list[Finding]:
        name = fragment.name
        two = self._there(fragment, name, epochs, self._twisted)
        if one.error or two.error:
            gone = self._gone(fragment, epochs)
            if gone or (one.error and two.error):
                what = f"fragment {name!r} cannot be computed again: {(one.error or two.error).splitlines()[0]}"
                hint = "check again, with fewer epochs: --last" if gone else "correct the operator"
                return [Finding(NOTE if gone else WRONG, DETERMINISM, name, epochs[0], what, one.error or gone, hint)]
        if not _differs(one, two):
            self._forget(one, two)
            return []
        for operator in fragment.operators[:-1]:
            self._tell(f"{name}: up to {operator.name}", 0, 1)
            here = self._here(fragment, operator.name, epochs)
            there = self._there(fragment, operator.name, epochs, self._twisted)
            if _differs(here, there):
                return [self._finding(fragment, operator.name, epochs, here, there)]
            self._forget(here, there)
        return [self._finding(fragment, name, epochs, one, two)]

    def _gone(self, fragment: Fragment, epochs: list[int]) -> str:
        """Why these epochs are out of reach by now, empty if they are not."""
        try:
            works_of(self._keeper, fragment.name, epochs)
        except RekindleError as error:
            return str(error)
        return ""

    def _finding(self, fragment: Fragment, operator: str, epochs: list[int], one: Computed, two: Computed) -> Finding:
        place = next(o.place for o in fragment.operators if o.name == operator)
        within = "" if operator == fragment.name else f" (it is computed in fragment {fragment.name!r})"
        why = self._why(fragment, operator, epochs, one)
        if one.error or two.error:
            where = f"{place}: {(one.error or two.error)}"
            what = f"operator {operator!r} fails in one of two replays of the same epochs{within}"
            return Finding(WRONG, DETERMINISM, operator, epochs[0], what, where, f"it fails {why}")
        if one.schema != two.schema:
            what = f"operator {operator!r} has other columns in another process{within}"
            where = f"{place}: {one.schema} and {two.schema}"
            return Finding(WRONG, DETERMINISM, operator, epochs[0], what, where, f"it differs {why}")
        epoch = next(e for e in epochs if one.digests.get(e) != two.digests.get(e))
        rows = differing(
            self._bench.spark,
            self._bench.analysis.schemas[operator],
            [Path(file) for file in one.files[epoch]],
            [Path(file) for file in two.files[epoch]],
        )
        what = (
            f"operator {operator!r} is not deterministic{within}: of epoch {epoch}, {rows.only_expected} rows of one "
            f"replay and {rows.only_found} of the other differ"
        )
        return Finding(
            WRONG, DETERMINISM, operator, epoch, what, str(place), f"it differs {why}", rows.expected, rows.found
        )

    def _why(self, fragment: Fragment, operator: str, epochs: list[int], one: Computed) -> str:
        """What must change for the output to change: the least of it that was tried."""
        self._tell(f"{operator}: what it depends on", 0, 1)
        self._wait()
        if _differs(one, self._here(fragment, operator, epochs)):
            return EACH_TIME
        if _differs(one, self._there(fragment, operator, epochs, self._plain)):
            return PROCESS
        if _differs(one, self._there(fragment, operator, epochs, self._partitions)):
            return PARTITIONS
        shuffled = Variant(self._plain.partitions, self._twisted.shuffle)
        if _differs(one, self._there(fragment, operator, epochs, shuffled)):
            return ORDER
        return TOGETHER

    def _forget(self, *over: Computed) -> None:
        for folder in {Path(file).parent for one in over for files in one.files.values() for file in files}:
            shutil.rmtree(folder, ignore_errors=True)


def _differs(one: Computed, two: Computed) -> bool:
    return bool(one.error) != bool(two.error) or one.schema != two.schema or dict(one.digests) != dict(two.digests)
