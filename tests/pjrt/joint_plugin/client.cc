#include "client.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "inner.h"
#include "table.h"

namespace tessera::joint {
namespace {

// Never destroyed: other threads may still run when the process ends.
Table<PJRT_Client*, std::shared_ptr<Client>>& clients() {
  static auto& table = *new Table<PJRT_Client*, std::shared_ptr<Client>>();
  return table;
}
Table<PJRT_Device*, Place>& places() {
  static auto& table = *new Table<PJRT_Device*, Place>();
  return table;
}
Table<PJRT_DeviceDescription*, Place>& described_places() {
  static auto& table = *new Table<PJRT_DeviceDescription*, Place>();
  return table;
}

struct Options {
  int64_t node = 0, nodes = 1;
  int64_t devices = 1;  // of each process
};

Options options_of(const PJRT_Client_Create_Args& args) {
  Options options;
  for (size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& value = args.create_options[i];
    const std::string_view name(value.name, value.name_size);
    int64_t* wanted = name == "node_id" ? &options.node : name == "num_nodes" ? &options.nodes : nullptr;
    if (wanted == nullptr) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    fmt::format("Unexpected option name passed to PJRT_Client_Create: {}", name));
    }
    if (value.type != PJRT_NamedValue_kInt64) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, fmt::format("Option {} of PJRT_Client_Create is no int64", name));
    }
    *wanted = value.int64_value;
  }
  options.devices = std::stoll(environment("TESSERA_JOINT_DEVICES", "1"));
  if (options.nodes < 1 || options.node < 0 || options.node >= options.nodes || options.devices < 1) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, fmt::format("node_id {} of num_nodes {}, with {} devices each",
                                                                options.node, options.nodes, options.devices));
  }
  return options;
}

// Process 0 collects what the others have and tells all, with the keys that XLA's plugin for CUDA uses.
void agree_on_topology(const KeyValues& store, const Options& options) {
  const auto key = [](int64_t node) { return fmt::format("local_topology/cuda/{}", node); };
  const std::string mine = fmt::format("{} of {} processes with {} devices", options.node, options.nodes, options.devices);
  store.put(key(options.node), mine);
  if (const auto back = store.try_get(key(options.node)); back && *back != mine) {
    throw Failure(PJRT_Error_Code_ALREADY_EXISTS, fmt::format("process {} is there twice: {}", options.node, *back));
  }
  const std::string ours = fmt::format("{} processes with {} devices", options.nodes, options.devices);
  if (options.node > 0) {
    const std::string all = store.get("global_topology/cuda");
    if (all == ours) return;
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, fmt::format("process 0 has {}, this one {}", all, ours));
  }
  for (int64_t node = 1; node < options.nodes; ++node) {
    const std::string theirs = store.get(key(node));
    if (theirs == fmt::format("{} of {}", node, ours)) continue;
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, fmt::format("process {} is {}, this one {}", node, theirs, mine));
  }
  store.put("global_topology/cuda", ours);
}

PJRT_Client* create_inner(int64_t devices) {
  constexpr std::string_view kName = "cpu_device_count";
  PJRT_NamedValue count{.struct_size = PJRT_NamedValue_STRUCT_SIZE, .name = kName.data(), .name_size = kName.size()};
  count.type = PJRT_NamedValue_kInt64;
  count.int64_value = devices;
  count.value_size = 1;
  return INNER(PJRT_Client_Create)({.create_options = &count, .num_options = 1}).client;
}

PJRT_DeviceDescription* description_of(PJRT_Device* device) {
  return INNER(PJRT_Device_GetDescription)({.device = device}).device_description;
}

// By id; or, as TPUs do, not process by process: the first device of each from the last process to the first, then the second.
std::vector<PJRT_Device*> listed(const std::vector<PJRT_Device*>& by_id, const Options& options) {
  if (environment("TESSERA_JOINT_SHUFFLED", "0") != "1") return by_id;
  std::vector<PJRT_Device*> order;
  for (int64_t local = 0; local < options.devices; ++local) {
    for (int64_t node = options.nodes - 1; node >= 0; --node) {
      order.push_back(by_id[static_cast<size_t>(node * options.devices + local)]);
    }
  }
  return order;
}

void read_devices(Client& client, const Options& options) {
  const auto found = INNER(PJRT_Client_AddressableDevices)({.client = client.inner});
  std::vector<PJRT_Device*> by_id(found.num_addressable_devices);
  for (size_t i = 0; i < found.num_addressable_devices; ++i) {
    PJRT_Device* device = found.addressable_devices[i];
    PJRT_DeviceDescription* description = description_of(device);
    const int64_t id = INNER(PJRT_DeviceDescription_Id)({.device_description = description}).id;
    by_id.at(static_cast<size_t>(id)) = device;
    const int64_t node = id / options.devices;
    const Place place{.id = id, .node = node, .local = id % options.devices, .own = node == options.node};
    places().put(device, place);
    described_places().put(description, place);
  }
  client.devices = listed(by_id, options);
  for (PJRT_Device* device : by_id) {
    if (!place_of(device).own) continue;
    client.own.push_back(device);
    const auto memories = INNER(PJRT_Device_AddressableMemories)({.device = device});
    client.memories.insert(client.memories.end(), memories.memories, memories.memories + memories.num_memories);
  }
}

PJRT_Error* create(PJRT_Client_Create_Args* args) {
  return guarded([&] {
    const Options options = options_of(*args);
    auto client = std::make_shared<Client>();
    client->node = options.node;
    if (options.nodes > 1) {
      const KeyValues store(*args);
      if (!store.given()) {
        throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "num_nodes > 1 needs callbacks to put and get keys and values");
      }
      if (environment("TESSERA_JOINT_DIRECTORY", "").empty()) {
        throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "num_nodes > 1 needs TESSERA_JOINT_DIRECTORY");
      }
      agree_on_topology(store, options);
      client->exchange.emplace(store, options.node);
    }
    client->inner = create_inner(options.nodes * options.devices);
    read_devices(*client, options);
    args->client = client->inner;
    clients().put(args->client, std::move(client));
  });
}

PJRT_Error* destroy(PJRT_Client_Destroy_Args* args) {
  if (const auto client = clients().take(args->client)) {
    for (PJRT_Device* device : (*client)->devices) {
      described_places().take(description_of(device));
      places().take(device);
    }
  }
  return inner()->PJRT_Client_Destroy(args);
}

template <class T>
void give(const char*& text, size_t& size, const T& value) {
  text = value.data();
  size = value.size();
}

}  // namespace

std::shared_ptr<Client> client_of(PJRT_Client* client) { return clients().find(client).value(); }
Place place_of(PJRT_Device* device) { return places().find(device).value(); }

void put_client_functions(PJRT_Api& api) {
  api.PJRT_Client_Create = create;
  api.PJRT_Client_Destroy = destroy;
  api.PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args* args) {
    return guarded([&] { give(args->platform_name, args->platform_name_size, std::string_view("cuda")); });
  };
  api.PJRT_Client_PlatformVersion = [](PJRT_Client_PlatformVersion_Args* args) {
    return guarded(
        [&] { give(args->platform_version, args->platform_version_size, std::string_view("CPUs of several processes")); });
  };
  api.PJRT_Client_ProcessIndex = [](PJRT_Client_ProcessIndex_Args* args) {
    return guarded([&] { args->process_index = static_cast<int>(client_of(args->client)->node); });
  };
  api.PJRT_Client_Devices = [](PJRT_Client_Devices_Args* args) {
    return guarded([&] {
      const auto client = client_of(args->client);
      args->devices = client->devices.data();
      args->num_devices = client->devices.size();
    });
  };
  api.PJRT_Client_AddressableDevices = [](PJRT_Client_AddressableDevices_Args* args) {
    return guarded([&] {
      const auto client = client_of(args->client);
      args->addressable_devices = client->own.data();
      args->num_addressable_devices = client->own.size();
    });
  };
  api.PJRT_Client_LookupAddressableDevice = [](PJRT_Client_LookupAddressableDevice_Args* args) {
    return guarded(
        [&] { args->addressable_device = client_of(args->client)->own.at(static_cast<size_t>(args->local_hardware_id)); });
  };
  api.PJRT_Client_AddressableMemories = [](PJRT_Client_AddressableMemories_Args* args) {
    return guarded([&] {
      const auto client = client_of(args->client);
      args->addressable_memories = client->memories.data();
      args->num_addressable_memories = client->memories.size();
    });
  };
  api.PJRT_Device_IsAddressable = [](PJRT_Device_IsAddressable_Args* args) {
    return guarded([&] { args->is_addressable = place_of(args->device).own; });
  };
  api.PJRT_Device_LocalHardwareId = [](PJRT_Device_LocalHardwareId_Args* args) {
    return guarded([&] { args->local_hardware_id = static_cast<int>(place_of(args->device).local); });
  };
  api.PJRT_Device_MemoryStats = [](PJRT_Device_MemoryStats_Args* args) {
    return guarded([&] {
      if (!place_of(args->device).own) {
        throw Failure(PJRT_Error_Code_FAILED_PRECONDITION, "memory is counted only for addressable devices");
      }
      args->bytes_in_use = int64_t{1} << 20;
    });
  };
  api.PJRT_DeviceDescription_ProcessIndex = [](PJRT_DeviceDescription_ProcessIndex_Args* args) {
    return guarded(
        [&] { args->process_index = static_cast<int>(described_places().find(args->device_description).value().node); });
  };
}

}  // namespace tessera::joint
