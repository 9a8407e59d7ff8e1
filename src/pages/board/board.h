#pragma once
// The live page: a server beside a run, or for the runs of directories (docs/board.md). It knows about runs what their
// directories hold, and sends requests to their control sockets (train/control/control_socket.h). So it works the same inside
// the trainer and outside.

#include <memory>
#include <string>
#include <vector>

#include "pages/board/address.h"

namespace tessera::board {

struct BoardOptions {
  std::vector<std::string> paths;  // as Runs takes them
  bool expected = false;           // a run will begin in the first
  Address address;                 // the next free port is taken where its port is not free
};

class Board {
 public:
  // Serves when it returns. Throws a usage Error where no port is free.
  explicit Board(const BoardOptions& options);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Where it is served, and with the token that opens it.
  const Address& address() const { return address_; }
  std::string url() const;

 private:
  class Watch;
  Address address_;
  std::string token_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace tessera::board
