#include "train/process/cuda_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// What processes tell each other; what none has told is missing at once.
class ToldValues final : public pjrt::KeyValues {
 public:
  void put(const std::string& key, const std::string& value) override { values_[key] = value; }
  std::string get(const std::string& key, std::chrono::milliseconds) override { return values_.at(key); }
  std::optional<std::string> find(const std::string& key) override {
    return values_.contains(key) ? std::optional(values_[key]) : std::nullopt;
  }

 private:
  Map values_;
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
  const auto values = std::make_shared<ToldValues>();
  values->put("devices/0", "another host");
  const pjrt::Options options = cuda_options({.process = 1, .processes = 2, .store = values});
  EXPECT_EQ(std::get<int64_t>(options.at("node_id")), 1);
  EXPECT_EQ(std::get<int64_t>(options.at("num_nodes")), 2);
  EXPECT_FALSE(options.contains("visible_devices"));
}

// As srun starts processes: each sees all GPUs of the job on its host.
TEST(CudaOptions, DivideGpusThatSeveralProcessesSee) {
  const auto own = [](int64_t process, const std::shared_ptr<ToldValues>& values) {
    return std::get<std::vector<int64_t>>(
        cuda_options({.process = process, .processes = 3, .store = values}).at("visible_devices"));
  };
  const auto values = std::make_shared<ToldValues>();
  values->put("devices/0", "another host");
  {
    const Variables seen(Map{{"CUDA_VISIBLE_DEVICES", "4,5,6,7"}});
    EXPECT_ANY_THROW(own(2, values)) << "process 1 has not told yet";
    values->put("devices/1", values->find("devices/2").value());
    EXPECT_EQ(own(2, values), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(own(1, values), (std::vector<int64_t>{0, 1}));
  }
  {
    const Variables seen(Map{{"CUDA_VISIBLE_DEVICES", "4,5,6"}});
    const auto others = std::make_shared<ToldValues>();
    others->put("devices/0", "another host");
    EXPECT_ANY_THROW(own(2, others));
    others->put("devices/1", others->find("devices/2").value());
    EXPECT_THROW(own(2, others), Error) << "3 GPUs over 2 processes";
  }
  // Of those that were given GPUs of their own none sees another's.
  const Variables given(Map{{"CUDA_VISIBLE_DEVICES", "3"}});
  EXPECT_FALSE(cuda_options({.process = 2, .processes = 3, .store = values}).contains("visible_devices"));
}

}  // namespace
}  // namespace tessera::train
