#include "cluster/group/addresses.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::group {
namespace {

// As digits; nothing where it is none.
std::optional<std::string> text_of(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  if (::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return std::nullopt;
  return text;
}

// The first of a network that is up. IPv4 alone: IPv6 addresses of a link mean nothing to others without the link's name.
std::optional<std::string> first_interface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    constexpr unsigned kLeads = IFF_UP | IFF_RUNNING;
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & kLeads) != kLeads || one->ifa_flags & IFF_LOOPBACK) continue;
    if (auto found = text_of(one->ifa_addr, sizeof(sockaddr_in))) return found;
  }
  return std::nullopt;
}

// Of the interface that leads to the endpoint; without one, `problem` says why.
std::optional<std::string> leading_to(const http::Endpoint& at, std::string& problem) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found) != 0) {
    problem = fmt::format("`{}` has no address", at.text());
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  const int descriptor = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  std::optional<std::string> text;
  if (descriptor >= 0 && ::connect(descriptor, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
    text = text_of(reinterpret_cast<sockaddr*>(&own), length);
  }
  if (descriptor >= 0) ::close(descriptor);
  if (!text) problem = fmt::format("no network leads to `{}`", at.text());
  return text;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

}  // namespace

std::vector<http::Endpoint> parse_coordinator(const std::string& text, const std::string& key) {
  std::vector<http::Endpoint> members;
  for (const std::string& one : split(text, ',')) {
    auto at = http::parse_endpoint(trim(one), "2379");
    if (!at) return {};
    at->key = key;
    members.push_back(std::move(*at));
  }
  return members;
}

std::string address_towards(const std::string& coordinator) {
  std::string problem = fmt::format("`{}` has no address", coordinator);
  std::optional<std::string> loopback;
  for (const http::Endpoint& at : parse_coordinator(coordinator)) {
    auto own = leading_to(at, problem);
    if (!own) continue;
    if (!is_loopback(*own)) return std::move(*own);
    if (!loopback) loopback = std::move(own);
  }
  if (loopback) return std::move(*loopback);
  throw device_error(problem, "--coordinator-address");
}

std::string own_address() {
  try {
    return address_towards("192.0.2.1");  // an address for documentation (RFC 5737)
  } catch (const Error&) {                // hosts of a cluster may have no way out of its network
    return first_interface().value_or("127.0.0.1");
  }
}

}  // namespace tessera::group
