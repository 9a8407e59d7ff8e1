# Debian's libraries (the list is in tools/setup/debian.txt) and the PJRT C header, which the CPU plugin's wheel ships.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)
pkg_check_modules(TIFF REQUIRED IMPORTED_TARGET libtiff-4)
find_package(GIF REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(BROTLI REQUIRED IMPORTED_TARGET libbrotlidec)
pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(ICU REQUIRED IMPORTED_TARGET icu-i18n icu-uc)
find_library(TESSERA_SNAPPY libsnappy.so REQUIRED)
find_library(TESSERA_HIGHWAYHASH libhighwayhash.so REQUIRED)
find_library(TESSERA_JEMALLOC libjemalloc_pic.a REQUIRED)
pkg_check_modules(ZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(SSL REQUIRED IMPORTED_TARGET libssl)
pkg_check_modules(TOMLPP REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(YAMLCPP REQUIRED IMPORTED_TARGET yaml-cpp)
find_package(ZLIB REQUIRED)
find_package(CURL REQUIRED)  # its header: it is loaded when it is used (http/web_client.cc)
find_package(Eigen3 REQUIRED NO_MODULE)
find_library(TESSERA_LBFGS liblbfgs.a REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_file(TESSERA_DYGRAPH_JS dygraph.min.js PATHS /usr/share/javascript/dygraphs REQUIRED)
find_file(TESSERA_DYGRAPH_CSS dygraph.min.css PATHS /usr/share/javascript/dygraphs REQUIRED)

file(GLOB TESSERA_PJRT_INCLUDE "${TESSERA_VENV}/lib/python3*/site-packages/xla_plugins/xla_cpu_pjrt/include")
if(NOT EXISTS "${TESSERA_PJRT_INCLUDE}/pjrt_c_api.h")
  message(FATAL_ERROR
    "pjrt_c_api.h was not found under ${TESSERA_VENV}.\n"
    "It comes with the PyPI wheel xla-cpu-pjrt: run ./dev build, which installs it, or point TESSERA_VENV at an environment that has it.")
endif()
get_filename_component(TESSERA_CPU_PLUGIN "${TESSERA_PJRT_INCLUDE}/../xla_cpu_pjrt.so" ABSOLUTE)

# Headers of XLA's foreign functions (extension PJRT_Extension_Type_FFI), of a minor version that the CPU plugin knows.
set(TESSERA_FFI_INCLUDE "${TESSERA_VENV}/include/jaxlib")
if(NOT EXISTS "${TESSERA_FFI_INCLUDE}/xla/ffi/api/ffi.h")
  message(FATAL_ERROR
    "xla/ffi/api/ffi.h was not found under ${TESSERA_VENV}/include.\n"
    "It comes with the PyPI wheel jaxlib: run ./dev build, which takes it from there.")
endif()

# Arrow's C++ library, from the PyPI wheel pyarrow (./dev parquet-deps): only for tessera_parquet.so, which the program loads when
# it opens a parquet source. Looked for at every build.
file(GLOB TESSERA_ARROW CONFIGURE_DEPENDS "${TESSERA_VENV}/lib/python3*/site-packages/pyarrow/include/parquet/api/reader.h")
if(TESSERA_ARROW)
  get_filename_component(TESSERA_ARROW "${TESSERA_ARROW}/../../../.." ABSOLUTE)
endif()

# Gloo: only for tessera_gloo.so, which the program loads when several processes train together.
find_library(TESSERA_GLOO libgloo.so REQUIRED)

# PMIx: only for tessera_pmix.so, which the program loads when mpirun or srun started it.
pkg_check_modules(PMIX REQUIRED IMPORTED_TARGET pmix)

# tessera_find_reader(NAME ENVIRONMENT): the Python whose packages the tests compare with, where ./dev test makes its environment:
# TESSERA_<NAME>, empty where it doesn't. Looked for at every build; the packages may come while it runs, before the tests do.
# TESSERA_<NAME>_VENV is another place.
macro(tessera_find_reader NAME ENVIRONMENT)
  set(TESSERA_${NAME}_VENV "${CMAKE_SOURCE_DIR}/.deps/${ENVIRONMENT}" CACHE PATH "Python environment for tests: ${ENVIRONMENT}")
  file(GLOB TESSERA_${NAME} CONFIGURE_DEPENDS "${TESSERA_${NAME}_VENV}/bin/python")
endmacro()
tessera_find_reader(TENSORBOARD tensorboard)  # of event files
tessera_find_reader(JAX bench-jax)            # of exported programs
tessera_find_reader(XPROF xprof)              # of profiles
tessera_find_reader(TRACKERS trackers)        # W&B's and MLflow's programs
tessera_find_reader(BUCKETS buckets)          # servers of buckets

# Libraries a folder of src/ links, beyond the standard library, threads and fmt.
set(TESSERA_LIBS_base PkgConfig::RE2 PkgConfig::CRYPTO ${CMAKE_DL_LIBS})
set(TESSERA_LIBS_config PkgConfig::TOMLPP)
set(TESSERA_LIBS_recipe PkgConfig::YAMLCPP)
set(TESSERA_LIBS_http Boost::headers PkgConfig::SSL)
set(TESSERA_LIBS_image PkgConfig::JPEG PkgConfig::SPNG PkgConfig::WEBP PkgConfig::TIFF GIF::GIF PkgConfig::HWY PkgConfig::ICU)
set(TESSERA_LIBS_data PkgConfig::ZSTD PkgConfig::BROTLI PkgConfig::SENTENCEPIECE PkgConfig::ICU ${TESSERA_SNAPPY} ${TESSERA_HIGHWAYHASH} ZLIB::ZLIB)
set(TESSERA_LIBS_monitor ZLIB::ZLIB)
set(TESSERA_LIBS_store PkgConfig::CRYPTO PkgConfig::ZIP)
set(TESSERA_LIBS_interop Eigen3::Eigen)
set(TESSERA_LIBS_metrics Eigen3::Eigen ${TESSERA_LBFGS})
set(TESSERA_LIBS_host PkgConfig::HWY)
set(TESSERA_LIBS_pjrt ${CMAKE_DL_LIBS})
set(TESSERA_LIBS_pages ${CMAKE_DL_LIBS})
