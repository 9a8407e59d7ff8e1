# Headers that most sources include are parsed once. A source still includes what it uses: ./dev lint looks at it without them.
set(TESSERA_COMMON_HEADERS <algorithm> <array> <chrono> <cmath> <cstring> <fmt/format.h> <functional> <map> <memory> <mutex> <optional>
  <span> <string> <string_view> <thread> <utility> <variant> <vector>)

# tessera_precompile(NAME OWNER HEADER...): the target NAME uses the headers that OWNER precompiles, or precompiles them if it is OWNER.
# Both must have the same options, but for warnings. Not with clang, whose precompiled headers name the checkout, so that a compiler
# cache would not find what another one compiled.
function(tessera_precompile NAME OWNER)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  if(NAME STREQUAL OWNER)
    target_precompile_headers(${NAME} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${NAME} REUSE_FROM ${OWNER})
  endif()
endfunction()
