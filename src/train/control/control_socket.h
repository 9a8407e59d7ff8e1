#pragma once
// <workdir>/control.sock: how other processes of the same user ask something of a run while it trains.
//
// A connection carries one request and its answer, each one line of JSON:
//   {"do": "checkpoint"}   {"ok": true, "step": 120, "path": "checkpoints/step_000000120"}, once it is committed
//                            (paths are those in the workdir)
//   {"do": "profile", "seconds": 10}   {"ok": true, "directory": "plugins/profile/…", "xplane": "…", "trace": "…",
//                            "summary": "…", "table": "…"}, once it is written; `seconds` is at most kMaxProfileSeconds
//   {"do": "stop"}         {"ok": true}, at once; the run ends as after Ctrl-C
//   anything else, and what fails   {"ok": false, "error": "…"}
// A request has at most kMaxRequestBytes. The socket has mode 600, and only the user of the run, and root, are answered.

#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "train/control/control.h"

namespace tessera::train {

inline constexpr const char* kControlSocket = "control.sock";
inline constexpr size_t kMaxRequestBytes = 4096;
inline constexpr double kMaxProfileSeconds = 600;

// The socket and the thread that answers. Clients that are silent, slow or many hold neither the run nor its end.
class ControlSocket {
 public:
  // Only for who holds the workdir's lock: a socket that is there was left by a dead run, and is replaced. Where none can be
  // made (a read-only place, a file system without sockets), a warning says so. `control` is borrowed.
  ControlSocket(const std::string& workdir, RunControl& control);
  // Sends the answers that are known, and removes the socket.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  class Server;
  std::unique_ptr<Server> server_;  // null: there is none
};

// Whether the run of a workdir can be asked now. Never waits, and never throws.
bool is_training(const std::string& workdir);

// Sends a request to the run of a workdir and gives its answer. Throws a usage Error where there is no run or it is not
// training, and a data Error for an answer that is no `ok`, or that does not come (within `patience`, where there is one).
nlohmann::ordered_json ask_run(const std::string& workdir, const nlohmann::ordered_json& request,
                               std::optional<std::chrono::milliseconds> patience = {});

}  // namespace tessera::train
