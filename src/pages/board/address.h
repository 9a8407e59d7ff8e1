#pragma once
// Where a page is served: "127.0.0.1:6070", "6070", "localhost:6070", "[::1]:6070".

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::board {

inline constexpr uint16_t kDefaultPort = 6070;

struct Address {
  std::string host = "127.0.0.1";
  uint16_t port = kDefaultPort;  // 0: one that is free

  // "http://127.0.0.1:6070/"
  std::string url() const;
};

// A usage Error for what is no address, and for one that other machines reach: the page speaks no TLS, so that whoever listens on
// the way would have the run. `text` may be empty.
Address parse_address(std::string_view text);

// Whether the value of a Host header (or what follows "://" in an Origin) is a loopback name of this machine, as localhost or
// 127.0.0.1, on any port. A page of somebody else's that leads here has another name.
bool is_loopback_host(std::string_view host);

}  // namespace tessera::board
