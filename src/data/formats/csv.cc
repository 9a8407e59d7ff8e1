#include "data/formats/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/formats/lines.h"

namespace tessera::data {
namespace {

constexpr int64_t kCsvReadBytes = 1 << 20;

// Where fields and records end: the one reading of quotes for those who look for records and those who take one apart.
class CsvCharacters {
 public:
  explicit CsvCharacters(char separator) : separator_(separator) {}

  enum class Meaning { kText, kNothing, kFieldEnd, kRecordEnd };
  // Of the next character.
  Meaning next(char c) {
    if (state_ == State::kQuoted) {
      if (c == '"') state_ = State::kQuoteSeen;
      return c == '"' ? Meaning::kNothing : Meaning::kText;
    }
    if (c == '\n' || c == separator_) {
      state_ = State::kBegin;
      return c == '\n' ? Meaning::kRecordEnd : Meaning::kFieldEnd;
    }
    if (state_ == State::kQuoteSeen && (c == '\r' || c == ' ')) return Meaning::kNothing;
    if (state_ == State::kBegin && is_blank(c)) return Meaning::kNothing;
    const State before = state_;
    state_ = c == '"' && before != State::kPlain ? State::kQuoted : State::kPlain;
    // The second of two quotes within a field is text, the first of a field is not.
    return state_ == State::kQuoted && before == State::kBegin ? Meaning::kNothing : Meaning::kText;
  }
  bool in_quotes() const { return state_ == State::kQuoted; }

 private:
  enum class State { kBegin, kPlain, kQuoted, kQuoteSeen };  // of a field
  static bool is_blank(char c) { return c == ' ' || c == '\r' || c == '\t'; }

  char separator_;
  State state_ = State::kBegin;
};

// Records from bytes that come piece by piece.
class RecordFinder {
 public:
  RecordFinder(char separator, int64_t begin) : characters_(separator), begin_(begin), at_(begin) {}
  void feed(std::string_view bytes) {
    for (const char c : bytes) {
      const CsvCharacters::Meaning meaning = characters_.next(c);
      if (meaning == CsvCharacters::Meaning::kRecordEnd) {
        finish();
        begin_ = at_ + 1, blank_ = true;
      } else {
        blank_ = blank_ && (c == ' ' || c == '\r' || c == '\t');
        last_ = c;
      }
      ++at_;
    }
  }
  void finish() {
    if (!blank_) records.push_back({begin_, at_ - begin_ - (last_ == '\r')});
  }
  std::vector<Extent> records;

 private:
  CsvCharacters characters_;
  int64_t begin_, at_;
  bool blank_ = true;  // the record so far
  char last_ = 0;
};

std::vector<Extent> find_records(const std::string& path, const store::ReadableFile& file, char separator, bool first_alone) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  std::optional<RecordFinder> finder;
  std::string bytes;
  for (int64_t offset = 0; offset < file.size(); offset += kCsvReadBytes) {
    bytes.resize(static_cast<size_t>(std::min(kCsvReadBytes, file.size() - offset)));
    file.read(offset, std::as_writable_bytes(std::span(bytes)));
    std::string_view rest = bytes;
    if (offset == 0) {
      if (rest.starts_with("\xff\xfe") || rest.starts_with("\xfe\xff")) {
        throw data_error(fmt::format("`{}` is text in UTF-16", one_line(path)), {}, "save it as UTF-8");
      }
      if (rest.starts_with(kMark)) rest.remove_prefix(kMark.size());
      finder.emplace(separator, static_cast<int64_t>(bytes.size() - rest.size()));
    }
    expect_no_zeros(path, offset, bytes);
    finder->feed(rest);
    if (first_alone && !finder->records.empty()) break;
  }
  if (!finder) return {};
  finder->finish();
  return std::move(finder->records);
}

}  // namespace

std::vector<Extent> scan_csv(const std::string& path, const store::ReadableFile& file, char separator) {
  return find_records(path, file, separator, false);
}

std::string first_csv_record(const std::string& path, const store::ReadableFile& file, char separator) {
  const std::vector<Extent> records = find_records(path, file, separator, true);
  return records.empty() ? std::string() : read_extent(file, records[0]);
}

std::optional<std::vector<std::string>> parse_csv_record(std::string_view record, char separator) {
  CsvCharacters characters(separator);
  std::vector<std::string> fields(1);
  size_t kept = 0;  // of the last field, what is not trimmed off its end
  for (const char c : record) {
    switch (characters.next(c)) {
      case CsvCharacters::Meaning::kText:
        fields.back() += c;
        if (characters.in_quotes() || (c != ' ' && c != '\t' && c != '\r')) kept = fields.back().size();
        break;
      case CsvCharacters::Meaning::kNothing: break;
      case CsvCharacters::Meaning::kRecordEnd:
      case CsvCharacters::Meaning::kFieldEnd:
        fields.back().resize(kept);
        fields.emplace_back();
        kept = 0;
    }
  }
  if (characters.in_quotes()) return std::nullopt;
  fields.back().resize(kept);
  return fields;
}

}  // namespace tessera::data
