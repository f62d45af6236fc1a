"""``rekindle explain``: the graph, how it is cut into fragments and why, and what each stream guarantees."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from rekindle.cli.report import note, print_json, print_line
from rekindle.guarantees import guarantees, sink_guarantees
from rekindle.java import check_java
from rekindle.plan import check
from rekindle.recovery.placement import beside, slots


def explain(
    file: Annotated[Path, typer.Argument(help="The pipeline file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Show a pipeline file's graph, its fragments and the guarantee of each stream. Runs nothing."""
    from rekindle.load import load_pipeline

    pipeline = load_pipeline(file)
    check(pipeline)
    check_java()
    note("reading the plan: starting Spark takes some seconds")
    from rekindle.node.process import source_schemas
    from rekindle.node.session import start_session
    from rekindle.node.traits import analyse

    with tempfile.TemporaryDirectory(prefix="rekindle-explain-") as scratch:
        conf = {**pipeline.settings.spark, "spark.log.level": "ERROR"}
        spark = start_session("explain", cores=1, conf=conf, scratch=Path(scratch))
        try:
            found = facts(pipeline, analyse(pipeline, spark, source_schemas(pipeline, spark), Path(scratch)))
        finally:
            spark.stop()
    if as_json:
        print_json(found)
    else:
        for line in lines(found):
            print_line(line)


def facts(pipeline: Any, analysis: Any) -> dict[str, Any]:
    """Everything that explain shows, as plain values."""
    fused = {o.name: f.name for f in analysis.fragments for o in f.operators}
    given, delivered = guarantees(pipeline), sink_guarantees(pipeline)

    def standing_for(node: str) -> list[str]:
        return list(beside(node, slots(pipeline, node)))

    return {
        "pipeline": pipeline.name,
        "sources": [
            {
                "stream": s.name,
                "from": s.source.describe(),
                "node": s.node,
                "schema": analysis.schemas[s.name].simpleString(),
                "nodes": standing_for(s.node),
                "guarantee": s.source.guarantee,
                "declared": str(s.place),
            }
            for s in pipeline.sources.values()
        ],
        "fragments": [
            {
                "fragment": f.name,
                "operators": [o.name for o in f.operators],
                "inputs": list(f.inputs),
                "node": f.node,
                "runs_as": f"a streaming query with state in {f.state}" if f.stateful else "a loop of batch jobs",
                "output_mode": f.output_mode,
                "deterministic": f.deterministic,
                "recovery": f.recovery.describe(),
                "nodes": list(beside(f.node, f.recovery.replicas if f.stateful else slots(pipeline, f.node))),
                "guarantee": given[f.name],
                "why": list(f.why),
                "schema": analysis.schemas[f.name].simpleString(),
                "declared": str(f.operators[-1].place),
            }
            for f in analysis.fragments
        ],
        "streams": {
            name: {
                "fragment": fused[name],
                "published": fused[name] == name,
                "guarantee": given[name],
                "declared_guarantee": pipeline.streams[name].guarantee,
            }
            for name in fused
        },
        "sinks": [
            {
                "sink": s.name,
                "stream": s.stream,
                "to": s.sink.describe(),
                "node": s.node,
                "nodes": standing_for(s.node),
                "guarantee": delivered[s.name],
                "declared": str(s.place),
            }
            for s in pipeline.sinks.values()
        ],
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The facts for people."""
    text = [f"pipeline {found['pipeline']}", ""]
    for source in found["sources"]:
        text += [
            f"source   {source['stream']}  <- {source['from']}",
            f"         {source['schema']}",
            f"         {_on(source)}; guarantee: {source['guarantee']}",
            "",
        ]
    for fragment in found["fragments"]:
        text += [
            f"fragment {fragment['fragment']}  <- {', '.join(fragment['inputs'])}",
            f"         {fragment['schema']}",
            f"         operators: {' -> '.join(fragment['operators'])}",
            f"         {fragment['runs_as']}, output mode {fragment['output_mode']}, {_on(fragment)}",
            f"         recovery: {fragment['recovery']}",
            f"         guarantee: {fragment['guarantee']}"
            + ("" if fragment["deterministic"] else " (not deterministic: logged once, never recomputed)"),
            *(f"         cut here: {why}" if i == 0 else f"         {why}" for i, why in enumerate(fragment["why"])),
            "",
        ]
    for sink in found["sinks"]:
        text += [
            f"sink     {sink['sink']}  <- {sink['stream']}",
            f"         {sink['to']}; {_on(sink)}; guarantee: {sink['guarantee']}",
            "",
        ]
    return text[:-1]


def _on(placed: dict[str, Any]) -> str:
    nodes = placed["nodes"]
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {', '.join(nodes)}"
