#include "pjrt/plugin/profiler.h"

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "pjrt/plugin/call.h"

namespace tessera::pjrt {
namespace {

// As in xla/backends/profiler/plugin/profiler_c_api.h and xla/pjrt/c/pjrt_c_api_profiler_extension.h, which no wheel ships.
struct Failure;  // PLUGIN_Profiler_Error
struct Handle;   // PLUGIN_Profiler
struct FailureArgs {
  size_t struct_size = sizeof(FailureArgs);
  void* priv = nullptr;
  Failure* failure = nullptr;
};
struct MessageArgs {
  size_t struct_size = sizeof(MessageArgs);
  void* priv = nullptr;
  const Failure* failure = nullptr;
  const char* message = nullptr;
  size_t message_size = 0;
};
struct CreateArgs {
  size_t struct_size = sizeof(CreateArgs);
  const char* options = nullptr;
  size_t options_size = 0;
  Handle* profiler = nullptr;
};
struct HandleArgs {
  size_t struct_size = sizeof(HandleArgs);
  Handle* profiler = nullptr;
};
struct DataArgs {
  size_t struct_size = sizeof(DataArgs);
  Handle* profiler = nullptr;
  uint8_t* buffer = nullptr;
  size_t size = 0;
};
struct ProfilerApi {
  size_t struct_size;
  void* priv;
  void (*destroy_failure)(FailureArgs*);
  void (*message)(MessageArgs*);
  void* code;
  Failure* (*create)(CreateArgs*);
  Failure* (*destroy)(HandleArgs*);
  Failure* (*start)(HandleArgs*);
  Failure* (*stop)(HandleArgs*);
  Failure* (*collect_data)(DataArgs*);
};
struct ProfilerExtension {
  PJRT_Extension_Base base;
  const ProfilerApi* api;
};

const ProfilerApi* find_api(const Plugin& plugin) {
  for (const auto* e = plugin.api()->extension_start; e != nullptr; e = e->next) {
    if (e->type != PJRT_Extension_Type_Profiler || e->struct_size < sizeof(ProfilerExtension)) continue;
    const ProfilerApi* api = reinterpret_cast<const ProfilerExtension*>(e)->api;
    return api != nullptr && api->struct_size >= sizeof(ProfilerApi) ? api : nullptr;
  }
  return nullptr;
}

// ProfileOptions of tsl/profiler/protobuf/profiler_options.proto, with its defaults but for what the host does, which this
// program records itself.
std::string options() {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_uint32(2, 0);   // host_tracer_level
  writer.add_uint32(3, 1);   // device_tracer_level
  writer.add_uint32(5, 1);   // version
  writer.add_bool(7, true);  // enable_hlo_proto
  return out;
}

}  // namespace

struct Profiler::Session {
  std::shared_ptr<const Plugin> plugin;
  const ProfilerApi* api = nullptr;
  Handle* handle = nullptr;
  bool recording = false;

  // Throws what the plugin says.
  void expect(const char* call, Failure* failure) const {
    if (failure == nullptr) return;
    MessageArgs message{.failure = failure};
    api->message(&message);
    const std::string words = message.message == nullptr ? "" : std::string(message.message, message.message_size);
    destroy(failure);
    throw device_error(std::string(call) + ": " + words, plugin->version_line());
  }
  void destroy(Failure* failure) const noexcept {
    if (failure == nullptr) return;
    FailureArgs args{.failure = failure};
    api->destroy_failure(&args);
  }
  ~Session() {
    HandleArgs args{.profiler = handle};
    if (recording) destroy(api->stop(&args));
    if (handle != nullptr) destroy(api->destroy(&args));
  }
};

Profiler::Profiler(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Profiler::~Profiler() = default;
Profiler::Profiler(Profiler&&) noexcept = default;
Profiler& Profiler::operator=(Profiler&&) noexcept = default;

std::optional<Profiler> Profiler::start(std::shared_ptr<const Plugin> plugin) {
  const ProfilerApi* api = find_api(*plugin);
  if (api == nullptr) return std::nullopt;
  auto session = std::make_unique<Session>();
  session->plugin = std::move(plugin);
  session->api = api;
  const std::string chosen = options();
  CreateArgs create{.options = chosen.data(), .options_size = chosen.size()};
  session->expect("PLUGIN_Profiler_Create", api->create(&create));
  session->handle = create.profiler;
  HandleArgs args{.profiler = session->handle};
  session->expect("PLUGIN_Profiler_Start", api->start(&args));
  session->recording = true;
  return Profiler(std::move(session));
}

std::string Profiler::stop() {
  Session& session = *session_;
  TESSERA_CHECK(session.recording);
  HandleArgs args{.profiler = session.handle};
  session.recording = false;
  session.expect("PLUGIN_Profiler_Stop", session.api->stop(&args));
  DataArgs data{.profiler = session.handle};
  session.expect("PLUGIN_Profiler_CollectData", session.api->collect_data(&data));
  // Some plugins lend their own memory at once, others say how much they want.
  if (data.buffer != nullptr) return {reinterpret_cast<const char*>(data.buffer), data.size};
  std::string bytes(data.size, '\0');
  if (bytes.empty()) return bytes;
  data.buffer = reinterpret_cast<uint8_t*>(bytes.data());
  session.expect("PLUGIN_Profiler_CollectData", session.api->collect_data(&data));
  return bytes;
}

}  // namespace tessera::pjrt
