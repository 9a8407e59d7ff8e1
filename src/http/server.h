#pragma once
// An HTTP/1.1 server for a page beside other work: one thread reads and writes, a few more make the answers, and all of them give
// way to everything else on the machine's processors. Boost.Beast; no TLS.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace tessera::http {

struct ServerOptions {
  std::string address = "127.0.0.1";  // of an interface
  uint16_t port = 0;                  // 0: one that is free
  int ports = 1;                      // so many from `port` on are tried, until one is free
  // What is more is refused (503, 413, 431) or cut off.
  size_t connections = 256, event_streams = 64;
  size_t header_bytes = size_t{16} << 10, body_bytes = size_t{64} << 10;
  std::chrono::milliseconds idle = std::chrono::seconds(30);       // a request is not there whole, or no next one comes
  std::chrono::milliseconds heartbeat = std::chrono::seconds(15);  // comments on event streams, which find readers that left
};

struct ServerState;

class Server {
 public:
  // On one of several threads, so that what it holds must be safe for that. What it throws is 500 and a warning, once; a failed
  // check of ours (InternalError) ends the program.
  using Handler = std::function<Response(const Request&)>;

  // An answer that is there already, so that no thread need make it. On the thread that serves all readers: it must not wait.
  using AtHand = std::function<std::optional<Response>(const Request&)>;

  // Listens when it returns. Throws a usage Error where no port is free, or the address is none of this machine's.
  Server(const ServerOptions& options, Handler handler, AtHand at_hand = nullptr);
  // Closes all connections. An answer that still hangs, on a disk say, is left behind with a copy of the handler.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  // To everyone who listens for events (Response::events): "event: name\ndata: data\n\n". `data` is one line. A reader that is too
  // far behind is cut off, and will come again. Never waits; from any thread.
  void send_event(std::string_view name, std::string_view data);
  size_t event_streams() const;

 private:
  std::shared_ptr<ServerState> state_;  // the workers' too
};

}  // namespace tessera::http
