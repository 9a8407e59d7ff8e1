#include "data/order/shuffle.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "data/order/balanced_shuffle.h"
#include "data/order/repeated.h"

namespace tessera::data {
namespace {

constexpr int64_t kMaxStretches = 100'000'000;

int64_t positive(CallReader& call, std::string_view name, int64_t fallback) {
  const int64_t value = call.integer(name, fallback);
  if (value < 1) call.fail(fmt::format("`{}` must be at least 1, not {}", name, value));
  return value;
}

}  // namespace

Shuffle parse_shuffle(std::string_view text, std::string_view where) {
  const Call call = parse_call(text, where);
  CallReader reader(call, where);
  Shuffle shuffle;
  if (call.name == "window") {
    shuffle.kind = Shuffle::Kind::kWindow;
    shuffle.samples = positive(reader, "samples", shuffle.samples);
    shuffle.lanes = positive(reader, "lanes", shuffle.lanes);
    shuffle.stretch = positive(reader, "stretch", shuffle.stretch);
  } else if (call.name == "full") {
    shuffle.kind = Shuffle::Kind::kFull;
  } else if (call.name == "balanced") {
    shuffle.kind = Shuffle::Kind::kBalanced;
    shuffle.power = reader.number("power", shuffle.power);
    if (!(shuffle.power >= 0 && shuffle.power <= 1))
      reader.fail(fmt::format("`power` must lie in [0, 1], not {}", shuffle.power));
  } else if (call.name != "auto") {
    throw usage_error(fmt::format("unknown shuffle `{}`", call.name), std::string(where),
                      suggest_name(call.name, {"auto", "full", "window", "balanced"}));
  }
  reader.finish();
  return shuffle;
}

namespace {

std::shared_ptr<const Order> balanced(const Source& source, double power, uint64_t seed, int64_t lanes) {
  constexpr int64_t kMaxSamples = std::numeric_limits<int32_t>::max();
  if (source.size() > kMaxSamples) {
    throw usage_error(fmt::format("`data.shuffle = \"balanced\"` takes {} samples at most, and `{}` has {}",
                                  human_count(kMaxSamples), source.name(), human_count(source.size())),
                      {}, "take \"full\"");
  }
  const auto labels = source.labels();
  if (!labels || std::ranges::all_of(*labels, [](int32_t label) { return label < 0; })) {
    throw usage_error(
        fmt::format("`data.shuffle = \"balanced\"` needs the class of each sample, which `{}` can't tell", source.name()), {},
        source.multi_label() ? "its images may have several: take \"full\", or objective.class_weights = \"balanced\""
                             : "take \"full\", or a source with labels");
  }
  return std::make_shared<BalancedShuffle>(*labels, power, seed, lanes);
}

}  // namespace

SampleOrder make_sample_order(const std::vector<WeightedSource>& sets, const Shuffle& shuffle, int64_t batch, uint64_t seed) {
  std::vector<std::vector<int64_t>> stretches;
  bool windows = shuffle.kind == Shuffle::Kind::kWindow;
  int64_t fewest = batch;
  for (const WeightedSource& set : sets) {
    const bool anywhere = shuffle.kind == Shuffle::Kind::kFull || shuffle.kind == Shuffle::Kind::kBalanced;
    stretches.push_back(anywhere ? std::vector<int64_t>() : set.source->stretches());
    windows = windows || !stretches.back().empty();
    fewest = std::min(fewest, set.source->size());
  }
  const int64_t lanes = windows ? lane_count(batch, std::min(shuffle.lanes, fewest)) : 1;
  std::vector<OrderedSet> ordered;
  for (size_t i = 0; i < sets.size(); ++i) {
    const int64_t n = sets[i].source->size();
    if (shuffle.kind == Shuffle::Kind::kWindow && stretches[i].empty()) {
      if (n / shuffle.stretch >= kMaxStretches) {
        throw usage_error(fmt::format("`shuffle` cuts the {} samples of `{}` into stretches of {}: more than {} of them",
                                      human_count(n), sets[i].source->name(), shuffle.stretch, human_count(kMaxStretches)),
                          {}, "make them longer: window(stretch=1024)");
      }
      stretches[i] = even_stretches(n, shuffle.stretch);
    }
    const uint64_t own = seed_of_set(seed, i);
    std::shared_ptr<const Order> order;
    if (shuffle.kind == Shuffle::Kind::kBalanced) {
      order = balanced(*sets[i].source, shuffle.power, own, lanes);
    } else if (stretches[i].empty()) {
      order = std::make_shared<FullShuffle>(n, own, lanes);
    } else {
      const int64_t window = std::max<int64_t>(1, shuffle.samples / lanes);
      order = std::make_shared<WindowShuffle>(n, std::move(stretches[i]), own, lanes, window);
    }
    if (shuffle.repeats > 1) order = std::make_shared<Repeated>(std::move(order), shuffle.repeats);
    ordered.push_back({std::move(order), sets[i].weight});
  }
  return {std::move(ordered), batch, lanes, seed};
}

}  // namespace tessera::data
