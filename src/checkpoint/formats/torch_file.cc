#include "checkpoint/formats/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "checkpoint/formats/pickle.h"
#include "store/encoding/zip_archive.h"

namespace tessera::checkpoint {
namespace {

using store::ZipArchive;

using Kind = PickleValue::Kind;

constexpr std::string_view kPickle = "data.pkl";
constexpr uint64_t kMaxPickle = uint64_t{16} << 20;  // bytes; those of large models have less than one million

constexpr std::pair<std::string_view, DType> kStorages[] = {
    {"torch.FloatStorage", DType::kF32}, {"torch.DoubleStorage", DType::kF64},    {"torch.HalfStorage", DType::kF16},
    {"torch.LongStorage", DType::kI64},  {"torch.BFloat16Storage", DType::kBF16}, {"torch.IntStorage", DType::kI32},
    {"torch.ShortStorage", DType::kI16}, {"torch.CharStorage", DType::kI8},       {"torch.ByteStorage", DType::kU8},
    {"torch.BoolStorage", DType::kBool}};

class TorchFile {
 public:
  explicit TorchFile(const std::string& path) : path_(path), archive_(open(path)) {
    for (uint64_t i = 0; i < archive_.size(); ++i) {
      const std::string name = archive_.name(i);
      const size_t slash = name.find('/');  // the folder may have any name
      if (slash == std::string::npos || name.substr(slash + 1) != kPickle) continue;
      pickle_ = i;
      folder_ = name.substr(0, slash + 1);
    }
    if (!pickle_) fail("holds no data.pkl, as every file of torch.save does");
    if (const auto order = archive_.find(folder_ + "byteorder")) {
      archive_.check_sizes({*order});
      const std::vector<std::byte> bytes = archive_.bytes(*order);
      if (std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) != "little")
        fail("was written on a big-endian machine");
    }
  }

  std::vector<NpzArray> arrays() {
    std::map<std::string, NpzArray> by_name;
    std::vector<std::string> order;
    each_tensor([&](const std::string& name, const PickleValue& tensor) {
      NpzArray array = read(name, tensor);
      if (by_name.insert_or_assign(name, std::move(array)).second) order.push_back(name);
    });
    std::vector<NpzArray> arrays;
    for (const std::string& name : order) arrays.push_back(std::move(by_name.at(name)));
    return arrays;
  }

  std::vector<std::pair<std::string, TensorType>> types() const {
    std::vector<std::pair<std::string, TensorType>> types;
    each_tensor(
        [&](const std::string& name, const PickleValue& tensor) { types.emplace_back(name, layout_of(name, tensor).type); });
    return types;
  }

 private:
  template <class Take>
  void each_tensor(Take take) const {
    if (archive_.unpacked_size(*pickle_) > kMaxPickle) fail("describes more than weights: its data.pkl is larger than 16 MiB");
    const std::vector<std::byte> bytes = archive_.bytes(*pickle_);
    const Pickle pickle({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path_);
    const PickleValue& dict = state_dict(pickle.root());
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      if (dict.items[i]->kind != Kind::kText || dict.items[i + 1]->kind != Kind::kTensor) continue;
      take(without_wrappers(dict.items[i]->text), *dict.items[i + 1]);
    }
  }

  static ZipArchive open(const std::string& path) {
    try {
      return ZipArchive(path, "a file of torch.save (a zip archive, as PyTorch writes since 1.6)", "array");
    } catch (const Error& error) {
      throw data_error(error.message(), path, "older ones: torch.save(torch.load(FILE, weights_only=True), FILE) in Python");
    }
  }
  [[noreturn]] void fail(const std::string& what) const { throw data_error(what, path_); }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    fail(fmt::format("the tensor `{}` {}", one_line(name), what));
  }

  const PickleValue& state_dict(const PickleValue& root) const {
    if (root.kind != Kind::kDict) fail("holds no dictionary of weights");
    for (const char* key : {"state_dict_ema", "model_ema"}) {
      const PickleValue* found = root.find(key);
      if (found != nullptr && found->kind == Kind::kDict) return *found;
    }
    for (const char* key : {"state_dict", "model"}) {
      const PickleValue* found = root.find(key);
      if (found == nullptr) continue;
      if (found->kind != Kind::kDict) fail(fmt::format("holds `{}`, which is no dictionary of weights", key));
      return *found;
    }
    return root;
  }
  // timm's clean_state_dict().
  static std::string without_wrappers(std::string name) {
    for (const std::string_view prefix : {"_orig_mod.", "module.", "_orig_mod."}) {
      if (name.starts_with(prefix)) name.erase(0, prefix.size());
    }
    return name;
  }

  // Of a storage: ("storage", type, key, device, elements).
  DType dtype_of(const std::string& name, const PickleValue& id) const {
    const auto& parts = id.items;
    if (parts.size() < 3 || parts[0]->text != "storage" || parts[1]->kind != Kind::kName || parts[2]->kind != Kind::kText)
      fail(name, "has no storage");
    const auto* const type = std::ranges::find(kStorages, parts[1]->text, &std::pair<std::string_view, DType>::first);
    if (type == std::end(kStorages)) fail(name, fmt::format("is of the type {}, which is not known here", parts[1]->text));
    return type->second;
  }

  // Its bytes, which are read once.
  const std::vector<std::byte>& storage(const std::string& name, const PickleValue& id) {
    const std::string& key = id.items[2]->text;
    const auto known = storages_.find(key);
    if (known != storages_.end()) return known->second;
    const auto entry = archive_.find(fmt::format("{}data/{}", folder_, key));
    if (!entry) fail(name, fmt::format("has its elements in `{}`, which is not there", one_line(key)));
    entries_.push_back(*entry);
    archive_.check_sizes(entries_);
    return storages_.emplace(key, archive_.bytes(*entry)).first->second;
  }

  struct Layout {
    TensorType type;
    std::vector<uint64_t> strides;
    uint64_t count = 1, offset = 0, last = 0;  // `last`: the farthest element
  };
  Layout layout_of(const std::string& name, const PickleValue& tensor) const {
    Layout out;
    out.type.dtype = dtype_of(name, *tensor.items[0]);
    bool sound = tensor.items[1]->integer >= 0;
    int64_t room = 8;  // bytes of the largest element: byte_count() fits, whichever dimensions have none
    out.offset = out.last = static_cast<uint64_t>(tensor.items[1]->integer);
    for (size_t d = 0; sound && d < tensor.items[2]->items.size(); ++d) {
      const int64_t size = tensor.items[2]->items[d]->integer, stride = tensor.items[3]->items[d]->integer;
      uint64_t reach = 0;
      sound = size >= 0 && stride >= 0 && !__builtin_mul_overflow(room, std::max<int64_t>(size, 1), &room) &&
              !__builtin_mul_overflow(out.count, static_cast<uint64_t>(size), &out.count) &&
              !__builtin_mul_overflow(static_cast<uint64_t>(size > 0 ? size - 1 : 0), static_cast<uint64_t>(stride), &reach) &&
              !__builtin_add_overflow(out.last, reach, &out.last);
      out.type.dims.push_back(size);
      out.strides.push_back(static_cast<uint64_t>(stride));
    }
    if (!sound) fail(name, "does not lie in its storage");
    return out;
  }

  NpzArray read(const std::string& name, const PickleValue& tensor) {
    Layout layout = layout_of(name, tensor);
    const std::vector<std::byte>& from = storage(name, *tensor.items[0]);
    const auto element = static_cast<uint64_t>(element_bytes(layout.type.dtype));
    const uint64_t count = layout.count;
    if (count > 0 && layout.last >= from.size() / element) fail(name, "does not lie in its storage");
    // Elements may be shared, so that the sizes are the file's own claim.
    if (count > (archive_.most_bytes() - taken_) / element)
      fail(name, "takes more memory than weights of a file of this size do");
    taken_ += count * element;
    NpzArray array{name, std::move(layout.type), std::vector<std::byte>(count * element)};
    gather(from, layout.offset, array.type.dims, layout.strides, element, array.data);
    return array;
  }

  // In the order of C, the elements from `offset` on.
  static void gather(const std::vector<std::byte>& from, uint64_t offset, const Dims& dims,
                     const std::vector<uint64_t>& strides, uint64_t element, std::vector<std::byte>& out) {
    if (out.empty()) return;
    size_t inner = dims.size();  // from here on they lie one after the other
    uint64_t run = 1;
    while (inner > 0 && (dims[inner - 1] == 1 || strides[inner - 1] == run)) run *= static_cast<uint64_t>(dims[--inner]);
    std::vector<int64_t> at(inner, 0);
    for (uint64_t done = 0; done < out.size(); done += run * element) {
      uint64_t place = offset;
      for (size_t d = 0; d < inner; ++d) place += static_cast<uint64_t>(at[d]) * strides[d];
      std::memcpy(out.data() + done, from.data() + place * element, run * element);
      for (size_t d = inner; d-- > 0;) {
        if (++at[d] < dims[d]) break;
        at[d] = 0;
      }
    }
  }

  std::string path_;
  ZipArchive archive_;
  std::optional<uint64_t> pickle_;
  std::string folder_;  // of all entries, with its slash
  std::map<std::string, std::vector<std::byte>> storages_;
  std::vector<uint64_t> entries_;  // that are read
  uint64_t taken_ = 0;             // bytes of the tensors so far
};

template <class Tensor>
std::vector<Tensor> not_empty(std::vector<Tensor> tensors, const std::string& path) {
  if (tensors.empty())
    throw data_error("holds no tensors under names", path, "save a state dict: torch.save(model.state_dict(), FILE)");
  return tensors;
}

}  // namespace

std::vector<NpzArray> read_torch(const std::string& path) { return not_empty(TorchFile(path).arrays(), path); }

std::vector<std::pair<std::string, TensorType>> torch_types(const std::string& path) {
  return not_empty(TorchFile(path).types(), path);
}

}  // namespace tessera::checkpoint
