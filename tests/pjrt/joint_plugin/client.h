#pragma once
// Clients and devices: all processes' devices are there, and this process's alone are addressable.

#include <pjrt_c_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exchange.h"

namespace tessera::joint {

struct Client {
  PJRT_Client* inner = nullptr;
  std::vector<PJRT_Device*> devices;   // of all processes, as they are listed
  std::vector<PJRT_Device*> own;       // by id
  std::vector<PJRT_Memory*> memories;  // of own devices
  int64_t node = 0;
  std::mutex turn;                   // programs of several processes run one after the other
  std::optional<Exchange> exchange;  // with several processes
};

struct Place {
  int64_t id = 0;     // of the device, among all
  int64_t node = 0;   // the process that has it
  int64_t local = 0;  // its number there
  bool own = false;   // by the client's process
};

std::shared_ptr<Client> client_of(PJRT_Client* client);
Place place_of(PJRT_Device* device);

void put_client_functions(PJRT_Api& api);

}  // namespace tessera::joint
