#include "cluster/group/addresses.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "base/error.h"
#include "http/client.h"

namespace tessera::group {

std::string address_towards(const std::string& coordinator) {
  const auto at = http::parse_endpoint(coordinator, "2379");
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (!at || ::getaddrinfo(at->host.c_str(), at->port.c_str(), &hints, &found) != 0)
    throw device_error(fmt::format("`{}` has no address", coordinator), "--coordinator-address");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  const int descriptor = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  char text[NI_MAXHOST] = "";
  const bool good =
      descriptor >= 0 && ::connect(descriptor, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
  if (descriptor >= 0) ::close(descriptor);
  if (!good) throw device_error(fmt::format("no network leads to `{}`", coordinator), "--coordinator-address");
  return text;
}

std::string own_address() {
  try {
    return address_towards("192.0.2.1");  // an address for documentation (RFC 5737)
  } catch (const Error&) {
    return "127.0.0.1";
  }
}

}  // namespace tessera::group
