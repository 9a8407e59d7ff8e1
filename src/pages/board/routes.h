#pragma once
// What the page and others may ask for (docs/board.md).

#include <memory>
#include <string>
#include <vector>

#include "http/message.h"
#include "pages/board/access.h"
#include "pages/board/kept_parts.h"
#include "pages/board/runs.h"

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

  http::Response answer(const http::Request& request);

 private:
  http::Response dispatch(const http::Request& request, const Route& route);

  const std::shared_ptr<Runs> runs_;
  const Access access_;
  KeptParts parts_;
};

}  // namespace tessera::board
