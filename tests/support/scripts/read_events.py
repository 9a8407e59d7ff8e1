"""What TensorBoard's own reader finds in a directory of event files, as JSON: read_events.py DIRECTORY."""
import io
import json
import sys

import numpy
import PIL.Image
from google.protobuf import json_format
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.util import tensor_util


def by_step(events, value):
    return [[event.step, value(event)] for event in events]


def texts(accumulator, tag):
    return by_step(accumulator.Tensors(tag), lambda event: tensor_util.make_ndarray(event.tensor_proto).item().decode())


def images(accumulator, tag):
    """Of each step its pictures, as rows of pixels."""
    def pixels(event):
        width, height, *pictures = tensor_util.make_ndarray(event.tensor_proto).tolist()
        arrays = [numpy.asarray(PIL.Image.open(io.BytesIO(picture))) for picture in pictures]
        assert all(array.shape == (int(height), int(width), 3) for array in arrays)
        return [array.reshape(-1).tolist() for array in arrays]
    return by_step(accumulator.Tensors(tag), pixels)


def histograms(accumulator, tag):
    def fields(event):
        h = event.histogram_value
        return {"min": h.min, "max": h.max, "num": h.num, "sum": h.sum, "sum_squares": h.sum_squares, "limits": list(h.bucket_limit),
                "counts": list(h.bucket)}
    return by_step(accumulator.Histograms(tag), fields)


def hparams(accumulator, tags):
    found = {}
    if metadata.SESSION_START_INFO_TAG in tags:
        content = accumulator.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
        start = metadata.parse_session_start_info_plugin_data(content)
        found["start"] = {key: json_format.MessageToDict(value) for key, value in start.hparams.items()}
    if metadata.SESSION_END_INFO_TAG in tags:
        content = accumulator.SummaryMetadata(metadata.SESSION_END_INFO_TAG).plugin_data.content
        found["end"] = metadata.parse_session_end_info_plugin_data(content).status
    return found


def graph(accumulator):
    return {node.name: {"op": node.op, "inputs": list(node.input), "shape": [dim.size for dim in node.attr["_output_shapes"].list.shape[0].dim]}
            for node in accumulator.Graph().node}


def main(directory):
    accumulator = event_accumulator.EventAccumulator(directory, size_guidance={kind: 0 for kind in event_accumulator.DEFAULT_SIZE_GUIDANCE})
    accumulator.Reload()
    tags = accumulator.Tags()
    plugins = {tag: accumulator.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
    return {
        "scalars": {tag: by_step(accumulator.Scalars(tag), lambda event: event.value) for tag in tags["scalars"]},
        "texts": {tag: texts(accumulator, tag) for tag, plugin in plugins.items() if plugin == "text"},
        "images": {tag: images(accumulator, tag) for tag, plugin in plugins.items() if plugin == "images"},
        "histograms": {tag: histograms(accumulator, tag) for tag in tags["histograms"]},
        "hparams": hparams(accumulator, plugins),
        "graph": graph(accumulator) if tags["graph"] else {},
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
