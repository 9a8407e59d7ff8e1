#include "program.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.h"
#include "assignment.h"
#include "client.h"
#include "inner.h"
#include "kept.h"
#include "table.h"

namespace tessera::joint {
namespace {

struct Program {
  std::shared_ptr<Client> client;
  std::string name;
  std::string fingerprint;            // of its text and devices
  std::vector<PJRT_Device*> devices;  // of all processes, in the order of the inner plugin's lists
  std::vector<Place> places;          // theirs
  std::vector<PJRT_Device*> own;      // this process's, in the same order
  std::vector<int64_t> nodes;         // the processes that run it, ascending
  size_t outputs = 0;
};
using Lists = std::vector<std::vector<PJRT_Buffer*>>;  // by device, then by argument or output

Table<PJRT_LoadedExecutable*, std::shared_ptr<const Program>>& programs() {
  static auto& table = *new Table<PJRT_LoadedExecutable*, std::shared_ptr<const Program>>();
  return table;
}

Program describe(PJRT_LoadedExecutable* loaded, std::shared_ptr<Client> client, std::string_view text) {
  Program program{.client = std::move(client), .fingerprint = fmt::format("{:x} on", std::hash<std::string_view>()(text))};
  PJRT_Executable* executable = INNER(PJRT_LoadedExecutable_GetExecutable)({.loaded_executable = loaded}).executable;
  const auto name = INNER(PJRT_Executable_Name)({.executable = executable});
  program.name.assign(name.executable_name, name.executable_name_size);
  program.outputs = INNER(PJRT_Executable_NumOutputs)({.executable = executable}).num_outputs;
  INNER(PJRT_Executable_Destroy)({.executable = executable});
  const auto found = INNER(PJRT_LoadedExecutable_AddressableDevices)({.executable = loaded});
  program.devices.assign(found.addressable_devices, found.addressable_devices + found.num_addressable_devices);
  std::set<int64_t> nodes;
  for (PJRT_Device* device : program.devices) {
    const Place& place = program.places.emplace_back(place_of(device));
    program.fingerprint += fmt::format(" {}", place.id);
    nodes.insert(place.node);
    if (place.own) program.own.push_back(device);
  }
  program.nodes.assign(nodes.begin(), nodes.end());
  return program;
}

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  return guarded([&] {
    auto client = client_of(args->client);
    std::vector<int64_t> own;
    for (PJRT_Device* device : client->own) own.push_back(place_of(device).id);
    const std::string options = with_devices({args->compile_options, args->compile_options_size}, own);
    PJRT_Client_Compile_Args changed = *args;
    changed.compile_options = options.data();
    changed.compile_options_size = options.size();
    const std::string kept = kept_name({args->program->code, args->program->code_size}, options);
    changed.executable = load_kept(args->client, kept);
    if (changed.executable == nullptr) {
      check(inner()->PJRT_Client_Compile(&changed));
      keep(kept, changed.executable);
    }
    Program program = describe(changed.executable, std::move(client), {args->program->code, args->program->code_size});
    if (program.own.empty()) {
      INNER(PJRT_LoadedExecutable_Destroy)({.executable = changed.executable});
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    fmt::format("`{}` runs on no device of process {}", program.name, program.client->node));
    }
    args->executable = changed.executable;
    programs().put(changed.executable, std::make_shared<const Program>(std::move(program)));
  });
}

// One run of a program of several processes.
class Run {
 public:
  Run(const Program& program, const PJRT_LoadedExecutable_Execute_Args& args) : program_(program), args_(args) {
    if (args.num_devices != program.own.size()) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    fmt::format("`{}` got arguments for {} devices, and has {} of this process", program.name, args.num_devices,
                                program.own.size()));
    }
    if (args.execute_device != nullptr || args.options->num_send_ops + args.options->num_recv_ops > 0) {
      throw Failure(PJRT_Error_Code_UNIMPLEMENTED, "a device to execute on, send and receive");
    }
    for (size_t i = 0; i < args.num_args; ++i) arrays_.push_back(array_of_argument(i));
  }

  void execute() {
    share_arguments();
    id_ = program_.client->exchange->last(program_.nodes);
    Lists inputs(program_.devices.size());
    for (size_t d = 0, own = 0; d < inputs.size(); ++d) {
      const bool mine = program_.places[d].own;
      for (size_t i = 0; i < args_.num_args; ++i) {
        inputs[d].push_back(mine ? argument(own, i) : arrays_[i]->shadows.at(program_.places[d].id));
      }
      if (mine) ++own;
    }
    give(run_all(inputs));
  }

 private:
  PJRT_Buffer* argument(size_t own, size_t i) const { return args_.argument_lists[own][i]; }

  // Nothing where it is not known what other processes' devices hold.
  std::shared_ptr<const Array> array_of_argument(size_t i) const {
    std::shared_ptr<const Array> array = array_of(argument(0, i));
    for (size_t own = 1; own < args_.num_devices; ++own) {
      if (array_of(argument(own, i)) != array) return nullptr;
    }
    const auto known = [&](const Place& place) { return place.own || array->shadows.contains(place.id); };
    return array && std::all_of(program_.places.begin(), program_.places.end(), known) ? array : nullptr;
  }

  std::map<int64_t, std::string> swap(const std::string& message) const {
    try {
      return program_.client->exchange->swap(program_.nodes, message);
    } catch (const Failure& failure) {
      throw Failure(failure.code, fmt::format("`{}`: {}", program_.name, failure.what()));
    }
  }

  // Lines: the program's name, its fingerprint, the id of each argument's array, empty where it is not known.
  std::string head() const {
    std::string lines = program_.name + "\n" + program_.fingerprint + "\n";
    for (const auto& array : arrays_) lines.append(array ? array->id : "").append("\n");
    return lines;
  }

  // Which arguments are not one known array to all processes. Real collectives would hang, or compute anything, with programs that
  // are not the same: this throws.
  std::vector<size_t> unshared() const {
    std::set<size_t> found;
    for (const auto& [node, text] : swap(head())) {
      std::istringstream lines(text);
      std::string name, fingerprint, id;
      std::getline(lines, name);
      std::getline(lines, fingerprint);
      if (name != program_.name) {
        throw Failure(PJRT_Error_Code_FAILED_PRECONDITION,
                      fmt::format("process {} runs `{}`, this one `{}`", node, name, program_.name));
      }
      if (fingerprint != program_.fingerprint) {
        throw Failure(PJRT_Error_Code_FAILED_PRECONDITION,
                      fmt::format("process {} runs another `{}` than this one: their texts or devices differ", node, name));
      }
      for (size_t i = 0; i < arrays_.size() && std::getline(lines, id); ++i) {
        if (!arrays_[i] || arrays_[i]->id != id) found.insert(i);
      }
    }
    return {found.begin(), found.end()};
  }

  // Makes an array of each argument that is none yet.
  void share_arguments() {
    const std::vector<size_t> wanted = unshared();
    if (wanted.empty()) return;
    std::string message;
    for (const size_t i : wanted) {
      for (size_t own = 0; own < args_.num_devices; ++own) {
        const std::string bytes = bytes_of(argument(own, i));
        const uint64_t size = bytes.size();
        message.append(reinterpret_cast<const char*>(&size), sizeof size).append(bytes);
      }
    }
    const std::map<int64_t, std::string> messages = swap(message);
    std::map<int64_t, std::string_view> rest(messages.begin(), messages.end());
    for (const size_t i : wanted) {
      auto array = std::make_shared<Array>(fmt::format("{}.argument{}", program_.client->exchange->last(program_.nodes), i));
      for (size_t d = 0; d < program_.devices.size(); ++d) {
        const Place& place = program_.places[d];
        if (place.own) continue;
        array->shadows[place.id] = upload(program_.client->inner, program_.devices[d], argument(0, i), next(rest[place.node]));
      }
      for (size_t own = 0; own < args_.num_devices; ++own) set_array(argument(own, i), array);
      arrays_[i] = std::move(array);
    }
  }

  static std::string next(std::string_view& rest) {
    uint64_t size = 0;
    std::memcpy(&size, rest.data(), sizeof size);
    std::string bytes(rest.substr(sizeof size, size));
    rest.remove_prefix(sizeof size + size);
    return bytes;
  }

  // The outputs of all devices.
  Lists run_all(const Lists& inputs) const {
    Lists outputs(inputs.size(), std::vector<PJRT_Buffer*>(program_.outputs));
    std::vector<PJRT_Buffer* const*> input_lists;
    std::vector<PJRT_Buffer**> output_lists;
    for (size_t d = 0; d < inputs.size(); ++d) {
      input_lists.push_back(inputs[d].data());
      output_lists.push_back(outputs[d].data());
    }
    const bool events = args_.device_complete_events != nullptr;
    std::vector<PJRT_Event*> complete(inputs.size());
    PJRT_LoadedExecutable_Execute_Args all = args_;
    all.argument_lists = input_lists.data();
    all.output_lists = output_lists.data();
    all.num_devices = inputs.size();
    all.device_complete_events = events ? complete.data() : nullptr;
    check(inner()->PJRT_LoadedExecutable_Execute(&all));
    for (size_t d = 0, own = 0; events && d < inputs.size(); ++d) {
      if (program_.places[d].own) {
        args_.device_complete_events[own++] = complete[d];
      } else {
        INNER(PJRT_Event_Destroy)({.event = complete[d]});
      }
    }
    return outputs;
  }

  // Own outputs to the caller; the others' beside them.
  void give(const Lists& outputs) const {
    for (size_t j = 0; j < program_.outputs; ++j) {
      const auto array = std::make_shared<Array>(fmt::format("{}.output{}", id_, j));
      for (size_t d = 0, own = 0; d < outputs.size(); ++d) {
        const Place& place = program_.places[d];
        if (place.own) {
          args_.output_lists[own++][j] = outputs[d][j];
          set_array(outputs[d][j], array);
        } else {
          array->shadows[place.id] = outputs[d][j];
        }
      }
    }
  }

  const Program& program_;
  const PJRT_LoadedExecutable_Execute_Args& args_;
  std::vector<std::shared_ptr<const Array>> arrays_;  // of the arguments
  std::string id_;                                    // the same in all processes
};

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  return guarded([&] {
    // The inner plugin tells runs apart by this number where the devices of each meet for a collective. Two clients of one process,
    // which stand for two processes in tests, would meet each other.
    static std::atomic<int> runs{0};
    PJRT_ExecuteOptions options = *args->options;
    options.launch_id = ++runs;
    PJRT_LoadedExecutable_Execute_Args changed = *args;
    changed.options = &options;
    const auto program = programs().find(args->executable).value();
    if (program->nodes.size() == 1) return check(inner()->PJRT_LoadedExecutable_Execute(&changed));
    const std::scoped_lock turn(program->client->turn);
    Run(*program, changed).execute();
  });
}

PJRT_Error* destroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  programs().take(args->executable);
  return inner()->PJRT_LoadedExecutable_Destroy(args);
}

}  // namespace

void put_program_functions(PJRT_Api& api) {
  api.PJRT_Client_Compile = compile;
  api.PJRT_LoadedExecutable_Execute = execute;
  api.PJRT_LoadedExecutable_Destroy = destroy;
  api.PJRT_LoadedExecutable_AddressableDevices = [](PJRT_LoadedExecutable_AddressableDevices_Args* args) {
    return guarded([&] {
      const auto program = programs().find(args->executable).value();
      args->addressable_devices = program->own.data();
      args->num_addressable_devices = program->own.size();
    });
  };
}

}  // namespace tessera::joint
