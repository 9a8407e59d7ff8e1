#include "base/text/json_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera {
namespace {

// Levels, of what is open: the file's object, a list, its element.
constexpr size_t kFile = 1, kList = 2, kElement = 3;

class ListReader final : public JsonEvents {
 public:
  explicit ListReader(const std::vector<JsonList>& lists) : lists_(lists) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool binary(binary_t&) override { return true; }  // JSON has none

  bool key(string_t& name) override {
    if (depth_ == kFile) {
      const auto found = std::ranges::find(lists_, name, &JsonList::key);
      list_ = found == lists_.end() ? nullptr : &*found;
    }
    if (depth_ == kElement && list_ != nullptr) {
      wanted_ = std::ranges::find(list_->fields, name) != list_->fields.end();
      if (wanted_) field_ = std::move(name);
    }
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ == kFile && list_ != nullptr) return fail(fmt::format("`{}` is no list", list_->key));
    if (depth_ == kList && list_ != nullptr) element_ = nlohmann::json::object();
    return open();
  }
  bool end_object() override {
    --depth_;
    if (depth_ == kList && list_ != nullptr) list_->take(std::move(element_));
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ == 0) return fail("it is no object");
    if (depth_ == kList && list_ != nullptr) return fail(fmt::format("`{}` has an element that is no object", list_->key));
    return open();
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return fail(fmt::format("byte {} is not JSON", position));
  }

  std::string problem;

 private:
  bool fail(std::string what) { return problem = std::move(what), false; }
  bool open() {
    if (depth_ == kMaxJsonDepth) return fail(fmt::format("it nests more than {} levels deep", kMaxJsonDepth));
    ++depth_;
    wanted_ = false;
    return true;
  }
  template <class Value>
  bool scalar(Value&& value) {
    if (depth_ == 0) return fail("it is no object");
    if (depth_ == kFile && list_ != nullptr) return fail(fmt::format("`{}` is no list", list_->key));
    if (depth_ == kList && list_ != nullptr) return fail(fmt::format("`{}` has an element that is no object", list_->key));
    if (depth_ == kElement && wanted_) element_[field_] = std::forward<Value>(value);
    return true;
  }

  const std::vector<JsonList>& lists_;
  const JsonList* list_ = nullptr;  // of the file's last key
  size_t depth_ = 0;
  bool wanted_ = false;
  std::string field_;
  nlohmann::json element_;
};

}  // namespace

void read_json_lists(std::string_view text, const std::string& where, const std::vector<JsonList>& lists) {
  ListReader reader(lists);
  read_json_events(text, reader);
  if (!reader.problem.empty())
    throw data_error("cannot be read as JSON: " + reader.problem, where, "copy or make the file again, or name another");
}

}  // namespace tessera
