// Plugins that are wrong in one way each, which no real one is. TESSERA_FAKE says in which:
//   1 another major version   2 a table that ends in the middle of PJRT_Client_Create   3 a table with an empty entry there
//   4 PJRT_Plugin_Initialize fails with RESOURCE_EXHAUSTED
// Two are right and have a profiler, which the CPU plugin has not: 5 one that works, 6 one that does not start. They have no
// device, and say why on stderr. And again wrong: 8 PJRT_Plugin_Initialize throws.
#include <pjrt_c_api.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

// Opaque to callers of the C API; every fake error is this one.
struct PJRT_Error {};

namespace {

PJRT_Error g_error;
int g_live_errors = 0;

void destroy_error(PJRT_Error_Destroy_Args*) { --g_live_errors; }

void error_message(PJRT_Error_Message_Args* args) {
  args->message = "no room for the fake\n";
  args->message_size = std::strlen(args->message);
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  args->code = PJRT_Error_Code_RESOURCE_EXHAUSTED;
  return nullptr;
}

PJRT_Error* initialize(PJRT_Plugin_Initialize_Args* args) {
  if (TESSERA_FAKE == 8) throw std::out_of_range("no such key");
  if (TESSERA_FAKE != 4 && args->struct_size == PJRT_Plugin_Initialize_Args_STRUCT_SIZE) return nullptr;
  ++g_live_errors;
  return &g_error;
}

PJRT_Error* create_client(PJRT_Client_Create_Args*) {
  std::fprintf(stderr, "W0000 no driver for fake %d\n", TESSERA_FAKE);
  ++g_live_errors;
  return &g_error;
}

PJRT_Error* attributes(PJRT_Plugin_Attributes_Args* args) {
  static const int64_t version[] = {1, 2, 3};
  static PJRT_NamedValue value;
  value.name = "stablehlo_current_version";
  value.name_size = std::strlen(value.name);
  value.type = PJRT_NamedValue_kInt64List;
  value.int64_array_value = version;
  value.value_size = 3;
  args->attributes = &value;
  args->num_attributes = 1;
  return nullptr;
}

// ---- a profiler, as xla/backends/profiler/plugin/profiler_c_api.h has it ----

const char* const kRecorded = "what was recorded";
int g_profilers = 0, g_failures = 0, g_recording = 0;

struct Failed {
  size_t struct_size;
  void* priv;
  void* failure;
};
struct Message {
  size_t struct_size;
  void* priv;
  const void* failure;
  const char* text;
  size_t size;
};
struct Create {
  size_t struct_size;
  const char* options;
  size_t options_size;
  void* profiler;
};
struct Profiler {
  size_t struct_size;
  void* profiler;
};
struct Data {
  size_t struct_size;
  void* profiler;
  uint8_t* buffer;
  size_t size;
};

void destroy_failure(Failed*) { --g_failures; }
void failure_message(Message* args) {
  args->text = "somebody else profiles";
  args->size = std::strlen(args->text);
}
void* create_profiler(Create* args) {
  ++g_profilers;
  args->profiler = &g_profilers;
  return nullptr;
}
void* destroy_profiler(Profiler*) {
  --g_profilers;
  return nullptr;
}
void* start_profiler(Profiler*) {
  if (TESSERA_FAKE == 6) {
    ++g_failures;
    return &g_failures;
  }
  ++g_recording;
  return nullptr;
}
void* stop_profiler(Profiler*) {
  --g_recording;
  return nullptr;
}
// The first call asks for the size.
void* collect_data(Data* args) {
  if (args->buffer != nullptr) std::memcpy(args->buffer, kRecorded, std::strlen(kRecorded));
  args->size = std::strlen(kRecorded);
  return nullptr;
}

struct ProfilerTable {
  size_t struct_size = sizeof(ProfilerTable);
  void* priv = nullptr;
  void (*destroy_failure_)(Failed*) = destroy_failure;
  void (*message)(Message*) = failure_message;
  void* code = nullptr;
  void* (*create)(Create*) = create_profiler;
  void* (*destroy)(Profiler*) = destroy_profiler;
  void* (*start)(Profiler*) = start_profiler;
  void* (*stop)(Profiler*) = stop_profiler;
  void* (*collect)(Data*) = collect_data;
};
struct ProfilerExtension {
  PJRT_Extension_Base base;
  const ProfilerTable* table;
};

}  // namespace

// For the test: profilers, recordings and errors that are there.
extern "C" int fake_profiler_things() { return g_profilers + g_failures + g_recording; }

// For the test: errors that the caller still owes a PJRT_Error_Destroy.
extern "C" int fake_live_errors() { return g_live_errors; }

extern "C" const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api;
  api.struct_size = TESSERA_FAKE == 2 ? offsetof(PJRT_Api, PJRT_Client_Create) + 4 : size_t{PJRT_Api_STRUCT_SIZE};
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = TESSERA_FAKE == 1 ? 99 : PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = 7;
  api.PJRT_Error_Destroy = destroy_error;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_code;
  api.PJRT_Plugin_Initialize = initialize;
  api.PJRT_Plugin_Attributes = attributes;
  static const ProfilerTable table;
  static ProfilerExtension profiler{{sizeof(ProfilerExtension), PJRT_Extension_Type_Profiler, nullptr}, &table};
  if (TESSERA_FAKE >= 5) {
    api.extension_start = &profiler.base;
    api.PJRT_Client_Create = create_client;
  }
  return &api;
}
