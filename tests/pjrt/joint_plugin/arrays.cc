#include "arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "client.h"
#include "inner.h"
#include "table.h"

namespace tessera::joint {
namespace {

Table<PJRT_Buffer*, std::shared_ptr<const Array>>& arrays() {
  static auto& table = *new Table<PJRT_Buffer*, std::shared_ptr<const Array>>();
  return table;
}

// Another process's device can be written to by its own process alone.
void check_destination(const PJRT_Client_BufferFromHostBuffer_Args& args) {
  const auto client = client_of(args.client);
  if (args.memory != nullptr) {
    if (std::find(client->memories.begin(), client->memories.end(), args.memory) != client->memories.end()) return;
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "an upload to memory of another process's device");
  }
  const Place place = place_of(args.device);
  if (place.own) return;
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, fmt::format("an upload to device {}, which is process {}'s; this one is {}",
                                                              place.id, place.node, client->node));
}

}  // namespace

Array::~Array() {
  for (const auto& [device, buffer] : shadows) {
    PJRT_Buffer_Destroy_Args args{.struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE, .buffer = buffer};
    inner()->PJRT_Buffer_Destroy(&args);
  }
}

std::shared_ptr<const Array> array_of(PJRT_Buffer* buffer) { return arrays().find(buffer).value_or(nullptr); }

void set_array(PJRT_Buffer* buffer, std::shared_ptr<const Array> array) { arrays().put(buffer, std::move(array)); }

std::string bytes_of(PJRT_Buffer* buffer) {
  std::vector<int64_t> minor_to_major(INNER(PJRT_Buffer_Dimensions)({.buffer = buffer}).num_dims);
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  PJRT_Buffer_MemoryLayout layout{.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE};
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
                  .minor_to_major = minor_to_major.data(),
                  .minor_to_major_size = minor_to_major.size()};
  std::string bytes(INNER(PJRT_Buffer_ToHostBuffer)({.src = buffer, .host_layout = &layout}).dst_size, '\0');
  await(INNER(PJRT_Buffer_ToHostBuffer)({.src = buffer, .host_layout = &layout, .dst = bytes.data(), .dst_size = bytes.size()})
            .event);
  return bytes;
}

PJRT_Buffer* upload(PJRT_Client* client, PJRT_Device* device, PJRT_Buffer* like, const std::string& bytes) {
  const auto dims = INNER(PJRT_Buffer_Dimensions)({.buffer = like});
  const auto out =
      INNER(PJRT_Client_BufferFromHostBuffer)({.client = client,
                                               .data = bytes.data(),
                                               .type = INNER(PJRT_Buffer_ElementType)({.buffer = like}).type,
                                               .dims = dims.dims,
                                               .num_dims = dims.num_dims,
                                               .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
                                               .device = device});
  await(out.done_with_host_buffer);
  return out.buffer;
}

void put_buffer_functions(PJRT_Api& api) {
  api.PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    return guarded([&] {
      check_destination(*args);
      check(inner()->PJRT_Client_BufferFromHostBuffer(args));
    });
  };
  // Before the inner plugin frees the handle, which it may give to another buffer.
  api.PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args* args) {
    arrays().take(args->buffer);
    return inner()->PJRT_Buffer_Destroy(args);
  };
  api.PJRT_Buffer_Delete = [](PJRT_Buffer_Delete_Args* args) {
    arrays().take(args->buffer);
    return inner()->PJRT_Buffer_Delete(args);
  };
}

}  // namespace tessera::joint
