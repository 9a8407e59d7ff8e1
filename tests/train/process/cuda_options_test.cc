#include "train/process/cuda_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"

namespace tessera::train {
namespace {

using Map = std::map<std::string, std::string>;

// Variables of the environment, while this lives.
class Variables {
 public:
  explicit Variables(Map values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  const Map values_;
};

TEST(CudaOptions, AreJaxsVariablesOfMemory) {
  EXPECT_TRUE(cuda_options({}).empty());
  {
    const Variables older(Map{{"XLA_PYTHON_CLIENT_MEM_FRACTION", ".5"}, {"XLA_PYTHON_CLIENT_PREALLOCATE", "False"}});
    const pjrt::Options options = cuda_options({});
    EXPECT_EQ(std::get<double>(options.at("memory_fraction")), 0.5);
    EXPECT_FALSE(std::get<bool>(options.at("preallocate")));
    const Variables newer(Map{{"XLA_CLIENT_MEM_FRACTION", "0.25"}, {"XLA_CLIENT_ALLOCATOR", "platform"}});
    const pjrt::Options both = cuda_options({});
    EXPECT_EQ(std::get<double>(both.at("memory_fraction")), 0.25);
    EXPECT_EQ(std::get<std::string>(both.at("allocator")), "platform");
  }
  for (const char* wrong : {"0", "1.5", "half", "0.5x", "nan"}) {
    const Variables variable(Map{{"XLA_CLIENT_MEM_FRACTION", wrong}});
    try {
      cuda_options({});
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      EXPECT_EQ(error.where(), "XLA_CLIENT_MEM_FRACTION");
    }
  }
}

TEST(CudaOptions, TellTheProcessOfAGroup) {
  pjrt::ClientGroup group{.process = 1, .processes = 4};
  const pjrt::Options options = cuda_options(group);
  EXPECT_EQ(std::get<int64_t>(options.at("node_id")), 1);
  EXPECT_EQ(std::get<int64_t>(options.at("num_nodes")), 4);
  EXPECT_FALSE(options.contains("visible_devices"));
  // GPUs that it was given are its own, however many processes are on this machine.
  group.local_process = 1;
  group.local_processes = 2;
  const Variables given(Map{{"CUDA_VISIBLE_DEVICES", "3"}});
  EXPECT_FALSE(cuda_options(group).contains("visible_devices"));
}

}  // namespace
}  // namespace tessera::train
