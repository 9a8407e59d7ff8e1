#pragma once
// What the page and others may ask for (docs/board.md).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/message.h"
#include "pages/board/access.h"
#include "pages/board/kept_answers.h"
#include "pages/board/kept_parts.h"
#include "pages/board/runs/runs.h"

namespace tessera::board {

struct Route {
  const char* method;
  const char* path;   // or with all below it, where it ends in '/' and is not "/"
  bool open = false;  // needs no token
  bool kept = false;  // the same for all who ask, until the runs' files are looked at again
};
const std::vector<Route>& routes();

// Safe to use from several threads.
class Answers {
 public:
  // `runs` is somebody else's to keep up to date.
  Answers(std::shared_ptr<Runs> runs, Access access);

  http::Response answer(const http::Request& request);
  // What answer() would give, where another reader was answered the same since the last look. Does not wait.
  std::optional<http::Response> at_hand(const http::Request& request) const;
  // Whoever keeps the runs up to date looked at their files.
  void looked();

 private:
  http::Response dispatch(const http::Request& request, const Route& route);

  const std::shared_ptr<Runs> runs_;
  const Access access_;
  KeptParts parts_;
  KeptAnswers answers_;
};

}  // namespace tessera::board
