"""Compaction by Airflow: one DAG, one task, never two runs of it at once.

LOG names the log. Without Airflow this module still says what would be run: `COMMAND`.
"""

import os
from datetime import UTC, datetime, timedelta

LOG = os.environ.get("LOG", "/data/log")

# On a cluster: spark-submit --master yarn -m spark_source.compaction --url … --once --wait 120
COMMAND = f"logstore compact --url '{LOG}' --once --json --wait 120"

SCHEDULE = timedelta(minutes=5)

try:
    from airflow import DAG
    from airflow.providers.standard.operators.bash import BashOperator
except ModuleNotFoundError:
    dag = None
else:
    with DAG(
        dag_id="logstore_compaction",
        schedule=SCHEDULE,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,  # a run does all that is due: one is enough after a pause
        max_active_runs=1,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    ) as dag:
        BashOperator(task_id="compact", bash_command=COMMAND)
