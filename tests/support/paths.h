#pragma once
// Where the checkout, the plugin and what the build made lie. Only paths.cc is compiled with these places, so that the compiler
// cache serves the tests of every checkout.

#include <string>

namespace tessera::testing {

// `inside`, relative to the root of the checkout, as an absolute path.
std::string source_path(const std::string& inside);
std::string cpu_plugin_path();
// The program `tessera`.
std::string program_path();
// Python with pyarrow; empty where ./dev parquet-deps was not run.
std::string python_path();
// Python with TensorBoard; empty where ./dev did not install it.
std::string tensorboard_python_path();
// Python with xprof; empty where ./dev did not install it.
std::string xprof_python_path();
// Python with W&B and MLflow; empty where ./dev did not install it.
std::string trackers_python_path();
// Python with servers of S3 and Google Cloud Storage; empty where ./dev did not install it.
std::string buckets_python_path();
// Python with JAX; empty where ./dev did not install it.
std::string jax_python_path();
// An environment that tools/references/run.sh makes, of the name "references" (timm and torch) or "references-transformers"; empty
// where it is not whole. Looked up when asked for: ./dev test makes both while it builds.
std::string references_path(const std::string& name);
// Where this test program keeps compiled programs, for its next process and its next time, in any checkout: beside what compilers
// keep, in the user's directory of caches. Where there is none to write to, as build_cache_path().
std::string cache_path();
// For XDG_CONFIG_HOME of programs that tests start: the key there seals what they keep in cache_path(), and so lasts as long.
std::string config_path();
// What it keeps of this build.
std::string build_cache_path();
// A file with one line for each source of the test programs, relative to tests/.
std::string test_sources_path();
// A library to preload (tests/cli/odd_files).
std::string odd_files_path();
// Plugins that are wrong in one way each, 1 to 4, have a profiler, 5 and 6, or tell what chips do, 7 (tests/pjrt/fake_plugin).
std::string fake_plugin_path(int number);
// A plugin of several processes without GPUs (tests/pjrt/joint_plugin); support/joint_plugin.h says how a process gets it.
std::string joint_plugin_path();

}  // namespace tessera::testing
