#pragma once
// Arrays that lie on devices of several processes: what the others' devices hold is kept here beside this process's buffers.

#include <pjrt_c_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace tessera::joint {

// One array of a program that ran on several processes. Shared by this process's buffers of it.
struct Array {
  explicit Array(std::string array_id) : id(std::move(array_id)) {}
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::string id;                           // the same in all processes, and no other array's
  std::map<int64_t, PJRT_Buffer*> shadows;  // by device id; taken
};

// What `buffer` is a part of. Nothing for what was uploaded, or computed by this process alone, and not yet used with others.
std::shared_ptr<const Array> array_of(PJRT_Buffer* buffer);
void set_array(PJRT_Buffer* buffer, std::shared_ptr<const Array> array);

// The bytes of `buffer`, dense and row-major; waits until they are computed.
std::string bytes_of(PJRT_Buffer* buffer);
// A buffer with the type and shape of `like` and these bytes.
PJRT_Buffer* upload(PJRT_Client* client, PJRT_Device* device, PJRT_Buffer* like, const std::string& bytes);

void put_buffer_functions(PJRT_Api& api);

}  // namespace tessera::joint
