#pragma once
// Whether the CPU plugin's matrix products can be trusted where memory is short.

#include "pjrt/client.h"

namespace tessera::train {

// The plugin's products are functions that oneDNN writes into memory at the first of them. Where the system refuses that memory
// (ulimit -v), the plugin goes on without a word, and each product is zero for as long as the process lives. So where there is
// such a limit this does the first product itself, on 128 x 128 integers, while enough memory is known to be left. Throws
// std::bad_alloc where it isn't, or where the product is wrong. Without a limit it does nothing.
void check_products(const pjrt::Client& client);

}  // namespace tessera::train
