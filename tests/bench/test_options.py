"""What can be asked of the suite, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench._options import NOT_A_REPORT, PEERS_OF, earlier, parse
from bench._workload import WorkloadError, all_workloads


def test_with_nothing_said_it_is_every_workload_and_every_measure() -> None:
    options = parse([])
    assert [workload.name for workload in options.workloads] == sorted(all_workloads())
    assert list(options.measures) == ["throughput", "latency", "recovery"]
    assert (options.rounds, options.json, options.html) == (3, Path("bench-suite.json"), Path("bench-suite.html"))
    assert options.peers_of("throughput") == PEERS_OF["throughput"]
    assert options.workloads_of("latency") == options.workloads
    assert {workload.name for workload in options.workloads_of("recovery")} <= {"wordcount", "nexmark_q12"}


def test_workloads_that_are_given_run_in_every_measure() -> None:
    options = parse(["--workloads", "wordcount"])
    assert options.workloads_of("recovery") == options.workloads_of("latency") == options.workloads


def test_quick_is_one_short_round() -> None:
    options = parse(["--quick"])
    assert [workload.name for workload in options.workloads] == ["wordcount"]
    assert options.rounds == 1 and options.files < parse([]).files
    assert not any("flink" in peer for measure in options.measures for peer in options.peers_of(measure))


def test_measures_come_in_the_order_of_the_suite() -> None:
    assert list(parse(["--measures", "recovery,throughput"]).measures) == ["throughput", "recovery"]


def test_peers_are_the_same_in_every_measure_if_they_are_given() -> None:
    options = parse(["--peers", "rekindle:active_standby,spark,spark"])
    assert options.peers_of("latency") == options.peers_of("recovery") == ["rekindle:active_standby", "spark"]


def test_a_parameter_is_set_on_its_workload() -> None:
    (workload,) = parse(["--workloads", "wordcount", "--set", "wordcount.rate=50"]).workloads
    assert workload.parameters["rate"] == 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workloads", "wordcont"], "no workload 'wordcont'; did you mean 'wordcount'"),
        (["--peers", "sparc"], "no peer 'sparc'; did you mean 'spark'"),
        (["--peers", "rekindle:passive"], "did you mean 'rekindle:passive_standby'"),
        (["--set", "rate=5"], "takes NAME.PARAMETER=VALUE, not 'rate=5'"),
        (["--set", "wordcount.rte=5"], "no parameter 'rte'; did you mean 'rate'"),
        (["--set", "wordcount.rate=fast"], "wordcount.rate must be int"),
        (["--set", "word.rate=5"], "no workload 'word'"),
    ],
)
def test_a_wrong_name_is_told_with_the_right_one(arguments: list[str], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse(arguments)
    assert message in caught.value.args[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--measures", "speed"], "no measure 'speed'"),
        (["--rounds", "0"], "not a whole number of 1 or more"),
        (["--sweep", "colour"], "invalid choice: 'colour'"),
        (["--sweep", "rate", "--measures", "latency"], "leave out --workloads and --measures"),
    ],
)
def test_what_argparse_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    assert caught.value.code == 2 and message in capsys.readouterr().err


def test_a_sweep_is_of_the_word_count_and_its_five_policies() -> None:
    options = parse(["--sweep", "interval"])
    assert [workload.name for workload in options.workloads] == ["wordcount"]
    assert (list(options.measures), options.rounds, len(options.peers_of("recovery"))) == (["recovery"], 1, 5)


def test_what_an_earlier_run_is_shown_in_stands_beside_its_json() -> None:
    options = parse(["--from", "old/it.json"])
    assert (options.html, options.png) == (Path("old/it.html"), Path("old/it"))


@pytest.mark.parametrize("content", [None, "no json", "[]", '{"bench": "failover"}'])
def test_what_is_no_report_of_the_suite_is_told(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(WorkloadError, match=r"it\.json") as caught:
        earlier(path)
    assert caught.value.args[1] == NOT_A_REPORT


def test_a_folder_that_is_there_is_not_run_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--keep", str(tmp_path)])
    assert "is there already" in capsys.readouterr().err
