#include "monitor/tensorboard/graph_def.h"

#include <protozero/pbf_writer.hpp>

namespace tessera::monitor {
namespace {

using protozero::pbf_writer;

constexpr uint32_t kNode = 1, kVersions = 4, kProducer = 1;    // of GraphDef
constexpr uint32_t kName = 1, kOp = 2, kInput = 3, kAttr = 5;  // of NodeDef
constexpr uint32_t kKey = 1, kValue = 2;                       // of an entry of its map
constexpr uint32_t kList = 1, kType = 6, kListShape = 7;       // of AttrValue, and of its list
constexpr uint32_t kDim = 2, kSize = 1;                        // of TensorShapeProto
constexpr int32_t kProducerVersion = 1882;                     // any of TensorFlow 2's

// tensorflow/core/framework/types.proto
int32_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 1;
    case DType::kF64: return 2;
    case DType::kI32: return 3;
    case DType::kU8: return 4;
    case DType::kI64: return 9;
    case DType::kBool: return 10;
    case DType::kBF16: return 14;
    case DType::kF16: return 19;
    case DType::kU32: return 22;
    case DType::kU64: return 23;
    default: return 0;
  }
}

std::string shape_of(const TensorType& type) {
  std::string out;
  pbf_writer shape(out);
  for (const int64_t size : type.dims) {
    pbf_writer dim(shape, kDim);
    dim.add_int64(kSize, size);
  }
  return out;
}

void add_attributes(pbf_writer& node, const TensorType& type) {
  {
    pbf_writer entry(node, kAttr);
    entry.add_string(kKey, "_output_shapes");
    pbf_writer value(entry, kValue);
    pbf_writer list(value, kList);
    list.add_message(kListShape, shape_of(type));  // a scalar's is there too, and empty
  }
  pbf_writer entry(node, kAttr);
  entry.add_string(kKey, "dtype");
  pbf_writer value(entry, kValue);
  value.add_enum(kType, type_of(type.dtype));
}

}  // namespace

std::string graph_def(const ModelGraph& graph) {
  std::string out;
  pbf_writer writer(out);
  for (const GraphNode& of : graph.nodes) {
    pbf_writer node(writer, kNode);
    node.add_string(kName, of.name);
    node.add_string(kOp, of.op);
    for (const std::string& input : of.inputs) node.add_string(kInput, input);
    add_attributes(node, of.type);
  }
  pbf_writer versions(writer, kVersions);
  versions.add_int32(kProducer, kProducerVersion);
  return out;
}

}  // namespace tessera::monitor
