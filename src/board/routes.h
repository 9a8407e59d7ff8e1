#pragma once
// What the page and others may ask for (docs/board.md).

#include <memory>
#include <string>
#include <vector>

#include "board/access.h"
#include "board/runs.h"
#include "http/message.h"

namespace tessera::board {

struct Route {
  const char* method;
  const char* path;   // or with all below it, where it ends in '/' and is not "/"
  bool open = false;  // needs no token
};
const std::vector<Route>& routes();

// Safe to use from several threads.
class Answers {
 public:
  // `runs` is somebody else's to keep up to date.
  Answers(std::shared_ptr<Runs> runs, Access access);
  ~Answers();

  http::Response answer(const http::Request& request);

 private:
  struct Parts;
  http::Response dispatch(const http::Request& request, const Route& route);

  const std::shared_ptr<Runs> runs_;
  const Access access_;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace tessera::board
