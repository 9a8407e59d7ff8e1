#pragma once
// One CPU client for all tests of the program, and small helpers.

#include <memory>
#include <string>
#include <vector>

#include "base/shape.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin/plugin.h"
#include "support/paths.h"

namespace tessera::pjrt {

inline std::shared_ptr<Plugin> cpu_plugin() { return Plugin::load(testing::cpu_plugin_path()); }

inline std::shared_ptr<Client> cpu_client() {
  static const std::shared_ptr<Client> client = Client::create(cpu_plugin());
  return client;
}

template <class T>
Buffer upload(const Client& client, const std::vector<T>& values, DType dtype, Dims dims, size_t device = 0) {
  return client.to_device(values.data(), {dtype, std::move(dims)}, device);
}

// What `f` throws as text; fails the test's expectation when it throws nothing.
template <class Error, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace tessera::pjrt
