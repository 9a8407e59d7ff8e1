// The plugin that tests of several processes load (tests/pjrt/joint_plugin), its processes as threads of this one.

#include "support/joint_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pjrt_c_api.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pjrt/cache.h"
#include "pjrt/pjrt_testing.h"
#include "pjrt/plugin/call.h"
#include "pjrt/program/c_arguments.h"
#include "store/temp_dir.h"

namespace tessera::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kDevices = 4;  // two of each process

// x over all devices, with its sum on each.
constexpr const char* kSum = R"(module @sum attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["d"=4]>
  func.func public @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>})
      -> (tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %sum : tensor<f32>
  }
})";

// (w, g) -> (w + sum(g), sum(w)), both over all devices; w's memory becomes the first result.
constexpr const char* kStep = R"(module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["d"=4]>
  func.func public @main(%w: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>, tf.aliasing_output = 0 : i32},
                         %g: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>})
      -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>}, tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %gs = stablehlo.reduce(%g init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %ws = stablehlo.reduce(%w init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %all = stablehlo.broadcast_in_dim %gs, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %new = stablehlo.add %w, %all : tensor<4xf32>
    return %new, %ws : tensor<4xf32>, tensor<f32>
  }
})";

constexpr const char* kTwice = R"(module @twice {
  func.func public @main(%x: tensor<1xf32>) -> tensor<1xf32> {
    %y = stablehlo.add %x, %x : tensor<1xf32>
    return %y : tensor<1xf32>
  }
})";

// The store of keys and values that the processes meet at.
class Store {
 public:
  void lend(PJRT_Client_Create_Args& args) {
    args.kv_get_user_arg = args.kv_put_user_arg = args.kv_try_get_user_arg = this;
    args.kv_put_callback = [](PJRT_KeyValuePutCallback_Args* put) -> PJRT_Error* {
      auto* store = static_cast<Store*>(put->user_arg);
      const std::scoped_lock lock(store->mutex_);
      store->values_[std::string(put->key, put->key_size)] = std::string(put->value, put->value_size);
      store->changed_.notify_all();
      return nullptr;
    };
    args.kv_get_callback = [](PJRT_KeyValueGetCallback_Args* get) -> PJRT_Error* { return give(*get, true); };
    args.kv_try_get_callback = [](PJRT_KeyValueTryGetCallback_Args* get) -> PJRT_Error* { return give(*get, false); };
  }
  std::map<std::string, std::string> values() {
    const std::scoped_lock lock(mutex_);
    return values_;
  }

 private:
  template <class Args>
  static PJRT_Error* give(Args& args, bool wait) {
    auto* store = static_cast<Store*>(args.user_arg);
    const std::string key(args.key, args.key_size);
    std::unique_lock lock(store->mutex_);
    if (wait) store->changed_.wait(lock, [&] { return store->values_.contains(key); });
    const auto found = store->values_.find(key);
    if (found == store->values_.end()) return (*args.callback_error)(PJRT_Error_Code_NOT_FOUND, key.data(), key.size());
    args.value_size = found->second.size();
    args.value = new char[args.value_size];
    std::memcpy(args.value, found->second.data(), args.value_size);
    args.value_deleter_callback = [](char* value) { delete[] value; };
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

using Buffers = std::vector<PJRT_Buffer*>;

// One process: its client, and what it made, which is destroyed with it.
class Process {
 public:
  Process(std::shared_ptr<Plugin> plugin, const Options& options, Store* store) : plugin_(std::move(plugin)) {
    const std::vector<PJRT_NamedValue> values = named_values(options);
    PJRT_Client_Create_Args args{.create_options = values.data(), .num_options = values.size()};
    if (store != nullptr) store->lend(args);
    client_ = PJRT(*plugin_, PJRT_Client_Create)(args).client;
  }
  ~Process() {
    for (PJRT_Buffer* buffer : made_) PJRT(*plugin_, PJRT_Buffer_Destroy).quietly({.buffer = buffer});
    for (PJRT_LoadedExecutable* program : programs_) {
      PJRT(*plugin_, PJRT_LoadedExecutable_Destroy).quietly({.executable = program});
    }
    PJRT(*plugin_, PJRT_Client_Destroy).quietly({.client = client_});
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  std::vector<PJRT_Device*> all_devices() const {
    const auto found = PJRT(*plugin_, PJRT_Client_Devices)({.client = client_});
    return {found.devices, found.devices + found.num_devices};
  }
  std::vector<PJRT_Device*> devices() const {
    const auto found = PJRT(*plugin_, PJRT_Client_AddressableDevices)({.client = client_});
    return {found.addressable_devices, found.addressable_devices + found.num_addressable_devices};
  }
  int id(PJRT_Device* device) const {
    return PJRT(*plugin_, PJRT_DeviceDescription_Id)({.device_description = description(device)}).id;
  }
  int process_of(PJRT_Device* device) const {
    return PJRT(*plugin_, PJRT_DeviceDescription_ProcessIndex)({.device_description = description(device)}).process_index;
  }
  bool addressable(PJRT_Device* device) const {
    return PJRT(*plugin_, PJRT_Device_IsAddressable)({.device = device}).is_addressable;
  }
  int index() const { return PJRT(*plugin_, PJRT_Client_ProcessIndex)({.client = client_}).process_index; }

  PJRT_Buffer* upload(float value, PJRT_Device* device) {
    const std::array<int64_t, 1> dims = {1};
    const auto out = PJRT(
        *plugin_, PJRT_Client_BufferFromHostBuffer)({.client = client_,
                                                     .data = &value,
                                                     .type = PJRT_Buffer_Type_F32,
                                                     .dims = dims.data(),
                                                     .num_dims = 1,
                                                     .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
                                                     .device = device});
    Event(*plugin_, out.done_with_host_buffer).await();
    return made_.emplace_back(out.buffer);
  }
  // `first` on device 0, first + 1 on device 1, and so on; of these, this process's.
  Buffers upload_from(float first) {
    Buffers buffers;
    for (PJRT_Device* device : devices()) buffers.push_back(upload(first + static_cast<float>(id(device)), device));
    return buffers;
  }
  float read(PJRT_Buffer* buffer) const {
    float value = 0;
    Event(*plugin_, PJRT(*plugin_, PJRT_Buffer_ToHostBuffer)({.src = buffer, .dst = &value, .dst_size = sizeof value}).event)
        .await();
    return value;
  }
  std::vector<float> read(const Buffers& buffers) const {
    std::vector<float> values;
    for (PJRT_Buffer* buffer : buffers) values.push_back(read(buffer));
    return values;
  }
  bool deleted(PJRT_Buffer* buffer) const { return PJRT(*plugin_, PJRT_Buffer_IsDeleted)({.buffer = buffer}).is_deleted; }

  PJRT_LoadedExecutable* compile(const char* text, const CompileOptions& options) {
    const std::string proto = compile_options_proto(options);
    const PJRT_Program program = mlir_program(text);
    return programs_.emplace_back(
        PJRT(*plugin_, PJRT_Client_Compile)(
            {.client = client_, .program = &program, .compile_options = proto.data(), .compile_options_size = proto.size()})
            .executable);
  }
  // Its arguments and outputs are for all own devices, or for the first.
  std::vector<Buffers> run(PJRT_LoadedExecutable* program, const std::vector<Buffers>& arguments, size_t outputs) {
    const size_t devices = arguments[0].size();
    std::vector<Buffers> inputs(devices), results(devices, Buffers(outputs));
    std::vector<PJRT_Buffer* const*> input_lists;
    std::vector<PJRT_Buffer**> output_lists;
    for (size_t d = 0; d < devices; ++d) {
      for (const Buffers& argument : arguments) inputs[d].push_back(argument[d]);
      input_lists.push_back(inputs[d].data());
      output_lists.push_back(results[d].data());
    }
    std::vector<PJRT_Event*> complete(devices);
    PJRT_ExecuteOptions options{.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
    PJRT(*plugin_, PJRT_LoadedExecutable_Execute)
    ({.executable = program,
      .options = &options,
      .argument_lists = input_lists.data(),
      .num_devices = devices,
      .num_args = arguments.size(),
      .output_lists = output_lists.data(),
      .device_complete_events = complete.data()});
    for (PJRT_Event* event : complete) Event(*plugin_, event);  // no wait, as in training: reading waits
    std::vector<Buffers> by_output(outputs);
    for (const Buffers& list : results) {
      for (size_t j = 0; j < outputs; ++j) by_output[j].push_back(made_.emplace_back(list[j]));
    }
    return by_output;
  }

 private:
  PJRT_DeviceDescription* description(PJRT_Device* device) const {
    return PJRT(*plugin_, PJRT_Device_GetDescription)({.device = device}).device_description;
  }

  std::shared_ptr<Plugin> plugin_;
  PJRT_Client* client_ = nullptr;
  Buffers made_;
  std::vector<PJRT_LoadedExecutable*> programs_;
};

class JointPlugin : public ::testing::Test {
 protected:
  JointPlugin() {
    for (const auto& [name, value] : testing::joint_plugin_environment(directory_.path(), 2)) set(name, value);
    plugin_ = Plugin::load(testing::joint_plugin_path());
  }
  ~JointPlugin() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  void set(const std::string& name, const std::string& value) {
    const char* before = std::getenv(name.c_str());
    before_.emplace(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
    ::setenv(name.c_str(), value.c_str(), 1);
  }

  std::unique_ptr<Process> process(int64_t node, int64_t nodes = 2) {
    return std::make_unique<Process>(plugin_, Options{{"node_id", node}, {"num_nodes", nodes}}, &store_);
  }
  // `f` of both processes at the same time; what each throws, "" where nothing.
  std::vector<std::string> both(const std::function<void(Process&)>& f) {
    std::vector<std::string> errors(2);
    std::vector<std::thread> threads;
    for (size_t node = 0; node < 2; ++node) {
      threads.emplace_back([&, node] {
        try {
          if (!processes_[node]) processes_[node] = process(static_cast<int64_t>(node));
          f(*processes_[node]);
        } catch (const std::exception& error) {
          errors[node] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  testing::TempDir directory_;
  Store store_;
  std::map<std::string, std::optional<std::string>> before_;  // the environment, to be put back
  std::shared_ptr<Plugin> plugin_;
  std::array<std::unique_ptr<Process>, 2> processes_;
};

const CompileOptions kAll{.num_partitions = kDevices, .device_ids = {0, 1, 2, 3}};

TEST_F(JointPlugin, EachProcessSeesAllDevicesAndHasItsOwn) {
  EXPECT_THAT(both([&](Process& process) {
                const std::vector<PJRT_Device*> all = process.all_devices(), own = process.devices();
                ASSERT_EQ(all.size(), 4u);
                ASSERT_EQ(own.size(), 2u);
                for (int id = 0; id < 4; ++id) {
                  EXPECT_EQ(process.id(all[id]), id);
                  EXPECT_EQ(process.process_of(all[id]), id / 2);
                  EXPECT_EQ(process.addressable(all[id]), id / 2 == process.index());
                }
                for (int local = 0; local < 2; ++local) EXPECT_EQ(process.id(own[local]), 2 * process.index() + local);
              }),
              Each(""));
  EXPECT_TRUE(store_.values().contains("local_topology/cuda/0"));
  EXPECT_TRUE(store_.values().contains("local_topology/cuda/1"));
}

TEST_F(JointPlugin, ListsDevicesInAnotherOrderWhenAsked) {
  set("TESSERA_JOINT_SHUFFLED", "1");
  EXPECT_THAT(both([&](Process& process) {
                std::vector<int> ids;
                for (PJRT_Device* device : process.all_devices()) ids.push_back(process.id(device));
                EXPECT_THAT(ids, ElementsAre(2, 0, 3, 1));
                EXPECT_EQ(process.id(process.devices()[0]), 2 * process.index());
              }),
              Each(""));
}

TEST_F(JointPlugin, SumsOverAllDevices) {
  EXPECT_THAT(both([&](Process& process) {
                PJRT_LoadedExecutable* sum = process.compile(kSum, kAll);
                EXPECT_THAT(process.read(process.run(sum, {process.upload_from(1)}, 1)[0]), ElementsAre(10, 10));
                EXPECT_THAT(process.read(process.run(sum, {process.upload_from(2)}, 1)[0]), ElementsAre(14, 14));
              }),
              Each(""));
}

// g is uploaded once and used twice, w is each run's first output.
TEST_F(JointPlugin, OutputsAreArgumentsAndAreDonated) {
  EXPECT_THAT(both([&](Process& process) {
                PJRT_LoadedExecutable* step = process.compile(kStep, kAll);
                const Buffers w = process.upload_from(0), g = process.upload_from(1);
                const std::vector<Buffers> first = process.run(step, {w, g}, 2);
                EXPECT_TRUE(process.deleted(w[0]) && process.deleted(w[1]));
                EXPECT_FALSE(process.deleted(g[0]) || process.deleted(g[1]));
                EXPECT_THAT(process.read(first[1]), ElementsAre(6, 6));
                const std::vector<Buffers> second = process.run(step, {first[0], g}, 2);
                EXPECT_TRUE(process.deleted(first[0][0]) && process.deleted(first[0][1]));
                EXPECT_THAT(process.read(second[1]), ElementsAre(46, 46));
                const auto id = static_cast<float>(2 * process.index());
                EXPECT_THAT(process.read(second[0]), ElementsAre(id + 20, id + 21));
                EXPECT_FALSE(process.deleted(g[0]));
              }),
              Each(""));
}

TEST_F(JointPlugin, RunsManyProgramsWithoutWaiting) {
  EXPECT_THAT(both([&](Process& process) {
                PJRT_LoadedExecutable* step = process.compile(kStep, kAll);
                const Buffers g = process.upload_from(1);
                std::vector<Buffers> last = {process.upload_from(0), {}};
                for (int i = 0; i < 50; ++i) last = process.run(step, {last[0], g}, 2);
                EXPECT_THAT(process.read(last[1]), Each(6 + 49 * 40));
              }),
              Each(""));
}

TEST_F(JointPlugin, OneProcessUploadsAnewWhereTheOtherDoesNot) {
  EXPECT_THAT(both([&](Process& process) {
                PJRT_LoadedExecutable* sum = process.compile(kSum, kAll);
                const Buffers x = process.upload_from(1);
                EXPECT_THAT(process.read(process.run(sum, {x}, 1)[0]), ElementsAre(10, 10));
                const Buffers y = process.index() == 0 ? x : process.upload_from(11);
                EXPECT_THAT(process.read(process.run(sum, {y}, 1)[0]), ElementsAre(30, 30));
                EXPECT_THAT(process.read(process.run(sum, {x}, 1)[0]), ElementsAre(10, 10));
              }),
              Each(""));
}

// It names no devices, and gets the process's own. The other process computes something else, which both then sum.
TEST_F(JointPlugin, ProgramsOfOneDeviceAreTheProcessesOwn) {
  EXPECT_THAT(both([&](Process& process) {
                PJRT_LoadedExecutable* sum = process.compile(kSum, kAll);
                PJRT_LoadedExecutable* twice = process.compile(kTwice, {});
                Buffers x = process.upload_from(1);
                for (int i = 0; i <= process.index(); ++i) x[0] = process.run(twice, {{x[0]}}, 1)[0][0];
                EXPECT_THAT(process.read(process.run(sum, {x}, 1)[0]), ElementsAre(2 + 2 + 12 + 4, 20));
                PJRT_LoadedExecutable* second = process.compile(kTwice, {.device_ids = {2 * process.index() + 1}});
                EXPECT_EQ(process.read(process.run(second, {{x[1]}}, 1)[0][0]), process.index() == 0 ? 4 : 8);
              }),
              Each(""));
  EXPECT_THAT(message_of<Error>([&] { processes_[0]->compile(kTwice, {.device_ids = {3}}); }),
              HasSubstr("INVALID_ARGUMENT: `twice` runs on no device of process 0"));
}

TEST_F(JointPlugin, SaysWhichProcessRunsAnotherProgram) {
  const auto errors = both([&](Process& process) {
    if (process.index() == 0) {
      process.run(process.compile(kSum, kAll), {process.upload_from(1)}, 1);
    } else {
      process.run(process.compile(kStep, kAll), {process.upload_from(1), process.upload_from(1)}, 2);
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("FAILED_PRECONDITION: process 1 runs `step`, this one `sum`"));
  EXPECT_THAT(errors[1], HasSubstr("FAILED_PRECONDITION: process 0 runs `sum`, this one `step`"));
}

TEST_F(JointPlugin, SaysWhichProcessDidNotCome) {
  EXPECT_THAT(both([](Process&) {}), Each(""));
  set("TESSERA_JOINT_PATIENCE", "0");
  Process& first = *processes_[0];
  PJRT_LoadedExecutable* sum = first.compile(kSum, kAll);
  EXPECT_THAT(message_of<Error>([&] { first.run(sum, {first.upload_from(1)}, 1); }),
              HasSubstr("UNAVAILABLE: `sum`: process 1 did not come within 0 s"));
}

TEST_F(JointPlugin, RefusesUploadsToOtherProcesses) {
  EXPECT_THAT(both([](Process&) {}), Each(""));
  Process& second = *processes_[1];
  EXPECT_THAT(message_of<Error>([&] { second.upload(1, second.all_devices()[1]); }),
              HasSubstr("INVALID_ARGUMENT: an upload to device 1, which is process 0's; this one is 1"));
}

TEST_F(JointPlugin, RefusesOptionsAsThePluginForCudaDoes) {
  EXPECT_THAT(message_of<Error>([&] {
                Process(plugin_, {{"num_nodes", int64_t{2}}}, nullptr);
              }),
              HasSubstr("INVALID_ARGUMENT: num_nodes > 1 needs callbacks"));
  EXPECT_THAT(message_of<Error>([&] {
                Process(plugin_, {{"cpu_device_count", int64_t{2}}}, nullptr);
              }),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("cpu_device_count")));
  EXPECT_THAT(message_of<Error>([&] {
                Process(plugin_, {{"node_id", std::string("0")}}, nullptr);
              }),
              HasSubstr("INVALID_ARGUMENT: Option node_id of PJRT_Client_Create is no int64"));
}

TEST_F(JointPlugin, CountsTheMemoryOfOwnDevicesAlone) {
  EXPECT_THAT(both([](Process&) {}), Each(""));
  Process& second = *processes_[1];
  EXPECT_GT(PJRT(*plugin_, PJRT_Device_MemoryStats)({.device = second.devices()[0]}).bytes_in_use, 0);
  EXPECT_THAT(message_of<Error>([&] {
                PJRT(*plugin_, PJRT_Device_MemoryStats)
                ({.device = second.all_devices()[0]});
              }),
              HasSubstr("FAILED_PRECONDITION"));
}

// As the processes of a run have it (train/process/processes.h).
class ToldValues final : public KeyValues {
 public:
  void put(const std::string& key, const std::string& value) override {
    const std::scoped_lock lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, std::chrono::milliseconds) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return values_.contains(key); });
    return values_[key];
  }
  std::optional<std::string> find(const std::string& key) override {
    const std::scoped_lock lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// `f` of the clients of two processes, each on a thread.
void with_both(const std::function<void(int64_t node)>& f) {
  std::vector<std::thread> threads;
  for (int64_t node = 0; node < 2; ++node) threads.emplace_back(f, node);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(JointPlugin, ProcessesTakeAProgramFromTheirCachesOrCompileItTogether) {
  set("XDG_CONFIG_HOME", directory_ / "config");
  const auto values = std::make_shared<ToldValues>();
  std::array<std::shared_ptr<Client>, 2> clients;
  with_both([&](int64_t node) {
    clients[static_cast<size_t>(node)] =
        Client::create(plugin_, {.create_options = {{"node_id", node}, {"num_nodes", int64_t{2}}}, .group = {node, 2, values}});
  });
  with_both([&](int64_t node) {
    const Client& client = *clients[static_cast<size_t>(node)];
    EXPECT_TRUE(client.all_say("cached", true));
    EXPECT_FALSE(client.all_say("cached", node == 0));
    EXPECT_FALSE(client.all_say("cached", node == 1));
    EXPECT_FALSE(client.all_say("cached", false));
    EXPECT_TRUE(client.all_say("another", true));
  });
  // On one machine none waits for the other to have compiled it: that would wait for this one.
  const ExecutableCache cache(directory_ / "cache");
  bool waited = false;
  const auto turn = cache.await_turn(cache_key(*clients[0], kSum, kAll), waited);
  ASSERT_TRUE(turn);
  with_both([&](int64_t node) {
    CompileReport report;
    const Executable sum = compile_cached(*clients[static_cast<size_t>(node)], kSum, kAll, cache, &report);
    EXPECT_FALSE(report.cached);
    EXPECT_EQ(sum.devices().size(), 2u);
  });
}

// As the program's own client has it: one process, no callbacks.
TEST_F(JointPlugin, IsAPluginForOneProcessToo) {
  const auto client = Client::create(plugin_);
  EXPECT_EQ(client->platform_name(), "cuda");
  ASSERT_EQ(client->devices().size(), 2u);
  const Executable twice = client->compile(kTwice, {.device_ids = {1}});
  Buffer x = upload<float>(*client, {3}, DType::kF32, {1}, 1);
  EXPECT_THAT(twice.run(std::array{&x})[0].to_host<float>(), ElementsAre(6));
  EXPECT_THAT(message_of<Error>([&] { (void)twice.serialize(); }), HasSubstr("UNIMPLEMENTED"));
}

}  // namespace
}  // namespace tessera::pjrt
