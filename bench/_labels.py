"""What the peers are called in tables and charts."""

LABELS = {
    "spark": "plain Spark, defaults",
    "spark_tuned": "plain Spark, tuned",
    "flink": "Flink, defaults",
    "flink_tuned": "Flink, tuned",
    "flink:job_manager": "Flink, tuned, job manager killed",
    "rekindle": "Rekindle, Rollback()",
    "rekindle:memory": "Rekindle, Rollback(), state in memory",
    "rekindle:rollback": "Rekindle, Rollback()",
    "rekindle:source_replay": "Rekindle, Rollback(copies=0)",
    "rekindle:gap": "Rekindle, Gap()",
    "rekindle:upstream_backup": "Rekindle, UpstreamBackup()",
    "rekindle:passive_standby": "Rekindle, PassiveStandby(interval=1)",
    "rekindle:active_standby": "Rekindle, ActiveStandby(replicas=2)",
    "rekindle:pool": "Rekindle, Rollback(), pool=1",
}
