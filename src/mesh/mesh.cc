#include "mesh/mesh.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::mesh {
namespace {

// The sizes that divide `n`, as text.
std::string divisors(int64_t n) {
  std::vector<std::string> out;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) out.push_back(std::to_string(d));
  }
  return join(out, ", ");
}

Axis parse_axis(std::string_view text, const std::string& where) {
  const auto eq = text.find('=');
  const std::string name(trim(text.substr(0, eq)));
  const std::vector<std::string>& known = axis_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw usage_error(fmt::format("unknown mesh axis `{}`", name), where, suggest_name(name, known));
  }
  const auto size = eq == std::string_view::npos ? std::nullopt : parse_number(text.substr(eq + 1));
  if (!size || *size != static_cast<double>(static_cast<int64_t>(*size)) || (*size < 1 && *size != -1)) {
    throw usage_error(fmt::format("mesh axis `{}` needs a size", name), where,
                      fmt::format("write {}=2, or {}=-1 for what is left", name, name));
  }
  return {name, static_cast<int64_t>(*size)};
}

}  // namespace

const std::vector<std::string>& axis_names() {
  static const std::vector<std::string> names{"replica", "fsdp", "tensor"};
  return names;
}

int64_t Mesh::devices() const {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.size;
  return n;
}

int64_t Mesh::size(std::string_view axis) const {
  for (const Axis& a : axes) {
    if (a.name == axis) return a.size;
  }
  return 1;
}

std::string Mesh::text() const {
  std::vector<std::string> parts;
  for (const Axis& a : axes) parts.push_back(fmt::format("{}={}", a.name, a.size));
  return join(parts, ", ");
}

Mesh parse_mesh(std::string_view text, int64_t devices, std::string_view where_view) {
  const std::string where(where_view);
  Mesh mesh;
  for (const std::string& part : split(trim(text).empty() ? "replica=-1" : text, ',')) {
    const Axis axis = parse_axis(part, where);
    if (std::any_of(mesh.axes.begin(), mesh.axes.end(), [&](const Axis& a) { return a.name == axis.name; })) {
      throw usage_error(fmt::format("mesh axis `{}` is named twice", axis.name), where);
    }
    mesh.axes.push_back(axis);
  }
  Axis* rest = nullptr;
  int64_t known = 1;
  for (Axis& a : mesh.axes) {
    if (a.size != -1) {
      known *= a.size;
    } else if (rest) {
      throw usage_error("only one mesh axis may be -1", where);
    } else {
      rest = &a;
    }
  }
  if (rest && devices % known == 0) rest->size = devices / known;
  if (mesh.devices() != devices) {
    std::string help = fmt::format("sizes must multiply to {}; each is one of {}", devices, divisors(devices));
    if (!rest) help += fmt::format(". On CPUs, --devices {} gives as many virtual devices", known);
    throw usage_error(fmt::format("mesh `{}` does not fit {} device{}", trim(text), devices, devices == 1 ? "" : "s"), where,
                      help);
  }
  return mesh;
}

}  // namespace tessera::mesh
