"""What MLflow's own client finds of an experiment's runs, as JSON: read_mlflow.py ADDRESS EXPERIMENT."""
import json
import sys

import mlflow


def history(client, run, key):
    return [[metric.step, metric.value, metric.timestamp] for metric in client.get_metric_history(run, key)]


def main(address, experiment):
    client = mlflow.MlflowClient(address)
    found = client.get_experiment_by_name(experiment)
    runs = client.search_runs([found.experiment_id]) if found else []
    return [{"id": run.info.run_id, "name": run.info.run_name, "status": run.info.status, "start": run.info.start_time,
             "end": run.info.end_time, "params": run.data.params, "tags": run.data.tags,
             "metrics": {key: history(client, run.info.run_id, key) for key in run.data.metrics}} for run in runs]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
