#include "pages/board/assets.h"

#include <map>

#include "pages/report/style.h"

// Made of the files by cmake/embed.cmake.
namespace tessera::board::embedded {
extern const std::string_view index_html, board_css, board_js, dygraph_js, dygraph_css;
}

namespace tessera::board {

const Asset* find_asset(std::string_view name) {
  static const std::string css = "text/css; charset=utf-8", script = "text/javascript; charset=utf-8";
  static const std::map<std::string_view, Asset> all = {{"", {"text/html; charset=utf-8", embedded::index_html}},
                                                        {"board.css", {css, embedded::board_css}},
                                                        {"board.js", {script, embedded::board_js}},
                                                        {"dygraph.css", {css, embedded::dygraph_css}},
                                                        {"dygraph.js", {script, embedded::dygraph_js}},
                                                        {"report.css", {css, report::kStyle}}};
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace tessera::board
