#pragma once
// Shared by commands that serve a page.

#include "pages/board/board.h"

namespace tessera::cli {

// Where the page is, with the token that opens it: to stdout, so that it stands in no log.
void tell_of_page(const board::Board& page, const board::Address& asked);

}  // namespace tessera::cli
