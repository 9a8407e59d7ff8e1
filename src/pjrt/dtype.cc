#include "pjrt/dtype.h"

#include <fmt/format.h>
#include <pjrt_c_api.h>

#include <utility>

#include "base/error.h"

namespace tessera::pjrt {
namespace {

constexpr std::pair<DType, PJRT_Buffer_Type> kTypes[] = {
    {DType::kBool, PJRT_Buffer_Type_PRED}, {DType::kI8, PJRT_Buffer_Type_S8},     {DType::kI16, PJRT_Buffer_Type_S16},
    {DType::kI32, PJRT_Buffer_Type_S32},   {DType::kI64, PJRT_Buffer_Type_S64},   {DType::kU8, PJRT_Buffer_Type_U8},
    {DType::kU16, PJRT_Buffer_Type_U16},   {DType::kU32, PJRT_Buffer_Type_U32},   {DType::kU64, PJRT_Buffer_Type_U64},
    {DType::kF16, PJRT_Buffer_Type_F16},   {DType::kBF16, PJRT_Buffer_Type_BF16}, {DType::kF32, PJRT_Buffer_Type_F32},
    {DType::kF64, PJRT_Buffer_Type_F64},
};

}  // namespace

int pjrt_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  TESSERA_CHECK(false, "dtype {} has no PJRT type", dtype_name(dtype));
}

DType dtype_from_pjrt(int type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw device_error(fmt::format("the program gives an array of PJRT element type {}, which is not supported", type));
}

}  // namespace tessera::pjrt
