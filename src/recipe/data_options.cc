#include "recipe/data_options.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/system/environment.h"
#include "base/text/text.h"
#include "config/byte_size.h"
#include "config/duration.h"
#include "data/cache/cache.h"

namespace tessera::recipe {
namespace {

using config::Section;
namespace io = tessera::data;

double read_max_bad(const Section& section, const std::string& text) {
  const config::Duration share = config::parse_duration(text, section.place("max_bad"));
  if (share.unit != config::DurationUnit::kPercent || share.value > 100) {
    section.fail("max_bad", fmt::format("is \"{}\"", text), "a percentage of the data, for example \"0.1 %\"");
  }
  return share.value / 100;
}

// Far beyond what any machine can use. A number with a few zeros too many is refused before anything is allocated.
constexpr double kMaxLoaderBytes = double{int64_t{1} << 42};

void read_options(Section& section, Data& opened) {
  section.bind_part(opened.options);
  const DataOptions& options = opened.options;
  section.check_range("threads", options.threads, 0, io::kMaxThreads);
  section.check_range("prefetch", options.prefetch, 1, io::kMaxPrefetch);
  opened.limits = io::read_limits(section.section("limits"), options.limits);
  if (options.on_error != "skip" && options.on_error != "error") {
    section.fail("on_error", fmt::format("must be \"skip\" or \"error\", and is \"{}\"", options.on_error));
  }
  opened.max_bad = read_max_bad(section, options.max_bad);
  opened.max_bad_key = section.path("max_bad");
  opened.where = section.place("source");
  opened.memory_place = section.place("memory");
  if (!options.memory.empty()) opened.memory = config::parse_byte_size(options.memory, opened.memory_place);
}

// All sets of the section together have one limit.
void cache_sets(const Section& section, Data& opened) {
  const io::CacheOptions options = io::parse_cache(opened.options.cache, section.place("cache"));
  const auto budget = std::make_shared<io::ByteBudget>(options.limit);
  const std::string shared = environment_variable(io::kSharedCache);
  for (io::DataSet& set : opened.sets) {
    io::CacheOptions own = options;
    // What has no stamp isn't kept in files.
    if (!shared.empty() && options.kind == io::CacheOptions::Kind::kRam && set.source->size() > 0 && set.source->stamp(0))
      own = {io::CacheOptions::Kind::kDisk, fmt::format("{}/{}", shared, section.path("cache")), options.limit,
             /*decoded=*/true, /*shared=*/true};
    set.source = io::cached(std::move(set.source), own, budget, opened.limits);
  }
}

// How many batches a loader may make ahead within `memory` bytes.
int prefetch_within(const Data& opened, const io::LoaderOptions& loader) {
  const auto bytes = static_cast<int64_t>(io::batch_bytes(opened.sets, loader));
  const int64_t batches = opened.memory / bytes - io::kHeldBatches;
  if (batches < 1) {
    throw usage_error(fmt::format("{} are too little for {} batches of {}, which a loader needs",
                                  human_bytes(static_cast<double>(opened.memory)), io::kHeldBatches + 1,
                                  human_bytes(static_cast<double>(bytes))),
                      opened.memory_place, "allow more, or take smaller batches");
  }
  return static_cast<int>(std::min(batches, io::kMaxPrefetch));
}

// `batch` images; in floating point, since it may be any number.
void check_bytes(const Data& opened, int64_t batch) {
  const double batches = static_cast<double>(opened.memory > 0 ? 1 : opened.options.prefetch + io::kHeldBatches);
  const double row = static_cast<double>(io::batch_bytes(opened.sets, {.batch = 1}) * static_cast<size_t>(opened.pp().views()));
  const double bytes = batches * row * static_cast<double>(batch);
  if (bytes <= kMaxLoaderBytes) return;
  throw usage_error(fmt::format("{:.0f} batches of {} images would take {}", batches, batch, human_bytes(bytes)), opened.where,
                    "make the batch or data.prefetch smaller");
}

// `options`: of the fold alone.
io::DataSet open_set(const Section& section, std::string source, const DataOptions& options, const std::string& pp,
                     const std::string& pp_place, io::PpUse use) {
  if (source.empty()) section.fail_missing("source", "for example source = \"folder(data/digits/train)\"");
  if (pp.empty()) section.fail_missing("pp", "for example pp = \"decode | resize(224) | value_range(-1, 1)\"");
  if (!options.fold && !options.fold_by.empty()) section.fail("fold_by", "is set without fold", "fold = \"0/5\"");
  if (options.fold) {
    source = fmt::format("part({}, {}, fold={}{})", source, use == io::PpUse::kTrain ? "train" : "valid", *options.fold,
                         options.fold_by.empty() ? "" : fmt::format(", by=\"{}\"", options.fold_by));
  }
  io::DataSet set;
  set.pp = std::make_shared<io::Pp>(pp, use, pp_place);
  set.source = io::make_source(source, section.place("source"));
  io::find_texts(*set.pp, *set.source, pp_place);
  return set;
}

// Nothing but their images distinguishes the sets of a mixture.
void check_alike(const Section& section, const io::DataSet& first, const io::DataSet& set) {
  if (set.pp->width() != first.pp->width() || set.pp->height() != first.pp->height()) {
    section.fail("pp", fmt::format("makes images of {} x {}, and that of `{}` makes {} x {}", set.pp->height(), set.pp->width(),
                                   first.name, first.pp->height(), first.pp->width()));
  }
  if (set.pp->pixel_scale() != first.pp->pixel_scale() || set.pp->erasing() != first.pp->erasing()) {
    section.fail("pp", fmt::format("scales values or erases in another way than that of `{}`", first.name),
                 "end both chains with the same value_range or normalise, and the same random_erasing");
  }
  if (set.pp->views() != first.pp->views()) {
    section.fail("pp", fmt::format("makes {} views of an image, and that of `{}` makes {}", set.pp->views(), first.name,
                                   first.pp->views()));
  }
  if (set.pp->token_fields() != first.pp->token_fields()) {
    section.fail("pp", fmt::format("makes other arrays of ids than that of `{}`", first.name),
                 "tokenize with the same model, length and names in both chains");
  }
  if (set.source->multi_label() != first.source->multi_label()) {
    section.fail("source",
                 fmt::format("has {} an image, and `{}` has {}", set.source->multi_label() ? "several labels" : "one label",
                             first.name, first.source->multi_label() ? "several" : "one"),
                 "labels=… in all sets of a mixture, or in none");
  }
  const auto &wanted = first.source->class_names(), &found = set.source->class_names();
  if (wanted == found) return;
  const auto differs = std::ranges::mismatch(wanted, found);
  const auto word = [](const auto& names, auto at) { return at == names.end() ? std::string("none") : "`" + *at + "`"; };
  section.fail("source",
               fmt::format("has {} classes, and `{}` has {}; the first that differs is {} there and {} here", found.size(),
                           first.name, wanted.size(), word(wanted, differs.in1), word(found, differs.in2)),
               "labels are places in the list of classes: the sets of a mixture need the same list");
}

// Of all sets together.
objectives::ClassSizes class_sizes(const std::vector<io::DataSet>& sets) {
  std::vector<int64_t> sums(sets.front().source->class_names().size());
  for (const io::DataSet& set : sets) {
    const auto own = set.source->class_sizes();
    if (!own) return std::nullopt;
    std::ranges::transform(sums, *own, sums.begin(), std::plus<>());
  }
  return sums;
}

void read_mixture(Section section, Data& opened) {
  Section mix = section.section("mix");
  for (const std::string& name : mix.keys()) {
    Section one = mix.section(name);
    MixOptions options;
    one.bind(options);
    if (!(options.weight > 0)) one.fail("weight", fmt::format("must be above 0, and is {:g}", options.weight));
    const bool own = !options.pp.empty();
    opened.sets.push_back(open_set(one, options.source, opened.options, own ? options.pp : opened.options.pp,
                                   own ? one.place("pp") : section.place("pp"), io::PpUse::kTrain));
    opened.sets.back().name = name;
    opened.sets.back().weight = options.weight;
    check_alike(one, opened.sets.front(), opened.sets.back());
  }
  if (opened.sets.empty()) section.fail("mix", "names no data set", "[data.mix.NAME] with source and weight");
}

}  // namespace

int64_t Data::size() const {
  int64_t sum = 0;
  for (const io::DataSet& set : sets) sum += set.source->size();
  return sum;
}

objectives::DataInputs Data::inputs() const {
  return {static_cast<int64_t>(source().class_names().size()),
          token_inputs(pp()),
          pp().views(),
          source().multi_label(),
          size(),
          source().class_names(),
          [sets = sets] { return class_sizes(sets); }};
}

std::vector<objectives::TokenInput> token_inputs(const io::Pp& pp) {
  std::vector<objectives::TokenInput> inputs;
  for (const io::TokenField& field : pp.token_fields()) {
    inputs.push_back({field.name, field.length, field.vocabulary, field.pad});
  }
  return inputs;
}

std::string Data::name() const {
  std::vector<std::string> names;
  for (const io::DataSet& set : sets) names.push_back(set.source->name());
  return join(names, " + ");
}

io::LoaderOptions Data::loader(int64_t batch, uint64_t seed) const {
  check_bytes(*this, batch);
  io::LoaderOptions loader;
  loader.batch = batch * pp().views();
  loader.seed = seed;
  loader.threads = static_cast<int>(options.threads);
  loader.prefetch = static_cast<int>(options.prefetch);
  loader.unreadable = options.on_error == "error" ? io::Unreadable::kError : io::Unreadable::kSkip;
  loader.max_bad = max_bad;
  loader.shuffle = shuffle;
  loader.mixup = mixup;
  loader.max_bad_key = max_bad_key;
  loader.where = where;
  loader.limits = limits;
  if (memory > 0) loader.prefetch = prefetch_within(*this, loader);
  return loader;
}

HeldOut held_out(Section data_section) {
  HeldOut out;
  if (!data_section.has("fold")) return out;
  out.fold = data_section.text("fold");
  if (data_section.has("fold_by")) out.by = data_section.text("fold_by");
  if (data_section.has("source")) out.sources.push_back(data_section.text("source"));
  if (!data_section.has("mix")) return out;
  Section mix = data_section.section("mix");
  for (const std::string& name : mix.keys()) out.sources.push_back(mix.section(name).text("source", ""));
  return out;
}

namespace {

Data open_section(Section section, io::PpUse use, Data opened) {
  read_options(section, opened);
  opened.sets.push_back(open_set(section, opened.options.source, opened.options, opened.options.pp, section.place("pp"), use));
  cache_sets(section, opened);
  return opened;
}

}  // namespace

Data open_data(Section section, io::PpUse use) { return open_section(std::move(section), use, {}); }

Data open_evaluation_data(Section section, const HeldOut& held_out) {
  Data opened;
  if (held_out.fold && !section.has("source") && held_out.sources.size() == 1) opened.options.source = held_out.sources[0];
  const std::string source = section.has("source") ? section.text("source") : opened.options.source;
  if (std::ranges::find(held_out.sources, source) != held_out.sources.end()) {
    opened.options.fold = held_out.fold;
    opened.options.fold_by = held_out.by;
  }
  return open_section(std::move(section), io::PpUse::kEval, std::move(opened));
}

Data open_training_data(Section section, TrainDataOptions& options) {
  section.bind_part(options);
  Data opened;
  if (section.has("mix")) {
    read_options(section, opened);
    if (!opened.options.source.empty()) {
      section.fail("source", "stands beside data.mix, which names the sources", "remove one of the two");
    }
    read_mixture(section, opened);
    cache_sets(section, opened);
  } else {
    opened = open_data(section, io::PpUse::kTrain);
  }
  opened.shuffle = io::parse_shuffle(options.shuffle, section.place("shuffle"));
  if (opened.shuffle.kind == io::Shuffle::Kind::kBalanced) {
    for (const io::DataSet& set : opened.sets) {
      const bool several = set.source->multi_label();
      if (!several && !set.source->class_names().empty()) continue;
      section.fail("shuffle", fmt::format("is balanced, and `{}` has no class of each image", set.source->name()),
                   several ? "its images may have several: take \"full\", or objective.class_weights = \"balanced\""
                           : "take \"full\", or a source with labels");
    }
  }
  section.check_range("aug_repeats", options.aug_repeats, 1, 1000);
  opened.shuffle.repeats = options.aug_repeats;
  if (options.on_change != "error" && options.on_change != "accept")
    section.fail("on_change", fmt::format("must be \"error\" or \"accept\", and is \"{}\"", options.on_change));
  opened.may_change = options.on_change == "accept";
  image::MixupOptions mixup;
  Section mixing = section.section("mixup");
  mixing.bind(mixup);
  const image::Mixup mixes(mixup, opened.pp().height(), opened.pp().width(), section.place("mixup"));
  if (mixes.mixes()) opened.mixup = mixes;
  if (opened.mixup && opened.pp().views() > 1) {
    section.fail("mixup", "would mix views of different images, which data.pp's split makes", "leave out one of the two");
  }
  if (options.batch > 0) opened.loader(options.batch, 0);  // so that what doesn't fit data.memory is known at once
  return opened;
}

}  // namespace tessera::recipe
