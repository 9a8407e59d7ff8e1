#include "checkpoint/formats/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "base/printable.h"

namespace tessera::checkpoint {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxValues = 4'000'000;
// Of what is made of a value again: a few bytes can ask for it often.
constexpr size_t kMaxCopied = 4'000'000;
constexpr size_t kMaxRank = 32;

// What a name on the list makes when it is called.
enum class Makes { kNothing, kDict, kTensor, kParameter, kOther };

struct KnownName {
  std::string_view name;
  Makes makes;
};
constexpr KnownName kNames[] = {
    {"collections.OrderedDict", Makes::kDict},
    {"collections.defaultdict", Makes::kDict},
    {"torch._utils._rebuild_tensor_v2", Makes::kTensor},
    {"torch._utils._rebuild_parameter", Makes::kParameter},
    {"torch.FloatStorage", Makes::kNothing},
    {"torch.DoubleStorage", Makes::kNothing},
    {"torch.HalfStorage", Makes::kNothing},
    {"torch.BFloat16Storage", Makes::kNothing},
    {"torch.LongStorage", Makes::kNothing},
    {"torch.IntStorage", Makes::kNothing},
    {"torch.ShortStorage", Makes::kNothing},
    {"torch.CharStorage", Makes::kNothing},
    {"torch.ByteStorage", Makes::kNothing},
    {"torch.BoolStorage", Makes::kNothing},
    // Other objects that training scripts put into their checkpoints.
    {"argparse.Namespace", Makes::kOther},
    {"pathlib.PosixPath", Makes::kOther},
    {"torch.Size", Makes::kOther},
    {"torch.device", Makes::kOther},
    {"torch.float32", Makes::kNothing},
    {"torch.float16", Makes::kNothing},
    {"torch.bfloat16", Makes::kNothing},
    {"numpy.dtype", Makes::kOther},
    {"numpy.core.multiarray.scalar", Makes::kOther},
    {"numpy._core.multiarray.scalar", Makes::kOther},
    {"_codecs.encode", Makes::kOther},
};

}  // namespace

// The opcodes of pickletools, protocol 2 and the few more that protocols 3 to 5 write.
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, Pickle& pickle, std::string where)
      : rest_(bytes), pickle_(pickle), where_(std::move(where)) {}

  void run() {
    while (step(static_cast<uint8_t>(take(1)[0]))) {
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& help = {}) const {
    throw data_error("the pickle in it " + what, where_, help);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail(
        what + ", which is code; nothing is run here",
        "in Python, where you trust the file: torch.save(model.state_dict(), \"weights.pth\"), or safetensors.torch.save_file");
  }

  std::string_view take(size_t count) {
    if (count > rest_.size()) fail("ends early");
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) fail("ends early");
    const std::string_view text = take(end);
    take(1);
    return text;
  }

  PickleValue& add(Kind kind) {
    if (pickle_.values_.size() == kMaxValues) fail(fmt::format("holds more than {} values", kMaxValues));
    PickleValue& value = pickle_.values_.emplace_back();
    value.kind = kind;
    return value;
  }
  void copy(const std::vector<const PickleValue*>& items, PickleValue& to) {
    copied_ += items.size();
    if (copied_ > kMaxCopied) fail(fmt::format("makes more than {} values of others", kMaxCopied));
    to.items.insert(to.items.end(), items.begin(), items.end());
  }
  void push(PickleValue& value) { stack_.push_back(&value); }
  PickleValue& push_new(Kind kind) {
    PickleValue& value = add(kind);
    push(value);
    return value;
  }
  void push_integer(int64_t integer, Kind kind = Kind::kInteger) { push_new(kind).integer = integer; }
  void push_text(size_t length) { push_new(Kind::kText).text = take(length); }

  PickleValue& top() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() == marks_.back())) fail("takes a value that is not there");
    return *stack_.back();
  }
  PickleValue& pop() {
    PickleValue& value = top();
    stack_.pop_back();
    return value;
  }
  // What was pushed since the last mark.
  std::vector<const PickleValue*> pop_mark() {
    if (marks_.empty()) fail("takes values up to a mark that is not there");
    std::vector<const PickleValue*> values(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  void tuple(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = &pop();
    push_new(Kind::kList).items = std::move(items);
  }

  void append(const std::vector<const PickleValue*>& values) {
    PickleValue& list = top();
    if (list.kind == Kind::kOther) return;
    if (list.kind != Kind::kList) fail("appends to what is no list");
    list.items.insert(list.items.end(), values.begin(), values.end());
  }
  void set_items(const std::vector<const PickleValue*>& values) {
    PickleValue& dict = top();
    if (values.size() % 2 != 0) fail("sets a key without a value");
    if (dict.kind == Kind::kOther) return;
    if (dict.kind != Kind::kDict) fail("sets keys of what is no dictionary");
    dict.items.insert(dict.items.end(), values.begin(), values.end());
  }

  void name(const std::string& module, const std::string& attribute) {
    const std::string full = module + "." + attribute;
    if (std::ranges::find(kNames, full, &KnownName::name) == std::end(kNames))
      refuse(fmt::format("names `{}`", one_line(full)));
    push_new(Kind::kName).text = full;
  }
  void call() {
    const PickleValue& arguments = pop();
    const PickleValue& function = pop();
    if (function.kind != Kind::kName || arguments.kind != Kind::kList) refuse("calls what is no function");
    switch (std::ranges::find(kNames, function.text, &KnownName::name)->makes) {
      case Makes::kNothing: refuse(fmt::format("calls `{}`", function.text));
      case Makes::kDict: return make_dict(arguments);
      case Makes::kTensor: return make_tensor(arguments);
      case Makes::kParameter: return make_parameter(arguments);
      case Makes::kOther: push_new(Kind::kOther);
    }
  }
  // OrderedDict([[key, value], …]), or without arguments, or defaultdict(factory).
  void make_dict(const PickleValue& arguments) {
    PickleValue& dict = push_new(Kind::kDict);
    if (arguments.items.empty() || arguments.items[0]->kind != Kind::kList) return;
    for (const PickleValue* pair : arguments.items[0]->items) {
      if (pair->kind != Kind::kList || pair->items.size() != 2) fail("makes a dictionary of what are no pairs");
      copy(pair->items, dict);
    }
  }
  // _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks[, metadata])
  void make_tensor(const PickleValue& arguments) {
    const auto& items = arguments.items;
    if (items.size() < 4 || items[0]->kind != Kind::kStorage || items[1]->kind != Kind::kInteger || !integers(*items[2]) ||
        !integers(*items[3]) || items[2]->items.size() != items[3]->items.size()) {
      fail("makes a tensor of what is none");
    }
    push_new(Kind::kTensor).items.assign(items.begin(), items.begin() + 4);
  }
  // _rebuild_parameter(tensor, requires_grad, hooks)
  void make_parameter(const PickleValue& arguments) {
    if (arguments.items.empty() || arguments.items[0]->kind != Kind::kTensor) fail("makes a parameter of what is no tensor");
    push_new(Kind::kTensor).items = arguments.items[0]->items;
  }
  static bool integers(const PickleValue& list) {
    return list.kind == Kind::kList && list.items.size() <= kMaxRank &&
           std::ranges::all_of(list.items, [](const PickleValue* item) { return item->kind == Kind::kInteger; });
  }
  // State of an object: dropped. Of dictionaries it is what torch notes of versions.
  void build() {
    pop();
    const Kind kind = top().kind;
    if (kind != Kind::kDict && kind != Kind::kOther && kind != Kind::kTensor)
      refuse("sets the state of what is no known object");
  }
  void persistent() {
    const PickleValue& parts = pop();
    if (parts.kind != Kind::kList) fail("names a storage by what is no list");
    copy(parts.items, push_new(Kind::kStorage));
  }

  void put(uint32_t place) { memo_[place] = &top(); }
  void get(uint32_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail("takes a value that was not kept");
    push(*found->second);
  }

  // False at the end.
  bool step(uint8_t opcode) {
    switch (opcode) {
      case 0x80: take(1); return true;                         // PROTO
      case 0x95: take(8); return true;                         // FRAME
      case '.': pickle_.root_ = &pop(); return false;          // STOP
      case '(': marks_.push_back(stack_.size()); return true;  // MARK
      case '}': push_new(Kind::kDict); return true;            // EMPTY_DICT
      case ']':
      case ')': push_new(Kind::kList); return true;  // EMPTY_LIST, EMPTY_TUPLE
      case 'a': {
        const PickleValue* value = &pop();
        append({value});
        return true;
      }                                           // APPEND
      case 'e': append(pop_mark()); return true;  // APPENDS
      case 's': {
        const PickleValue *value = &pop(), *key = &pop();
        set_items({key, value});
        return true;
      }                                              // SETITEM
      case 'u': set_items(pop_mark()); return true;  // SETITEMS
      case 't': {
        auto items = pop_mark();
        push_new(Kind::kList).items = std::move(items);
        return true;
      }  // TUPLE
      case 0x85:
      case 0x86:
      case 0x87: tuple(opcode - 0x84); return true;  // TUPLE1 to TUPLE3
      case 'N': push_new(Kind::kNone); return true;  // NONE
      case 0x88:
      case 0x89: push_integer(opcode == 0x88, Kind::kBool); return true;  // NEWTRUE, NEWFALSE
      case 'J': push_integer(number<int32_t>()); return true;             // BININT
      case 'K': push_integer(number<uint8_t>()); return true;             // BININT1
      case 'M': push_integer(number<uint16_t>()); return true;            // BININT2
      case 0x8a: long_integer(); return true;                             // LONG1
      case 'G':
        push_new(Kind::kNumber).number = std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()));
        return true;  // BINFLOAT
      case 'X':
      case 'T':
      case 'B': push_text(number<uint32_t>()); return true;  // BINUNICODE, BINSTRING, BINBYTES
      case 0x8c:
      case 'U':
      case 'C': push_text(number<uint8_t>()); return true;  // SHORT_ of these
      case 'c': {
        const std::string module(line()), attribute(line());
        name(module, attribute);
        return true;
      }                                      // GLOBAL
      case 0x93: stack_name(); return true;  // STACK_GLOBAL
      case 'R':
      case 0x81: call(); return true;                                    // REDUCE, NEWOBJ
      case 'b': build(); return true;                                    // BUILD
      case 'Q': persistent(); return true;                               // BINPERSID
      case 'q': put(number<uint8_t>()); return true;                     // BINPUT
      case 'r': put(number<uint32_t>()); return true;                    // LONG_BINPUT
      case 0x94: put(static_cast<uint32_t>(memo_.size())); return true;  // MEMOIZE
      case 'h': get(number<uint8_t>()); return true;                     // BINGET
      case 'j': get(number<uint32_t>()); return true;                    // LONG_BINGET
      default: refuse(fmt::format("has the opcode 0x{:02x}", opcode));
    }
  }
  void long_integer() {
    const std::string_view bytes = take(number<uint8_t>());
    if (bytes.size() > 8) {
      push_new(Kind::kOther);
      return;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    const size_t bits = 8 * bytes.size();
    if (bits > 0 && bits < 64 && (value >> (bits - 1) & 1) != 0) value |= ~uint64_t{0} << bits;
    push_integer(static_cast<int64_t>(value));
  }
  void stack_name() {
    const PickleValue &attribute = pop(), &module = pop();
    if (attribute.kind != Kind::kText || module.kind != Kind::kText) fail("names what is no text");
    name(module.text, attribute.text);
  }

  std::string_view rest_;
  Pickle& pickle_;
  std::string where_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, PickleValue*> memo_;
  size_t copied_ = 0;
};

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::kDict) return nullptr;
  for (size_t i = items.size(); i >= 2; i -= 2) {
    if (items[i - 2]->kind == Kind::kText && items[i - 2]->text == key) return items[i - 1];
  }
  return nullptr;
}

Pickle::Pickle(std::string_view bytes, const std::string& where) { PickleMachine(bytes, *this, where).run(); }

}  // namespace tessera::checkpoint
