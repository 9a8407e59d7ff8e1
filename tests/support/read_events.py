"""What TensorBoard's own reader finds in a directory of event files, as JSON: read_events.py DIRECTORY."""
import json
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util


def by_step(events, value):
    return [[event.step, value(event)] for event in events]


def texts(accumulator, tag):
    return by_step(accumulator.Tensors(tag), lambda event: tensor_util.make_ndarray(event.tensor_proto).item().decode())


def main(directory):
    accumulator = event_accumulator.EventAccumulator(directory, size_guidance={kind: 0 for kind in event_accumulator.DEFAULT_SIZE_GUIDANCE})
    accumulator.Reload()
    tags = accumulator.Tags()
    plugins = {tag: accumulator.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
    return {
        "scalars": {tag: by_step(accumulator.Scalars(tag), lambda event: event.value) for tag in tags["scalars"]},
        "texts": {tag: texts(accumulator, tag) for tag, plugin in plugins.items() if plugin == "text"},
        "first_time": accumulator.FirstEventTimestamp(),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
