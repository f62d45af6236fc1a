"""The whole of a verification: an undisturbed run, runs with faults that make the same claims, and the comparison."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from rekindle.errors import DeclarationError, FragmentFailed, RekindleError
from rekindle.guarantees import guarantees, sink_guarantees
from rekindle.java import check_java
from rekindle.keeper.records import REJECTED_SUFFIX, Span
from rekindle.load import load_pipeline
from rekindle.node.prescribed import Prescribed
from rekindle.plan import check
from rekindle.recovery.policy import PRECISE
from rekindle.verify import compare
from rekindle.verify.classify import DIVERGENT, Finding
from rekindle.verify.faults import Fault, Injected
from rekindle.verify.findings import Finding as Unequal
from rekindle.verify.inject import Action, inject, plan_steps
from rekindle.verify.redirect import Binding, copy_input, has_end, is_read_once
from rekindle.verify.report import Course, Output, Report, RunReport
from rekindle.verify.schedule import schedule
from rekindle.verify.surroundings import Surroundings
from rekindle.verify.trace import longest_pause
from rekindle.verify.trial import Trial

UNDISTURBED = "undisturbed"
CONTROL = "undisturbed again"
STUCK_S = 180.0
LATE_S = 15.0
LONG_S = 120.0  # how much longer a source may take that comes to an end by itself


class View(Protocol):
    def say(self, text: str) -> None:
        """One remark, which stays."""

    def progress(self, doing: str, done: float) -> None:
        """How far the run in hand is, from 0 to 1. Called often."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be verified, and how. ``folder`` is scratch, and empty. ``determinism`` asks for the determinism check
    on what the undisturbed run published."""

    file: Path
    folder: Path
    kinds: tuple[str, ...]
    runs: int = 3
    per_run: int = 2
    seed: int = 0
    source_s: float = 10.0
    rows_max: int | None = None
    given: Path | None = None
    real_sinks: bool = False
    apart: bool = False
    cores: int | None = None
    postgres: bool = False
    determinism: bool = False


@dataclass(frozen=True, slots=True)
class Tried:
    """A run that is over, not judged yet."""

    number: int
    started_s: float
    seconds: float
    faults: tuple[Injected, ...]
    outcome: compare.Outcome
    failure: str


def verify(request: Request, view: View, so_far: Callable[[Report], None] = lambda report: None) -> Report:
    """Run everything, and judge; ``so_far`` is given what it has come to after each run. Raises RekindleError if the
    pipeline does not even run undisturbed."""
    return Experiment(request, view).run(so_far)


class Experiment:
    def __init__(self, request: Request, view: View) -> None:
        self._request = request
        self._view = view
        self._pipeline = load_pipeline(request.file)
        check(self._pipeline)
        check_java()
        self._binding = Binding(
            file=str(request.file.absolute()),
            sinks="",
            inputs=copy_input(self._pipeline, request.folder / "input", request.given),
            rows_max=request.rows_max,
            real_sinks=request.real_sinks,
        )
        self._behind_gaps = compare.behind_gaps(self._pipeline)
        self._over, self._long_over = request.folder / "over", request.folder / "long-over"
        sources = {name: declaration.source for name, declaration in self._pipeline.sources.items()}
        ends = {
            name: self._long_over if has_end(source, self._binding) else self._over for name, source in sources.items()
        }
        self._claims = Prescribed(over={name: str(file) for name, file in ends.items()})
        self._heads: dict[str, int] = {}
        self._doing = ""
        self._nondeterminism: tuple[str, ...] = ()

    def run(self, so_far: Callable[[Report], None]) -> Report:
        request = self._request
        planned = schedule(request.seed, request.runs, request.kinds, per_run=request.per_run, apart=request.apart)
        with ExitStack() as stack:
            around = stack.enter_context(
                Surroundings(request.folder, postgres=request.postgres, lease_s=self._pipeline.settings.lease_s)
            )
            right = self._undisturbed(around)
            tried: list[Tried] = []
            for number, faults in enumerate(planned, start=1):
                tried.append(self._faulted(number, faults, around))
                report = self._judged(right, tried, ())
                self._tell(report.runs[-1])
                so_far(report)
            report = self._judged(right, tried, ())
            if any(finding.rollback == DIVERGENT for run in report.runs for finding in run.findings.values()):
                report = self._judged(right, tried, self._unrepeatable(right, around))
                so_far(report)
        return report

    def _judged(self, right: Tried, tried: Sequence[Tried], unrepeatable: tuple[str, ...]) -> Report:
        outputs = self._outputs(right.outcome)
        return Report(
            pipeline=self._pipeline.name,
            file=str(self._request.file),
            seed=self._request.seed,
            outputs=outputs,
            undisturbed=self._report(right, {}),
            runs=tuple(self._report(one, self._findings(outputs, right, one, unrepeatable)) for one in tried),
            unrepeatable=unrepeatable,
            nondeterminism=self._nondeterminism,
        )

    # -- the runs ------------------------------------------------------------------------------------

    def _undisturbed(self, around: Surroundings) -> Tried:
        tried, claims = self._play(0, UNDISTURBED, (), around)
        if tried.failure:
            raise FragmentFailed("the pipeline does not run undisturbed", detail=tried.failure)
        if not any(epoch.output.rows for epochs in tried.outcome.epochs.values() for epoch in epochs):
            raise RekindleError(
                "nothing came out of the undisturbed run",
                hint="is there input? --input DIR gives files to a source, --for TIME lets generators run for longer",
            )
        self._heads = {s: len(epochs) for s, epochs in tried.outcome.epochs.items()}
        self._claims = Prescribed(claims=claims)
        self._binding = replace(self._binding, brought=self._brought(tried.outcome))
        return tried

    def _faulted(self, number: int, faults: list[Fault], around: Surroundings) -> Tried:
        return self._play(number, f"run {number} of {self._request.runs}", faults, around)[0]

    def _unrepeatable(self, right: Tried, around: Surroundings) -> tuple[str, ...]:
        """The outputs that differ in a second undisturbed run: what they should be is not known."""
        self._view.say("some output differs from that of the undisturbed run: does it without any fault?")
        again = self._play(0, CONTROL, (), around)[0]
        findings = self._findings(self._outputs(right.outcome), right, again, ())
        return tuple(name for name, finding in findings.items() if finding.rollback == DIVERGENT)

    def _play(
        self, number: int, name: str, faults: tuple[Fault, ...] | list[Fault], around: Surroundings
    ) -> tuple[Tried, dict[str, list[dict[str, Span]]]]:
        """One run from its start to its end, and its claims."""
        folder = self._request.folder / name.replace(" ", "-")
        binding = replace(self._binding, sinks=str(folder / "sinks"))
        sinks = {name: self._heads.get(sink.stream, 0) for name, sink in self._pipeline.sinks.items()}
        steps = plan_steps(faults, self._heads, sinks)
        folder.mkdir(parents=True, exist_ok=True)
        started_s, self._doing = time.time(), name
        with around.prepared(folder, {fault.kind for fault in faults}) as ready:
            trial = Trial(
                folder,
                binding.write(folder),
                home=ready.home,
                place=ready.place,
                cores=self._request.cores,
                claims=self._claims,
                steps=tuple(steps),
                environment=ready.environment,
                rest=lambda: self._view.progress(self._doing, self._done(trial)),
            )
            with trial:
                trial.start()
                injected, failure = self._look_on(trial, [f for f in faults if f.kind != "step"], ready.known)
                injected += [_reached(trial, item, fault, started_s) for item, fault in steps.items()]
                outcome = compare.outcome(trial.home, trial.keeper, trial.witnessed(), self._pipeline, folder / "sinks")
                if self._request.determinism and not self._heads and not failure:
                    self._nondeterminism = self._check_determinism(trial)
                claims = compare.scripted(self._pipeline, trial.keeper, but=self._behind_gaps)
        if ready.home is not None:  # what was on the small disk was kept
            outcome = replace(outcome, home=replace(outcome.home, root=folder / "home"))
        injected.sort(key=lambda one: one.since_s)
        return Tried(number, started_s, time.time() - started_s, tuple(injected), outcome, failure), claims

    def _look_on(self, trial: Trial, faults: list[Fault], known: dict[str, Action]) -> tuple[list[Injected], str]:
        """Inject each fault when its time has come, until the run has ended; and why it ended badly, if it did."""
        injected: list[Injected] = []
        left = list(faults)
        moved: object = None
        moved_s = time.monotonic()
        started_s: float | None = None
        while trial.ended is None:
            done, heads = self._done(trial), trial.heads()
            self._view.progress(self._doing, done)
            if started_s is None and self._all_began(heads, trial, moved_s):
                started_s = time.monotonic()
            if heads != moved:
                moved, moved_s = heads, time.monotonic()
            if time.monotonic() - moved_s > STUCK_S:
                return injected, f"nothing has moved for {STUCK_S:g} s"
            if not self._heads and started_s is not None:
                self._end_input(trial, time.monotonic() - started_s)
            if left and done >= left[0].at:
                fault = left.pop(0)
                self._view.say(f"{fault} ...")
                try:
                    injected.append(inject(trial, fault, known))
                except RekindleError as error:
                    return injected, f"{fault}: {error.primary} {error.detail}".strip()
                one = injected[-1]
                self._view.say(f"{fault}: {one.proof}" if one.happened else f"{fault}: not injected, {one.proof}")
            time.sleep(0.05)
        now_s = time.time()
        injected += [Injected(fault, False, "the run had come to its end", now_s, now_s) for fault in left]
        return injected, self._why(trial)

    def _why(self, trial: Trial) -> str:
        """Why the run ended badly; empty if it did not. Raises DeclarationError if a node refused the pipeline."""
        if trial.ended == 0:
            return ""
        if trial.ended == DeclarationError.exit_code:
            refused = trial.failure("the pipeline was refused")
            raise DeclarationError(refused.primary, detail=refused.detail, hint=refused.hint)
        summary = trial.summary()
        reasons = [f"{f['subject']} at epoch {f['epoch']}: {f['reason']}" for f in summary.get("failures", [])]
        return "; ".join(reasons) or str(trial.failure(f"'rekindle run' ended with exit code {trial.ended}"))

    def _done(self, trial: Trial) -> float:
        """How much of what the undisturbed run published is there; of that run itself nothing is known."""
        total = sum(self._heads.values())
        if not total:
            return 0.0
        heads = trial.heads()
        return sum(min(heads.get(stream, 0), head) for stream, head in self._heads.items()) / total

    def _end_input(self, trial: Trial, for_s: float) -> None:
        """End the sources of the undisturbed run when they have brought input for long enough."""
        if for_s > self._request.source_s:
            self._over.touch()
            if any(is_read_once(declaration.source) for declaration in self._pipeline.sources.values()):
                trial.interrupt()  # what Spark reads does not come to an end
        if for_s > self._request.source_s + LONG_S:
            self._long_over.touch()

    def _all_began(self, heads: Mapping[str, int], trial: Trial, moved_s: float) -> bool:
        """Whether every stream has an epoch, or no more of them come."""
        if not heads:
            return False
        expected = {stream for stream in trial.streams() if not stream.endswith(REJECTED_SUFFIX)}
        return expected <= heads.keys() or time.monotonic() - moved_s > LATE_S

    def _brought(self, outcome: compare.Outcome) -> dict[str, dict[str, object]]:
        """What the sources brought that only Spark can read again."""
        return {
            name: outcome.brought(name)
            for name, declaration in self._pipeline.sources.items()
            if is_read_once(declaration.source)
        }

    def _check_determinism(self, trial: Trial) -> tuple[str, ...]:
        """What comes out differently when it is computed once more, in words."""
        from rekindle.verify.code import code_of
        from rekindle.verify.determinism import check_determinism

        cores = self._request.cores or os.cpu_count() or 1
        report = check_determinism(
            code_of(trial.home, trial.keeper, None, cores),
            trial.home,
            trial.keeper,
            keeper_url=trial.place.direct,
            cores=cores,
            seed=self._request.seed,
            tell=lambda what, done, total: self._view.progress(f"determinism: {what}", done / max(1, total)),
        )
        return tuple(in_words(finding) for finding in report.wrong)

    # -- judging -------------------------------------------------------------------------------------

    def _outputs(self, outcome: compare.Outcome) -> tuple[Output, ...]:
        """Every published stream and every sink."""
        given, given_sinks = guarantees(self._pipeline), sink_guarantees(self._pipeline)
        outputs = []
        for stream in outcome.epochs:
            declared = self._pipeline.streams.get(stream.removesuffix(REJECTED_SUFFIX))
            policy = type(declared.recovery).__name__ if declared is not None else "source"
            outputs.append(Output(stream, "stream", policy, given[stream]))
        for name, sink in self._pipeline.sinks.items():
            declared = self._pipeline.streams.get(sink.stream)
            policy = type(declared.recovery).__name__ if declared is not None else "source"
            outputs.append(Output(name, "sink", policy, given_sinks[name]))
        return tuple(outputs)

    def _findings(
        self, outputs: tuple[Output, ...], right: Tried, run: Tried, unrepeatable: tuple[str, ...]
    ) -> dict[str, Finding]:
        found = {}
        for output in outputs:
            repeatable = output.name not in unrepeatable
            if output.kind == "stream":
                comparable = output.name not in self._behind_gaps
                found[output.name] = compare.judge_stream(
                    output.name, right.outcome, run.outcome, comparable=comparable, repeatable=repeatable
                )
            else:
                stream = self._pipeline.sinks[output.name].stream
                found[output.name] = compare.judge_sink(
                    output.name,
                    stream,
                    right.outcome,
                    run.outcome,
                    comparable=stream not in self._behind_gaps,
                    repeatable=repeatable,
                )
        return found

    def _tell(self, run: RunReport) -> None:
        bad = [f"{name} {finding.verdict}" for name, finding in run.findings.items() if finding.verdict != PRECISE]
        how = run.failure or ", ".join(bad) or "all precise"
        self._view.say(f"run {run.number}: {how}, in {run.course.seconds:.0f} s")

    def _report(self, tried: Tried, findings: dict[str, Finding]) -> RunReport:
        outcome, started_s = tried.outcome, tried.started_s
        arrivals: dict[str, list[float]] = {}
        for (stream, _), at_s in sorted(outcome.seen_s.items()):
            arrivals.setdefault(stream, []).append(at_s - started_s)
        for sink, came in outcome.sinks.items():
            arrivals[sink] = [arrival.at_s - started_s for arrival in came]
        pauses = {
            name: longest_pause(times, input_ended_s=max(times)) if times else None for name, times in arrivals.items()
        }
        faults = tuple(
            replace(one, since_s=one.since_s - started_s, until_s=one.until_s - started_s) for one in tried.faults
        )
        course = Course(tried.seconds, {name: sorted(times) for name, times in arrivals.items()}, pauses)
        return RunReport(tried.number, started_s, faults, findings, course, tried.failure)


def in_words(finding: Unequal) -> str:
    """A finding of the determinism check, with the first row that differs."""
    rows = [f"{what} {shown[0]}" for what, shown in (("one", finding.expected), ("another", finding.found)) if shown]
    return f"{finding.what}{': ' if rows else ''}{', '.join(rows)}"


def _reached(trial: Trial, item: str, fault: Fault, started_s: float) -> Injected:
    """What became of a planned step."""
    _, step, subject, epoch = item.split(":")
    mark = trial.marks_folder / item.replace(":", "-")
    at_s = mark.stat().st_mtime if mark.exists() else time.time()
    where = f"at {step} of epoch {epoch} of {subject}"
    if mark.exists():
        return Injected(fault, True, where, at_s, at_s)
    return Injected(fault, False, f"{where}: it was not reached", at_s, at_s)
