#include "data/records/labels.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/names.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::data {
namespace {

constexpr int64_t kMaxClasses = 10'000'000;

std::vector<std::string> numbers(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::vector<std::string> names_found(const LabelsFound& found, int64_t offset, const std::string& where) {
  const bool has_numbers = found.least <= found.most;
  if (has_numbers && !found.names.empty()) {
    throw data_error(
        fmt::format("some labels are numbers, as {}, and some are texts, as `{}`", found.least, *found.names.begin()), where,
        "write all as numbers or all as names, or name another field with label=…");
  }
  if (!has_numbers) return {found.names.begin(), found.names.end()};
  int64_t least = 0, most = 0;
  if (__builtin_add_overflow(found.least, offset, &least) || __builtin_add_overflow(found.most, offset, &most)) {
    throw data_error(fmt::format("labels run from {} to {}, far from any classes", found.least, found.most), where,
                     "name the right field with label=…");
  }
  if (least < 0 || most >= kMaxClasses) {
    throw data_error(fmt::format("labels run from {} to {}, which are no class indices from 0 on", least, most), where,
                     least < 0 && found.least > -kMaxClasses ? fmt::format("label_offset={}", -found.least)
                                                             : "name the right field with label=…");
  }
  if (least == 1) {
    log_note_once(
        fmt::format("{}labels run from {} to {}, so class 0 has no images; where the first class is {}, say label_offset={}",
                    where.empty() ? "" : where + ": ", found.least, found.most, found.least, offset - 1));
  }
  return numbers(most + 1);
}

}  // namespace

std::string FieldArguments::label_identity(const std::string& name) const {
  return fmt::format("{}={}", several_labels ? "labels" : "label", name);
}

namespace {

// labels=NAME, or labels=[NAME, …].
void read_several_labels(CallReader& call, bool takes_label_fields, FieldArguments& out) {
  const std::string text = call.text("labels", "");
  if (text.empty()) return;
  if (out.label || out.no_label)
    call.fail("it says both label= and labels=", "label= where an image has one, labels= where it may have several");
  out.several_labels = true;
  const std::vector<std::string> names = parse_names(text);
  if (text.starts_with('[') && takes_label_fields) {
    out.label_fields = names;
  } else if (names.size() != 1) {
    call.fail(fmt::format("labels=`{}` names {} fields", one_line(text), names.size()), "name the field that holds the list");
  }
  out.label = join(names, ", ");
}

}  // namespace

FieldArguments read_field_arguments(CallReader& call, bool takes_label_fields) {
  FieldArguments out;
  if (std::string image = call.text("image", ""); !image.empty()) out.image = std::move(image);
  if (std::string label = call.text("label", ""); !label.empty()) out.label = std::move(label);
  out.no_label = out.label == "none";
  if (out.no_label) out.label.reset();
  out.label_offset = call.integer("label_offset", 0);
  out.texts = parse_names(call.text("text", ""));
  out.classes = call.text("classes", "");
  read_several_labels(call, takes_label_fields, out);
  return out;
}

std::vector<std::string> read_classes(const std::string& argument, const std::string& where) {
  if (const auto count = parse_number(argument)) {
    if (!(*count >= 1 && *count <= kMaxClasses) || *count != std::floor(*count))
      throw usage_error(fmt::format("classes={} is no number of classes", argument), where);
    return numbers(static_cast<int64_t>(*count));
  }
  std::vector<std::string> names;
  try {
    for (const std::string& line :
         split(store::read_small_file(store::files_at(argument), argument, store::kMaxListFile), '\n')) {
      if (const std::string_view name = trim(line); !name.empty()) names.emplace_back(name);
    }
  } catch (const Error& error) {
    throw data_error(error.message(), where, "classes=FILE is a file of class names, one a line; classes=1000 is a number");
  }
  if (names.empty()) throw data_error(fmt::format("`{}` holds no class names", argument), where, "one name a line");
  return names;
}

std::map<std::string, int32_t, std::less<>> index_of_names(const std::vector<std::string>& names, const std::string& where) {
  std::map<std::string, int32_t, std::less<>> index;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!index.emplace(names[i], static_cast<int32_t>(i)).second)
      throw data_error(fmt::format("the class name `{}` stands twice", one_line(names[i])), where,
                       "each class needs a name of its own");
  }
  return index;
}

Labels::Labels(std::vector<std::string> names, int64_t offset, bool several)
    : names_(std::move(names)), offset_(offset), several_(several) {
  for (size_t i = 0; i < names_.size(); ++i) by_name_.emplace(names_[i], static_cast<int32_t>(i));
}

Labels::Labels(const FieldArguments& arguments, const LabelsFound& found, const std::string& where)
    : names_(!arguments.classes.empty()        ? read_classes(arguments.classes, where)
             : !arguments.label_fields.empty() ? arguments.label_fields
                                               : names_found(found, arguments.label_offset, where)),
      by_name_(index_of_names(names_, where)),
      offset_(arguments.label_offset),
      several_(arguments.several_labels) {
  if (!names_.empty() || !several_) return;
  throw data_error("no sample has a label", where, "name the field that holds the lists of labels with labels=…");
}

std::optional<std::string> Labels::set(int64_t value, Sample& sample) const {
  const auto count = static_cast<int64_t>(names_.size());
  if (value < -offset_ || value >= count - offset_) {
    const bool one_based = value == count - offset_;
    return fmt::format("its label {} is not one of {} classes{}", value, human_count(count),
                       one_based ? fmt::format("; if labels begin at 1, say label_offset={}", offset_ - 1) : "");
  }
  take(static_cast<int32_t>(value + offset_), sample);
  return std::nullopt;
}

std::optional<std::string> Labels::set(std::string_view name, Sample& sample) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end())
    return fmt::format("its label `{}` is not one of {} classes", name, human_count(static_cast<int64_t>(names_.size())));
  take(found->second, sample);
  return std::nullopt;
}

void Labels::take(int32_t class_index, Sample& sample) const {
  if (!several_) {
    sample.label = class_index;
    return;
  }
  const auto place = std::ranges::lower_bound(sample.labels, class_index);
  if (place == sample.labels.end() || *place != class_index) sample.labels.insert(place, class_index);
}

std::optional<std::string> Labels::set(const CodedLabel& label, const std::vector<std::string>& texts, Sample& sample) const {
  switch (label.kind) {
    case CodedLabel::Kind::kNumber: return set(label.value, sample);
    case CodedLabel::Kind::kName: return set(std::string_view(texts[static_cast<size_t>(label.value)]), sample);
    case CodedLabel::Kind::kNone: break;
  }
  return "it has none";
}

std::optional<std::vector<int64_t>> Labels::class_sizes(const ShardIndex& index, const std::vector<SampleRange>& ranges) const {
  if (several_) {
    const auto lists = lists_of_samples(index, ranges);
    return lists ? std::optional(count_classes(*lists, names_.size())) : std::nullopt;
  }
  const auto classes = of_samples(index, ranges);
  if (!classes) return std::nullopt;
  std::vector<int64_t> sizes(names_.size());
  for (const int32_t one : *classes) {
    if (one >= 0) ++sizes[static_cast<size_t>(one)];
  }
  return sizes;
}

std::optional<std::vector<int32_t>> Labels::of_samples(const ShardIndex& index, const std::vector<SampleRange>& ranges) const {
  if (names_.empty() || several_) return std::nullopt;
  std::vector<int32_t> classes;
  Sample sample;
  const bool known = index.visit_labels(ranges, [&](std::span<const CodedLabel> label, const std::vector<std::string>& texts) {
    classes.push_back(set(label[0], texts, sample) ? -1 : sample.label);
  });
  return known ? std::optional(std::move(classes)) : std::nullopt;
}

std::optional<std::vector<std::vector<int32_t>>> Labels::lists_of_samples(const ShardIndex& index,
                                                                          const std::vector<SampleRange>& ranges) const {
  if (names_.empty() || !several_) return std::nullopt;
  std::vector<std::vector<int32_t>> lists;
  const bool known = index.visit_labels(ranges, [&](std::span<const CodedLabel> labels, const std::vector<std::string>& texts) {
    Sample sample;
    for (const CodedLabel& label : labels) std::ignore = set(label, texts, sample);
    lists.push_back(std::move(sample.labels));
  });
  return known ? std::optional(std::move(lists)) : std::nullopt;
}

}  // namespace tessera::data
