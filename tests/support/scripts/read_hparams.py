"""What TensorBoard's HParams tab shows of all runs under a directory, as JSON: read_hparams.py DIRECTORY."""
import json
import sys

from google.protobuf import json_format
from tensorboard import context
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups


def main(directory):
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(directory)
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, directory)
    backend = backend_context.Context(base_plugin.TBContext(logdir=directory, multiplexer=multiplexer, data_provider=provider))
    request_context, name = context.RequestContext(), "runs"
    experiment = get_experiment.Handler(request_context, backend, name, api_pb2.GetExperimentRequest(include_metrics=True)).run()
    request = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=100, allowed_statuses=[0, 1, 2, 3], include_metrics=True)
    for metric in experiment.metric_infos:
        request.col_params.add(metric=metric.name)
    for hparam in experiment.hparam_infos:
        request.col_params.add(hparam=hparam.name)
    groups = list_session_groups.Handler(request_context, backend, name, request).run().session_groups
    return {
        "differing": [info.name for info in experiment.hparam_infos if info.differs],
        "runs": {
            group.name: {
                "hparams": {key: json_format.MessageToDict(value) for key, value in group.hparams.items()},
                "metrics": {value.name.tag: value.value for value in group.metric_values},
            }
            for group in groups
        },
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
