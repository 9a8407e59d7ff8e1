#pragma once
// The order of collectives in a program that the CPU plugin has serialised.
//
// Devices wait for one another in each collective, so all of them have to start theirs in one order. In a program that the plugin
// compiled, whatever uses the communicator keeps its place. In one that it loads, each sequence of operations (the program's own,
// a loop's body, a called function's) has a communicator of its own: a loop with a collective in its body and a collective beside
// it may then start in any order, and two devices that start different ones first wait for ever.
//
// What survives is the order of operations that use the same memory. So between two such neighbours goes a loop that never runs:
// it is said to read what the first one writes, and to write what the second one writes. This costs no time and moves no number.
//
// Messages: xla/service/cpu/executable.proto and xla/backends/cpu/runtime/thunk.proto.

#include <optional>
#include <string>
#include <string_view>

namespace tessera::pjrt {

// `serialized` is what Executable::serialize gave on CPU devices; the result is for Client::deserialize. Nothing where the bytes
// are not of the form above, as those of another version of the plugin may be: such a program is not safe to load.
std::optional<std::string> with_collectives_in_order(std::string_view serialized);

}  // namespace tessera::pjrt
