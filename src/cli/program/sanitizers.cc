// Linked into programs that are built with a sanitizer (TESSERA_SANITIZE): reports that are not about our code, by name.

// Names that the sanitizers' run-time libraries look for.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
extern "C" {
const char* __lsan_default_suppressions();
const char* __tsan_default_suppressions();

// The plugin keeps its thread pools, type tables and compiled code until the process ends.
const char* __lsan_default_suppressions() { return "leak:xla_cpu_pjrt.so\n"; }

// The plugin and Arrow are not instrumented: how their threads hand values to each other, and to ours, goes unseen. That is also
// how a test learns that a program is done with its exchange.
const char* __tsan_default_suppressions() {
  return "race:xla_cpu_pjrt.so\n"
         "race:libarrow.so\n"
         "race:tessera::group::Exchange::~Exchange\n";
}
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
