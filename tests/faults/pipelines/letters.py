"""A source that Spark itself reads, one file an epoch, and its sink."""

import rekindle as rk

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"}

pipeline = rk.Pipeline("letters", settings=rk.Settings(lease_s=60, heartbeat_s=0.2, spark=QUICK))
files = rk.sources.Spark("json", {"path": "letters", "maxFilesPerTrigger": 1}, schema="id long, text string")
pipeline.source("letters", files)
pipeline.sink("letters", rk.sinks.Files("out/letters"))
