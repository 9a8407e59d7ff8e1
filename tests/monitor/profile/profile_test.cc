// Profiles as xprof, Chrome's trace viewer and people read them.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/error.h"
#include "base/system/elf_symbols.h"
#include "monitor/profile/chrome_trace.h"
#include "monitor/profile/cpu_time.h"
#include "monitor/profile/files.h"
#include "monitor/profile/summary.h"
#include "monitor/profile/xspace.h"
#include "pjrt/plugin/plugin.h"
#include "store/memory_files.h"
#include "store/temp_dir.h"
#include "support/paths.h"
#include "support/xprof.h"

namespace tessera::profile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kBegin = 5'000 * kMs, kUnix = 1'796'000'000'000'000'000;

SpanRecord span(SpanKind kind, const char* name, int64_t begin, int64_t end, int64_t number = kNoNumber) {
  return {name, kBegin + begin * kMs, kBegin + end * kMs, number, kind};
}

// Three steps of 100, 100 and 300 ms, and one that the end cuts.
Profile host_profile() {
  Profile out;
  out.recording = {.begin = kBegin, .end = kBegin + 600 * kMs, .threads = {}, .lost = 0};
  ThreadRecord loop{"training loop", 11, {}};
  const std::pair<int64_t, int64_t> steps[] = {{10, 110}, {110, 210}, {210, 510}, {510, 600}};
  for (int64_t i = 0; i < 4; ++i) {
    const auto [begin, end] = steps[i];
    loop.spans.push_back(span(SpanKind::kPhase, "wait for input", begin + 5, begin + 25));
    loop.spans.push_back(span(SpanKind::kPhase, "dispatch", begin + 25, end - 5));
    loop.spans.push_back(span(SpanKind::kStep, "step", begin, end, i + 1));
  }
  ThreadRecord xla{"xla \"1\"", 12, {span(SpanKind::kKernel, "dense", 30, 60), span(SpanKind::kKernel, "dense", 60, 70)}};
  ThreadRecord input{"input 1", 13, {span(SpanKind::kInput, "decode", 0, 300)}};
  out.recording.threads = {loop, xla, input};
  out.unix_begin = kUnix;
  out.host = "a host.example";
  out.reason = "steps 1-3";
  return out;
}

// What a plugin may say: one device with a line of operations and one that draws the same again.
std::string device_space() {
  std::string out;
  protozero::pbf_writer space(out);
  protozero::pbf_writer plane(space, 1);
  plane.add_string(2, "/device:TPU:0");
  for (const char* line : {"XLA Ops", "Steps"}) {
    protozero::pbf_writer writer(plane, 3);
    writer.add_string(2, line);
    writer.add_int64(3, kUnix + 50 * kMs);  // timestamp_ns
    for (int64_t i = 0; i < 2; ++i) {
      protozero::pbf_writer event(writer, 4);
      event.add_int64(1, 7);
      event.add_int64(2, i * 100 * kMs * 1000);  // offset_ps
      event.add_int64(3, 40 * kMs * 1000);       // duration_ps
    }
  }
  protozero::pbf_writer entry(plane, 4);
  entry.add_int64(1, 7);
  protozero::pbf_writer metadata(entry, 2);
  metadata.add_int64(1, 7);
  metadata.add_string(2, "fusion.1");
  return out;
}

std::string gunzip(const std::string& bytes) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  std::string out(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST(Summary, PhasesOfStepsAddUpToTheirTime) {
  const Summary summary = summarise(host_profile(), {});
  EXPECT_EQ(summary.steps, 3);
  EXPECT_EQ(summary.median_step, 100 * kMs);
  EXPECT_EQ(summary.slowest_step, 300 * kMs);
  EXPECT_EQ(summary.slowest, 3);
  ASSERT_EQ(summary.phases.size(), 3u);
  EXPECT_EQ(summary.phases[0].name, "dispatch");
  EXPECT_EQ(summary.phases[0].time, (70 + 70 + 270 + 60) * kMs);
  EXPECT_EQ(summary.phases[0].longest, 270 * kMs);
  EXPECT_EQ(summary.phases[1].name, "wait for input");
  EXPECT_EQ(summary.phases[1].time, 80 * kMs);
  EXPECT_EQ(summary.phases[2].name, "all else");
  EXPECT_EQ(summary.phases[2].time, 40 * kMs);
  EXPECT_EQ(summary.input_threads, 1);
  ASSERT_EQ(summary.kernels.size(), 1u);
  EXPECT_EQ(summary.kernels[0].count, 2);
  EXPECT_EQ(summary.kernels[0].time, 40 * kMs);
}

TEST(Parts, ForwardAndGradientOfALayerAreOneRow) {
  const std::vector<PartTime> parts = part_times({{"dense", "model/blocks/mlp", 3, 1},
                                                  {"dense_backward", "gradient/model/blocks/mlp", 7, 1},
                                                  {"free", "", 4, 2},
                                                  {"add_fusion", "optimizer", 5, 1}});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].part, "model/blocks/mlp");
  EXPECT_EQ(parts[0].forward, 3);
  EXPECT_EQ(parts[0].gradient, 7);
  EXPECT_EQ(parts[1].part, "optimizer");
  EXPECT_EQ(parts[2].part, "other");
  EXPECT_EQ(parts[2].all(), 4);
}

TEST(Summary, ProcessorTimeIsOfOneStep) {
  Profile profile = host_profile();
  profile.cpu = {{"dense_backward", "gradient/model/blocks/mlp", 600 * kMs, 600},
                 {"dense", "model/blocks/mlp", 300 * kMs, 300}};
  const std::string text = table(summarise(profile, {}), "steps 1-3");
  EXPECT_THAT(text, HasSubstr("processor time of a step: 300.00 ms"));
  EXPECT_THAT(text, ::testing::ContainsRegex("model/blocks/mlp +100.00 ms +200.00 ms +100.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("dense_backward +200.00 ms +66.7 %"));
}

// An evaluation's program has kernels for the layers of the model, too, and an input of its own.
TEST(Parts, WhatAnEvaluationComputesIsNoPartOfSteps) {
  Recording recording{.begin = 0, .end = 100 * kMs, .threads = {}, .lost = 0};
  ThreadRecord loop{"training loop", 11, {}};
  loop.spans = {{"eval/val", 50 * kMs, 80 * kMs, kNoNumber, SpanKind::kPhase},
                {"save", 80 * kMs, 90 * kMs, kNoNumber, SpanKind::kPhase}};
  ThreadRecord input{"input 1", 13, {{"decode", 0, 1, kNoNumber, SpanKind::kInput}}};
  recording.threads = {loop, input};
  const Work dense{"dense", "model/blocks/mlp"}, decode{"decode", nullptr}, page{"live page", "monitoring"};
  const auto sample = [](const Work& work, int64_t at) { return CpuSample{0, work, kMs, at * kMs, 11}; };
  const std::vector<CpuTime> times = cpu_times({sample(dense, 10), sample(dense, 20), sample(dense, 60), sample(dense, 81),
                                                sample(decode, 20), sample(decode, 60), sample(page, 60)},
                                               recording, pjrt::CodeNames(), {});
  std::map<std::string, int64_t> parts;
  for (const PartTime& part : part_times(times)) parts[part.part] = part.all() / kMs;
  EXPECT_EQ(parts, (std::map<std::string, int64_t>{{"model/blocks/mlp", 3}, {"eval/val", 1}, {"input", 2}, {"monitoring", 1}}));
}

// Where some function of the plugin's compiler is.
uintptr_t address_in_compiler(const pjrt::Plugin& plugin) {
  const store::Bytes file = store::local_files().map(plugin.path());
  Dl_info info{};
  if (dladdr(plugin.api(), &info) == 0) return 0;
  for (const ElfSymbol& symbol : elf_symbols(file.data)) {
    if (symbol.is_function && symbol.size > 0 && symbol.name.starts_with("_ZN4llvm")) {
      return reinterpret_cast<uintptr_t>(info.dli_fbase) + symbol.address;
    }
  }
  return 0;
}

// Memory and containers that a compiler takes have no names of their own.
TEST(Parts, WhatACompilersThreadDoesIsCompilation) {
  const auto plugin = pjrt::Plugin::load(testing::cpu_plugin_path());
  const uintptr_t compiler = address_in_compiler(*plugin), memory = reinterpret_cast<uintptr_t>(&std::malloc);
  ASSERT_NE(compiler, 0u);
  const Work dense{"dense", "model/blocks/mlp"};
  const auto sample = [](uintptr_t address, int64_t at, int64_t thread, const Work& work = {}) {
    return CpuSample{address, work, kMs, at * kMs, thread};
  };
  const std::vector<CpuTime> times = cpu_times(
      {sample(memory, 1, 1), sample(compiler, 2, 1), sample(memory, 3, 1), sample(memory, 200, 1),  // the last long after
       sample(0, 10, 2, dense), sample(memory, 11, 2), sample(memory, 3, 3)},  // threads that compile nothing
      {}, pjrt::CodeNames(*plugin), {});
  std::map<std::string, int64_t> parts;
  for (const PartTime& part : part_times(times)) parts[part.part] = part.all() / kMs;
  EXPECT_EQ(parts, (std::map<std::string, int64_t>{{"compilation", 3}, {"other", 3}, {"model/blocks/mlp", 1}}));
}

TEST(Summary, EvaluationsAndCompilationStandApart) {
  Profile profile = host_profile();
  profile.cpu = {{"dense", "model/blocks/mlp", 300 * kMs, 300},
                 {"dense", "eval/val", 200 * kMs, 200},
                 {"llvm::run", "compilation", 600 * kMs, 600}};
  const std::string text = table(summarise(profile, {}), "steps 1-3");
  EXPECT_THAT(text, HasSubstr("processor time of a step: 100.00 ms"));
  EXPECT_THAT(text, ::testing::ContainsRegex("model/blocks/mlp +100.00 ms +100.0 %"));
  EXPECT_THAT(text, HasSubstr("processor time beside the steps: 800.00 ms"));
  EXPECT_THAT(text, ::testing::ContainsRegex("compilation +600.00 ms +75.0 %\n +eval/val +200.00 ms +25.0 %"));
}

TEST(Summary, OperationsOfTheDeviceAreCountedOnce) {
  Profile profile = host_profile();
  profile.device = device_space();
  const Summary summary = summarise(profile, read_device(profile));
  ASSERT_EQ(summary.device.size(), 1u);
  EXPECT_EQ(summary.device[0].name, "fusion.1");
  EXPECT_EQ(summary.device[0].count, 2);
  EXPECT_EQ(summary.device[0].time, 80 * kMs);
}

TEST(Summary, TheTableSaysIt) {
  Profile profile = host_profile();
  profile.recording.lost = 1234;
  const std::string text = table(summarise(profile, {}), "steps 1-3\nof a run");
  EXPECT_THAT(text, HasSubstr("3 whole steps, 100.00 ms each (median); the slowest is 3 with 300.00 ms"));
  EXPECT_THAT(text, ::testing::ContainsRegex("dispatch +470.00 ms +79.7 % +4 +117.50 ms +270.00 ms"));
  EXPECT_THAT(text, ::testing::ContainsRegex("decode +300.00 ms +50.0 % +1"));
  EXPECT_THAT(text, HasSubstr("1,234 spans found no room"));
  EXPECT_THAT(text, Not(HasSubstr("operations of the device")));
  EXPECT_EQ(table(summarise(Profile{}, {}), "nothing").find('\n'), std::string::npos);
}

TEST(Xspace, ThePluginsPlanesAreReadAndMoved) {
  Profile profile = host_profile();
  profile.device = device_space();
  const std::vector<DevicePlane> planes = read_device(profile);
  ASSERT_EQ(planes.size(), 1u);
  ASSERT_EQ(planes[0].lines.size(), 2u);
  EXPECT_EQ(planes[0].lines[0].events[1].begin, 150 * kMs);
  EXPECT_EQ(planes[0].lines[0].events[1].duration, 40 * kMs);
  EXPECT_EQ(planes[0].lines[0].events[1].name, "fusion.1");
  EXPECT_EQ(read_device(profile, 3)[0].lines[1].events.size(), 1u);
  // Its own planes come after the host's and the time's, from the begin of the recording on.
  Profile again = profile;
  again.device = to_xspace(profile);
  const std::vector<DevicePlane> all = read_device(again);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "/host:CPU");
  EXPECT_EQ(all[0].lines[0].events.size(), 12u);
  EXPECT_EQ(all[0].lines[1].events[0].name, "dense:HostKernel");
  EXPECT_EQ(all[2].lines[0].events[1].begin, 150 * kMs);
}

// As libtpu and the CUDA plugin give them (tests/plan/profiler_test.cc).
TEST(Xspace, AZeroByteBehindThePlanesIsNoPartOfThem) {
  Profile plain = host_profile(), ended = plain;
  plain.device = device_space();
  ended.device = device_space() + '\0';
  EXPECT_EQ(to_xspace(ended), to_xspace(plain));
  EXPECT_EQ(read_device(ended).size(), read_device(plain).size());
  // A plane whose name ends with the byte.
  plain.device.clear();
  protozero::pbf_writer space(plain.device);
  protozero::pbf_writer(space, 1).add_string(2, std::string("/device:X\0", 10));
  ASSERT_EQ(plain.device.back(), '\0');
  ASSERT_EQ(read_device(plain).size(), 1u);
  EXPECT_EQ(read_device(plain)[0].name, std::string("/device:X\0", 10));
}

TEST(Xspace, WhatIsNoXspaceIsAnError) {
  Profile profile = host_profile();
  for (const std::string& bytes : {std::string("\x0a\xff"), std::string("\x0a\x02\x0a"), std::string(100, '\xff')}) {
    profile.device = bytes;
    EXPECT_THROW(read_device(profile), Error);
    EXPECT_THROW(to_xspace(profile), Error);
  }
}

TEST(ChromeTrace, HasEveryThreadAndDevice) {
  Profile profile = host_profile();
  profile.device = device_space();
  const Json trace = Json::parse(gunzip(gzip(to_chrome_trace(profile, read_device(profile)))));
  std::map<std::string, int> names;
  for (const Json& event : trace["traceEvents"]) ++names[event["ph"] == "M" ? event["args"]["name"] : event["name"]];
  EXPECT_EQ(names["training loop"], 1);
  EXPECT_EQ(names["xla \"1\""], 1);
  EXPECT_EQ(names["step"], 4);
  EXPECT_EQ(names["/device:TPU:0"], 1);
  EXPECT_EQ(names["fusion.1"], 4);
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != "step" || event["args"]["step"] != 2) continue;
    EXPECT_EQ(event["ts"], 110'000.0);
    EXPECT_EQ(event["dur"], 100'000.0);
    EXPECT_EQ(event["tid"], 11);
  }
}

TEST(Files, LieWhereTensorBoardLooks) {
  testing::MemoryFiles files;
  files.make_directories("run");
  const ProfileFiles first = write_profile("run", host_profile(), "", files);
  EXPECT_EQ(first.directory, "run/plugins/profile/2026_11_30_00_53_20");
  EXPECT_EQ(first.xplane, first.directory + "/a_host_example.xplane.pb");
  EXPECT_EQ(store::read_text(files, first.summary), first.table + "\n");
  EXPECT_EQ(write_profile("run", host_profile(), "", files).directory, first.directory + "_2");
  EXPECT_EQ(write_profile("run", host_profile(), "_slow", files).directory, first.directory + "_slow");
}

TEST(Files, APluginThatSaysNonsenseCostsItsPartAlone) {
  testing::MemoryFiles files;
  files.make_directories("run");
  Profile profile = host_profile();
  profile.device = "nonsense";
  ::testing::internal::CaptureStderr();
  const ProfileFiles written = write_profile("run", profile, "", files);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the plugin's profile cannot be read"));
  EXPECT_EQ(store::read_text(files, written.xplane), to_xspace(host_profile()));
}

#ifdef TESSERA_HAS_XPROF

TEST(Xprof, ReadsWhatIsWritten) {
  const testing::TempDir directory;
  Profile profile = host_profile();
  profile.device = device_space();
  write_profile(directory / "runs/digits", profile);
  const Json read = testing::read_profiles(directory / "runs");
  EXPECT_EQ(read["runs"], Json({"digits/2026_11_30_00_53_20"}));
  const Json& found = read["profiles"]["2026_11_30_00_53_20"];
  const Json& planes = found["planes"];
  ASSERT_TRUE(planes.contains("/host:CPU"));
  const Json& step = planes["/host:CPU"]["training loop"][0];
  EXPECT_EQ(step["name"], "step");
  EXPECT_EQ(step["start"], 10.0 * kMs);
  EXPECT_EQ(step["duration"], 100.0 * kMs);
  EXPECT_EQ(step["stats"]["step_num"], "1");
  EXPECT_EQ(planes["/device:TPU:0"]["XLA Ops"][1]["start"], 150.0 * kMs);
  EXPECT_THAT(found["names"], ::testing::Contains("overview_page"));
  const std::string trace = found["tools"]["trace_viewer"];
  for (const char* name : {"\"step 1\"", "wait for input", "dense", "input/decode", "fusion.1", "training loop"}) {
    EXPECT_THAT(trace, HasSubstr(name));
  }
  EXPECT_THAT(found["tools"]["framework_op_stats"].get<std::string>(), HasSubstr("HostKernel"));
}

// Without a device, as on a processor, steps are the host's.
TEST(Xprof, SeesTheStepsOfAHostWithoutADevice) {
  const testing::TempDir directory;
  write_profile(directory / "run", host_profile());
  const Json read = testing::read_profiles(directory / "run");
  const Json& tools = read["profiles"]["2026_11_30_00_53_20"]["tools"];
  const std::string overview = tools["overview_page"];
  EXPECT_THAT(overview, HasSubstr("Step step 2, duration: 100.00 ms"));
  EXPECT_THAT(tools["input_pipeline_analyzer"].get<std::string>(), HasSubstr("step 3"));
}

#endif

}  // namespace
}  // namespace tessera::profile
