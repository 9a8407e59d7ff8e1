#pragma once
// Addresses of this host, as others see it. Nothing is sent to find them.

#include <string>

namespace tessera::group {

// That of the interface that leads to `coordinator` (HOST or HOST:PORT). A device Error where none does.
std::string address_towards(const std::string& coordinator);

// That of the interface that leads out of this host's networks; where none does, that of the first one, and at last the loopback's.
std::string own_address();

}  // namespace tessera::group
