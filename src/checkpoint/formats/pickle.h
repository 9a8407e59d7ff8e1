#pragma once
// Python pickles, as far as torch.save writes them: nothing is run. Opcodes and names that are not on the lists in pickle.cc end
// in a data Error; what is on them makes plain values, as torch.load(weights_only=True) does (torch/_weights_only_unpickler.py).
//
// A pickle is input from outside: values, their depth and every length are bounded.

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::checkpoint {

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInteger,
    kNumber,
    kText,     // also bytes
    kList,     // also tuples
    kDict,     // also OrderedDict: `items` holds keys and values in turn
    kName,     // a class or function on the list: "torch.FloatStorage"
    kStorage,  // a persistent id: `items` are its parts
    kTensor,   // `items`: a kStorage, offset, sizes, strides
    kOther,    // made by something on the list that is no weights: argparse.Namespace
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // of kBool and kInteger
  double number = 0;
  std::string text;  // of kText and kName
  std::vector<const PickleValue*> items;

  // Of a dict: the value of the last such key; null where there is none.
  const PickleValue* find(std::string_view key) const;
};

// A pickle's values, which may refer to each other in circles.
class Pickle {
 public:
  // Throws data Errors that name `where`.
  Pickle(std::string_view bytes, const std::string& where);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace tessera::checkpoint
