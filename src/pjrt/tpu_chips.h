#pragma once

#include <string>

namespace tessera::pjrt {

// How many TPU chips this machine has on its PCI bus, by the ids that JAX knows (jax/_src/hardware_utils.py); 0 where the bus
// can't be read. `bus` is a parameter for tests.
int tpu_chips(const std::string& bus = "/sys/bus/pci/devices");

}  // namespace tessera::pjrt
