#pragma once
// Addresses of this host, as others see it. Nothing is sent to find them.

#include <string>
#include <vector>

#include "http/client.h"

namespace tessera::group {

// The members of an etcd, of "HOST:PORT,HOST:PORT"; one where there is no comma. A port that is left out is 2379. Empty where one
// of them is no address. `key` as Place::key.
std::vector<http::Endpoint> parse_coordinator(const std::string& text, const std::string& key = {});

// That of the interface that leads to `coordinator` (HOST, HOST:PORT, or several of them with commas: the first that a network
// leads to; past those on this host itself, whose loopback the others don't reach, where another is not). A device Error where
// none does.
std::string address_towards(const std::string& coordinator);

// That of the interface that leads out of this host's networks; where none does, that of the first one, and at last the loopback's.
std::string own_address();

}  // namespace tessera::group
