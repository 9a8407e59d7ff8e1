// part(SOURCE, train|valid, 20 %) or part(SOURCE, train|valid, fold=0/5): what of a source is held out for validation, or what
// that leaves.
//
// A call around a source, not an argument of each: tfds(…) has a `split=` of its own, and a call that wraps a source serves
// every source, the sets of a mixture, evaluators and the data commands alike.

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "config/duration.h"
#include "data/forwarding_source.h"
#include "data/source_call.h"
#include "data/sources/part_groups.h"

namespace tessera::data {
namespace {

constexpr int64_t kMaxSamples = int64_t{1} << 26, kMaxFolds = 1000;

// Which samples are held out.
struct Holdout {
  double share = 0;             // of each class, or
  int64_t fold = 0, folds = 0;  // fold of folds, where these are not 0
  int64_t seed = 0;
  std::string by = {};  // part_groups.h; empty: each sample by itself
};

class PartSource final : public ForwardingSource {
 public:
  // samples: of the source, rising. labels: theirs.
  // Of a multi_label() source there are none: its lists are asked for when they are needed.
  PartSource(std::shared_ptr<const Source> source, std::string name, std::vector<int64_t> samples,
             std::optional<std::vector<int32_t>> labels)
      : ForwardingSource(std::move(source)), name_(std::move(name)), samples_(std::move(samples)), labels_(std::move(labels)) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const std::string& name() const override { return name_; }
  std::optional<std::vector<int32_t>> labels() const override { return labels_; }
  std::optional<std::vector<std::vector<int32_t>>> label_lists() const override {
    const auto all = source_->label_lists();
    if (!all) return std::nullopt;
    std::vector<std::vector<int32_t>> own;
    for (const int64_t sample : samples_) own.push_back((*all)[static_cast<size_t>(sample)]);
    return own;
  }
  std::optional<std::vector<int64_t>> class_sizes() const override {
    if (const auto lists = label_lists()) return count_classes(*lists, class_names().size());
    if (!labels_) return std::nullopt;
    std::vector<int64_t> sizes(class_names().size());
    for (const int32_t label : *labels_) {
      if (label >= 0) ++sizes[static_cast<size_t>(label)];
    }
    return sizes;
  }
  std::string id(int64_t index) const override { return source_->id(sample(index)); }
  std::optional<std::vector<std::optional<std::string>>> column(const std::string& name) const override {
    const auto all = source_->column(name);
    if (!all) return std::nullopt;
    std::vector<std::optional<std::string>> own;
    for (const int64_t sample : samples_) own.push_back((*all)[static_cast<size_t>(sample)]);
    return own;
  }
  std::optional<std::string> read(int64_t index, Sample& out) const override { return source_->read(sample(index), out); }
  void prefetch(int64_t index) const override { source_->prefetch(sample(index)); }
  std::optional<uint64_t> stamp(int64_t index) const override { return source_->stamp(sample(index)); }
  std::optional<Hash128> fingerprint() const override {
    const auto whole = source_->fingerprint();
    return whole ? std::optional(Hasher().add(to_string(*whole)).add(name_).finish()) : std::nullopt;
  }
  bool fill_pixels(int64_t index, std::span<uint8_t> row) const override { return source_->fill_pixels(sample(index), row); }
  // The source's, where the part has samples of them.
  std::vector<int64_t> stretches() const override {
    std::vector<int64_t> own;
    for (const int64_t begin : source_->stretches()) {
      const int64_t place = std::ranges::lower_bound(samples_, begin) - samples_.begin();
      if (place < size() && (own.empty() || own.back() != place)) own.push_back(place);
    }
    return own;
  }

 private:
  int64_t sample(int64_t index) const { return samples_[static_cast<size_t>(index)]; }
  std::string name_;
  std::vector<int64_t> samples_;
  std::optional<std::vector<int32_t>> labels_;
};

double read_share(const CallReader& call, const std::string& text, std::string_view where) {
  const char* help = "a percentage between 0 and 100, for example 20 %";
  if (parse_number(text)) call.fail(fmt::format("the share is `{}`, without a unit", text), help);
  const config::Duration share = config::parse_duration(text, where);
  if (share.unit == config::DurationUnit::kPercent && share.value > 0 && share.value < 100) return share.value / 100;
  call.fail(fmt::format("the share is `{}`", text), help);
}

void read_fold(const CallReader& call, const std::string& text, Holdout& out) {
  const char* end = text.data() + text.size();
  const auto fold = std::from_chars(text.data(), end, out.fold);
  const bool slash = fold.ec == std::errc() && fold.ptr != end && *fold.ptr == '/';
  const auto folds = slash ? std::from_chars(fold.ptr + 1, end, out.folds) : fold;
  if (!slash || folds.ec != std::errc() || folds.ptr != end || out.folds < 2 || out.folds > kMaxFolds || out.fold < 0 ||
      out.fold >= out.folds) {
    call.fail(fmt::format("the fold is `{}`", text),
              fmt::format("K/N with K from 0 to N-1 and N from 2 to {}: 0/5 is the first of five folds", kMaxFolds));
  }
}

Hash128 keyed(int64_t seed, std::string_view text) { return Hasher().add(std::to_string(seed)).add(text).finish(); }

// Whether the sample at place `rank` of the `count` of its class is held out. The order is of hashes, so a new file moves at
// most one other one over each border. `turn`, a number of the class, spreads what is left over by division over the folds.
bool held_out(const Holdout& holdout, int64_t rank, int64_t count, uint64_t turn) {
  if (holdout.folds == 0) return rank < std::llround(holdout.share * static_cast<double>(count));
  const auto folds = static_cast<uint64_t>(holdout.folds);
  const uint64_t block = static_cast<uint64_t>(rank) * folds / static_cast<uint64_t>(count);
  return (block + turn % folds) % folds == static_cast<uint64_t>(holdout.fold);
}

Holdout read_holdout(CallReader& call, const std::string& share, const std::string& fold, std::string_view where) {
  Holdout out;
  out.seed = call.integer("seed", 0);
  out.by = call.text("by", "");
  call.finish();
  if (share.empty() == fold.empty()) {
    call.fail(share.empty() ? "it says neither a share nor a fold" : "it says both a share and a fold",
              "part(SOURCE, valid, 20 %) or part(SOURCE, valid, fold=0/5)");
  }
  if (fold.empty()) out.share = read_share(call, share, where);
  if (share.empty()) read_fold(call, fold, out);
  return out;
}

// The samples of each class by their hashes; those without a class are one more, the last.
struct Ranked {
  Hash128 hash;
  int64_t sample = 0;
};
std::vector<std::vector<Ranked>> rank_samples(const Source& source, const std::vector<int32_t>& labels, int64_t seed) {
  std::vector<std::vector<Ranked>> classes(source.class_names().size() + 1);
  for (int64_t i = 0; i < source.size(); ++i) {
    const int32_t label = labels.empty() ? -1 : labels[static_cast<size_t>(i)];
    classes[label < 0 ? classes.size() - 1 : static_cast<size_t>(label)].push_back({keyed(seed, source.id(i)), i});
  }
  const auto key = [](const Ranked& one) { return std::tuple(one.hash.high, one.hash.low, one.sample); };
  for (std::vector<Ranked>& one : classes) std::ranges::sort(one, {}, key);
  return classes;
}

// Of each sample, whether it is held out.
std::vector<bool> hold_out_groups(const Source& source, const std::vector<int32_t>& labels, const Holdout& holdout,
                                  std::string_view where) {
  const Groups groups = read_groups(source, holdout.by, where);
  std::vector<double> shares = {holdout.share, 1 - holdout.share};
  if (holdout.folds > 0) shares.assign(static_cast<size_t>(holdout.folds), 1 / static_cast<double>(holdout.folds));
  if (groups.names.size() < shares.size()) {
    throw data_error(fmt::format("by=`{}` makes {} groups of `{}`, fewer than {} parts", one_line(holdout.by),
                                 groups.names.size(), source.name(), shares.size()),
                     std::string(where));
  }
  const std::vector<size_t> parts = spread_groups(groups, labels, source.class_names().size(), shares, holdout.seed);
  const auto held_part = static_cast<size_t>(holdout.fold);
  std::vector<bool> held;
  for (const int32_t group : groups.of_samples) held.push_back(parts[static_cast<size_t>(group)] == held_part);
  return held;
}

// The same where samples are held out one by one.
std::vector<bool> hold_out_samples(const Source& source, const std::vector<int32_t>& labels, const Holdout& holdout) {
  std::vector<bool> held(static_cast<size_t>(source.size()));
  const auto classes = rank_samples(source, labels, holdout.seed);
  for (size_t c = 0; c < classes.size(); ++c) {
    const std::string name = c < source.class_names().size() ? source.class_names()[c] : "";
    const uint64_t turn = keyed(holdout.seed, name).low;
    const auto count = static_cast<int64_t>(classes[c].size());
    for (int64_t rank = 0; rank < count; ++rank) {
      held[static_cast<size_t>(classes[c][static_cast<size_t>(rank)].sample)] = held_out(holdout, rank, count, turn);
    }
  }
  return held;
}

// Throws where a class keeps none for training.
void expect_training_images(const Source& source, const std::vector<int32_t>& labels, const std::vector<bool>& held,
                            std::string_view where) {
  std::vector<int64_t> count(source.class_names().size()), kept(count.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    ++count[static_cast<size_t>(labels[i])];
    kept[static_cast<size_t>(labels[i])] += held[i] ? 0 : 1;
  }
  for (size_t c = 0; c < count.size(); ++c) {
    if (kept[c] > 0 || count[c] == 0) continue;
    throw data_error(fmt::format("the class `{}` of `{}` has no training images: all of its {} would be held out",
                                 one_line(source.class_names()[c]), one_line(source.name()), count[c]),
                     std::string(where), "hold out less, take another fold or seed, or add images of it");
  }
}

std::shared_ptr<const Source> make_part(CallReader& call, std::string_view where) {
  const std::string inner = call.text("source"), part = call.text("part"), share = call.text("share", ""),
                    fold = call.text("fold", "");
  const Holdout holdout = read_holdout(call, share, fold, where);
  if (part != "train" && part != "valid")
    call.fail(fmt::format("unknown part `{}`", part), suggest_name(part, {"train", "valid"}));
  std::shared_ptr<const Source> source = make_source(inner, where);
  auto labels = source->size() > kMaxSamples ? std::nullopt : source->labels();
  const bool unknown = !labels && !source->class_names().empty() && !source->multi_label();
  if (source->size() > kMaxSamples || unknown) {
    call.fail(fmt::format("`{}` is of more than {} samples, too many to part", source->name(), human_count(kMaxSamples)),
              "list some of its shards as training data and others as validation data, or use tfds(…, split=…)");
  }
  const std::vector<int32_t> known = labels.value_or(std::vector<int32_t>());
  const std::vector<bool> held =
      holdout.by.empty() ? hold_out_samples(*source, known, holdout) : hold_out_groups(*source, known, holdout, where);
  expect_training_images(*source, known, held, where);
  std::vector<int64_t> samples;
  std::optional<std::vector<int32_t>> own;
  if (labels) own.emplace();
  for (size_t i = 0; i < held.size(); ++i) {
    if (held[i] != (part == "valid")) continue;
    samples.push_back(static_cast<int64_t>(i));
    if (labels) own->push_back((*labels)[i]);
  }
  if (samples.empty()) {
    throw data_error(fmt::format("the part `{}` of `{}` has no samples", part, source->name()), std::string(where),
                     holdout.by.empty()
                         ? "a class of N images gives the nearest whole number to its share of N; ask for another share or fold"
                         : "groups are held out whole, and none fits the share; ask for another share, fold or seed");
  }
  std::string name = fmt::format("{} [{} of {}{}{}]", source->name(), part, fold.empty() ? share : "fold " + fold,
                                 holdout.by.empty() ? "" : fmt::format(", by {}", holdout.by),
                                 holdout.seed == 0 ? "" : fmt::format(", seed {}", holdout.seed));
  return std::make_shared<PartSource>(std::move(source), std::move(name), std::move(samples), std::move(own));
}

}  // namespace

const SourceKind kPart{
    "part",
    "part(SOURCE, train|valid, SHARE %) or part(SOURCE, train|valid, fold=0/5)[, by=COLUMN or \"(PATTERN).*\"][, seed=0]",
    "SOURCE without the images held out for validation (train), or these (valid): a share or a fold of each class; "
    "by=patient keeps images with the same value in a column, or the same part of their names, together",
    make_part};

}  // namespace tessera::data
