"""What xprof, which draws TensorBoard's profile tab, makes of the profiles under a directory, as JSON: read_profile.py DIRECTORY."""
import contextlib
import json
import pathlib
import sys
import types

from xprof import profile_plugin
from xprof.convert import raw_to_tool_data
from xprof.profile_data import ProfileData
from xprof.standalone.tensorboard_shim import base_plugin

TOOLS = ["trace_viewer", "overview_page", "framework_op_stats", "input_pipeline_analyzer"]


def planes_of(path):
    data = ProfileData.from_serialized_xspace(path.read_bytes())
    return {
        plane.name: {
            line.name: [{"name": event.name, "start": event.start_ns, "duration": event.duration_ns, "stats": dict(event.stats)}
                        for event in line.events]
            for line in plane.lines
        }
        for plane in data.planes
    }


def tool_of(path, tool):
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, {"use_saved_result": False})
    return data.decode() if isinstance(data, bytes) else data


def main(directory):
    plugin = profile_plugin.ProfilePlugin(base_plugin.TBContext(logdir=directory, data_provider=None, flags=types.SimpleNamespace(master_tpu_unsecure_channel="")))
    out = {"runs": sorted(plugin.generate_runs()), "profiles": {}}
    for path in sorted(pathlib.Path(directory).rglob("*.xplane.pb")):
        out["profiles"][path.parent.name] = {
            "planes": planes_of(path),
            "names": raw_to_tool_data.xspace_to_tool_names([str(path)]),
            "tools": {tool: tool_of(path, tool) for tool in TOOLS},
        }
    return out


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # xprof prints what it looks for
        read = main(sys.argv[1])
    print(json.dumps(read))
