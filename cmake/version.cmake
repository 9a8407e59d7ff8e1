# What `tessera --version` tells about this build. The git hash is that of the last configure.
set(TESSERA_GIT "")
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${CMAKE_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    OUTPUT_VARIABLE TESSERA_GIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/cli/version.cc PROPERTIES
  # pjrt_c_api.h: see the same option of tessera_pjrt.
  COMPILE_OPTIONS "-Wno-pedantic"
  COMPILE_DEFINITIONS
    "TESSERA_VERSION=\"${PROJECT_VERSION}\";TESSERA_GIT=\"${TESSERA_GIT}\";TESSERA_COMPILER=\"${CMAKE_CXX_COMPILER_ID}\"")
