"""What MLflow's own client finds on a server: read_mlflow.py ADDRESS.

Prints `ready`. Then each line of stdin is an experiment, whose runs it answers with as a line of JSON. It ends with stdin.
"""
import json
import sys

import mlflow


def history(client, run, key):
    return [[metric.step, metric.value, metric.timestamp] for metric in client.get_metric_history(run, key)]


def runs(client, experiment):
    found = client.get_experiment_by_name(experiment)
    all_runs = client.search_runs([found.experiment_id]) if found else []
    return [{"id": run.info.run_id, "name": run.info.run_name, "status": run.info.status, "start": run.info.start_time,
             "end": run.info.end_time, "params": run.data.params, "tags": run.data.tags,
             "metrics": {key: history(client, run.info.run_id, key) for key in run.data.metrics}} for run in all_runs]


def main(address):
    client = mlflow.MlflowClient(address)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(runs(client, line.strip())), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
