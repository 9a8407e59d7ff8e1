// choice and choice_no_replacement: some of a sample's several texts (big_vision's pp/ops_general.py).
#include <algorithm>

#include "base/error.h"
#include "data/names.h"
#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

// The same entries of the texts `keys`, as the texts `to`.
class ChoiceOp : public PpTextOp {
 public:
  ChoiceOp(std::vector<std::string> keys, std::vector<std::string> to) : keys_(std::move(keys)), to_(std::move(to)) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    for (const std::string& key : keys_) shape.texts.read(key, call);
    for (const std::string& name : to_) shape.texts.make(name, call);
  }

 protected:
  const std::string& first_key() const { return keys_.front(); }
  // How many texts there are to choose from.
  [[nodiscard]] image::SampleError count(const PpTexts& texts, size_t& there) const {
    there = texts.get(first_key()).size();
    for (const std::string& other : keys_) {
      const size_t here = texts.get(other).size();
      if (here != there)
        return image::DecodeFailure{fmt::format("it has {} texts `{}` and {} `{}`", there, first_key(), here, other)};
    }
    return std::nullopt;
  }
  void take(PpTexts& texts, const std::vector<size_t>& chosen) const {
    std::vector<std::vector<std::string>> taken(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      for (const size_t place : chosen) taken[i].push_back(texts.get(keys_[i])[place]);
    }
    for (size_t i = 0; i < keys_.size(); ++i) texts.set(to_[i], std::move(taken[i]));
  }

 private:
  std::vector<std::string> keys_, to_;
};

// How many: from least to most, and where there are less, all of them if `fewer`.
struct ChoiceCount {
  uint64_t least = 1, most = 1;
  bool fewer = false;
};

class Choice final : public ChoiceOp {
 public:
  Choice(std::vector<std::string> keys, std::vector<std::string> to, const ChoiceCount& wanted)
      : ChoiceOp(std::move(keys), std::move(to)), wanted_(wanted) {}

  image::SampleError change(PpTexts& texts, const SampleKey& key) const override {
    size_t there = 0;
    if (image::SampleError failed = count(texts, there)) return failed;
    if (there < wanted_.least && !wanted_.fewer) {
      if (there == 0) return image::DecodeFailure{fmt::format("it has no text `{}` to choose", first_key())};
      return image::DecodeFailure{fmt::format("it has {} texts `{}`, and {} are chosen", there, first_key(), wanted_.least)};
    }
    Rng rng(key.seed, key.epoch, key.sample);
    if (wanted_.most == 1 && there > 0) {
      take(texts, {rng.below(there)});
    } else {
      const uint64_t number = wanted_.least + rng.below(wanted_.most - wanted_.least + 1);
      take(texts, sorted_subset(there, std::min<uint64_t>(number, there), rng));
    }
    return std::nullopt;
  }

 private:
  // Each subset of so many as likely as another.
  static std::vector<size_t> sorted_subset(size_t there, size_t number, Rng& rng) {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < there; ++i) {
      if (rng.below(there - i) < number - chosen.size()) chosen.push_back(i);
    }
    return chosen;
  }

  ChoiceCount wanted_;
};

// In each run of as many epochs as there are texts, every one of them once, in an order drawn for the run.
class ChoiceNoReplacement final : public ChoiceOp {
 public:
  using ChoiceOp::ChoiceOp;
  image::SampleError change(PpTexts& texts, const SampleKey& key) const override {
    size_t there = 0;
    if (image::SampleError failed = count(texts, there)) return failed;
    if (there == 0) return image::DecodeFailure{fmt::format("it has no text `{}` to choose", first_key())};
    std::vector<size_t> order(there);
    Rng rng(key.seed, key.epoch / there, key.sample);
    for (size_t i = 0; i < there; ++i) {
      order[i] = i;
      std::swap(order[i], order[rng.below(i + 1)]);
    }
    take(texts, {order[key.epoch % there]});
    return std::nullopt;
  }
};

constexpr int64_t kMaxTexts = 1 << 20;

// n=single, a number, or [least, most].
ChoiceCount read_count(CallReader& call) {
  ChoiceCount count;
  if (const std::string n = call.text("n", "single"); n != "single") {
    std::vector<uint64_t> range;
    for (const std::string& part : parse_names(n)) {
      const double number = parse_number(part).value_or(0);
      if (number == std::floor(number) && 1 <= number && number <= kMaxTexts) range.push_back(static_cast<uint64_t>(number));
    }
    if (range.empty() || range.size() > 2 || range.front() > range.back())
      call.fail(fmt::format("`n` is how many texts to choose, and is `{}`", n), "single, a number from 1 on, or [least, most]");
    count.least = range.front(), count.most = range.back();
  }
  count.fewer = call.boolean("fewer", false);
  return count;
}

struct Keys {
  std::vector<std::string> from, to;
};
Keys read_keys(CallReader& call) {
  Keys keys;
  keys.from = parse_names(call.text("key", "text"));
  const std::string to = call.text("to", "");
  keys.to = to.empty() ? keys.from : parse_names(to);
  if (keys.from.empty()) call.fail("it names nothing", "choice(captions, to=text)");
  if (keys.to.size() != keys.from.size())
    call.fail(fmt::format("{} texts become {}", keys.from.size(), keys.to.size()), "to=[…] with a name for each");
  return keys;
}

std::unique_ptr<PpOp> make_choice(CallReader& call) {
  Keys keys = read_keys(call);
  return std::make_unique<Choice>(std::move(keys.from), std::move(keys.to), read_count(call));
}

std::unique_ptr<PpOp> make_choice_no_replacement(CallReader& call) {
  Keys keys = read_keys(call);
  return std::make_unique<ChoiceNoReplacement>(std::move(keys.from), std::move(keys.to));
}

}  // namespace

const PpOpKind kChoice{
    "choice", "choice[(key=text[, to=KEY][, n=single][, fewer=false])]",
    "one of a sample's several texts, drawn from (seed, epoch, sample), or n=N or n=[least, most] of them in their order; "
    "key=[q, a] takes the same of both; fewer=true takes all where there are less",
    make_choice};
const PpOpKind kChoiceNoReplacement{
    "choice_no_replacement", "choice_no_replacement[(key=text[, to=KEY])]",
    "one of a sample's several texts, another in each epoch until all have been, in an order drawn anew for each round",
    make_choice_no_replacement};

}  // namespace tessera::data
