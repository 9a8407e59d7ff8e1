#include "data/sources/part_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/text/pattern.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {

using Values = std::vector<std::optional<std::string>>;

// Of each sample what the pattern's first parentheses hold of its name.
Values values_of_names(const Source& source, const std::string& by, std::string_view where) {
  const Pattern pattern(by, where);
  Values values;
  for (int64_t i = 0; i < source.size(); ++i) values.push_back(pattern.first_group(source.id(i)));
  return values;
}

Values values_of_column(const Source& source, const std::string& by, std::string_view where) {
  if (auto values = source.column(by)) return *std::move(values);
  const std::vector<std::string> columns = source.columns();
  throw usage_error(fmt::format("by=`{}` is no column of `{}`", one_line(by), one_line(source.name())), std::string(where),
                    columns.empty()
                        ? fmt::format("its samples have no columns; by=\"(PATTERN).*\" takes the group from names such as `{}`",
                                      source.size() > 0 ? one_line(source.id(0)) : "")
                        : fmt::format("it has {}", one_line(fmt::format("{}", fmt::join(columns, ", ")))));
}

// What the greedy choice goes by: of each class, its samples in each part over the part's share of the class.
class Spread {
 public:
  Spread(std::vector<double> class_sizes, std::span<const double> shares)
      : sizes_(std::move(class_sizes)),
        shares_(shares.begin(), shares.end()),
        filled_(shares.size(), std::vector<double>(sizes_.size())),
        samples_(shares.size()) {}

  // How much the deviations between parts, added up over classes, grow if the samples go to the part.
  double cost(const std::map<size_t, double>& counts, size_t part) {
    double cost = 0;
    for (const auto& [c, count] : counts) {
      const double before = deviation(c), more = count / (sizes_[c] * shares_[part]);
      filled_[part][c] += more;
      cost += deviation(c) - before;
      filled_[part][c] -= more;
    }
    return cost;
  }
  void put(const std::map<size_t, double>& counts, size_t part) {
    for (const auto& [c, count] : counts) {
      filled_[part][c] += count / (sizes_[c] * shares_[part]);
      samples_[part] += count / shares_[part];
    }
  }
  double samples(size_t part) const { return samples_[part]; }

 private:
  double deviation(size_t c) const {
    double sum = 0, squares = 0;
    for (const std::vector<double>& part : filled_) {
      sum += part[c];
      squares += part[c] * part[c];
    }
    const auto n = static_cast<double>(filled_.size());
    return std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
  }

  std::vector<double> sizes_, shares_;
  std::vector<std::vector<double>> filled_;
  std::vector<double> samples_;
};

double deviation_of_counts(const std::map<size_t, double>& counts, size_t classes) {
  double sum = 0, squares = 0;
  for (const auto& [c, count] : counts) {
    sum += count;
    squares += count * count;
  }
  const auto n = static_cast<double>(classes);
  return std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
}

}  // namespace

Groups read_groups(const Source& source, const std::string& by, std::string_view where) {
  const bool pattern = by.find('(') != std::string::npos;
  const Values values = pattern ? values_of_names(source, by, where) : values_of_column(source, by, where);
  Groups groups;
  std::map<std::string, int32_t> numbers;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) {
      throw data_error(
          fmt::format("`{}` of `{}` has no group", one_line(source.id(static_cast<int64_t>(i))), one_line(source.name())),
          std::string(where),
          pattern ? fmt::format("the pattern `{}` has to match the whole name", one_line(by))
                  : fmt::format("its column `{}` is empty or can't be read", one_line(by)));
    }
    const auto [entry, added] = numbers.try_emplace(*values[i], static_cast<int32_t>(groups.names.size()));
    if (added) groups.names.push_back(*values[i]);
    groups.of_samples.push_back(entry->second);
  }
  return groups;
}

std::vector<size_t> spread_groups(const Groups& groups, std::span<const int32_t> labels, size_t classes,
                                  std::span<const double> shares, int64_t seed) {
  std::vector<std::map<size_t, double>> counts(groups.names.size());
  std::vector<double> sizes(classes + 1);  // the last: of those without a class
  for (size_t i = 0; i < groups.of_samples.size(); ++i) {
    const size_t c = labels.empty() || labels[i] < 0 ? classes : static_cast<size_t>(labels[i]);
    counts[static_cast<size_t>(groups.of_samples[i])][c] += 1;
    sizes[c] += 1;
  }
  std::vector<std::tuple<double, uint64_t, uint64_t, size_t>> order;
  for (size_t g = 0; g < counts.size(); ++g) {
    const Hash128 hash = Hasher().add(std::to_string(seed)).add(groups.names[g]).finish();
    order.emplace_back(-deviation_of_counts(counts[g], sizes.size()), hash.high, hash.low, g);
  }
  std::ranges::sort(order);
  Spread spread(std::move(sizes), shares);
  std::vector<size_t> parts(counts.size());
  for (const auto& [deviation, high, low, g] : order) {
    size_t best = 0;
    double least = spread.cost(counts[g], 0);
    for (size_t part = 1; part < shares.size(); ++part) {
      const double cost = spread.cost(counts[g], part);
      const bool alike = std::abs(cost - least) <= 1e-9 * std::max(1.0, std::abs(least));
      if (alike ? spread.samples(part) >= spread.samples(best) : cost > least) continue;
      best = part;
      least = cost;
    }
    spread.put(counts[g], best);
    parts[g] = best;
  }
  return parts;
}

}  // namespace tessera::data
