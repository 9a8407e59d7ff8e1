#pragma once
// Keeps what plugins write to stderr off the terminal, and keeps it for error messages and crash files.

#include <cstddef>
#include <string>

namespace tessera::pjrt {

// To be called once, first thing in main, before other threads exist. From then on base/log writes to the terminal through a
// descriptor of its own, and descriptor 2, which plugins write to, is an anonymous file in memory. When the process dies of a
// signal (a plugin's own fatal check, for one), the end of that file is written to the terminal first. Where memory or threads
// are used up the process then names the limit and the signal and ends with exit code 4, else it dies of the signal. Where a plugin
// ends the process by itself (_exit), its fatal message is an error on the terminal and the exit code is 4.
// Does nothing in builds with AddressSanitizer or ThreadSanitizer, whose reports go to descriptor 2, nor when the environment
// has TESSERA_PLUGIN_STDERR=1.
void capture_stderr();
bool stderr_captured();

// The last `max_bytes` bytes that were written to descriptor 2; "" when it is not captured. Thread-safe.
std::string captured_stderr(size_t max_bytes = 16 << 10);

// How many bytes are captured by now, and the last `max_bytes` of those that came after so many. Those from before may be among
// them where trim_captured_stderr() dropped some since.
size_t captured_stderr_size();
std::string captured_stderr_since(size_t size, size_t max_bytes);

// Keeps the file small: drops all but its end once it has grown beyond 4 MiB. Called around the noisy PJRT calls.
void trim_captured_stderr();

}  // namespace tessera::pjrt
