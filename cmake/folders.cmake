# One object library for each folder of src/, linked as src/folders.txt says.

# tessera_read_folders(FILE): sets TESSERA_FOLDERS and, for each, TESSERA_DEPS_<folder> (direct, `base` included).
macro(tessera_read_folders FILE)
  file(STRINGS ${FILE} LINES REGEX "^[a-z]+:")
  set(TESSERA_FOLDERS "")
  foreach(LINE IN LISTS LINES)
    string(REGEX MATCH "^([a-z]+): *(.*)$" _ "${LINE}")
    set(FOLDER ${CMAKE_MATCH_1})
    separate_arguments(DEPS UNIX_COMMAND "${CMAKE_MATCH_2}")
    if(NOT FOLDER STREQUAL "base")
      list(PREPEND DEPS base)
    endif()
    list(APPEND TESSERA_FOLDERS ${FOLDER})
    set(TESSERA_DEPS_${FOLDER} ${DEPS})
  endforeach()
endmacro()

# tessera_closure(OUT FOLDER): FOLDER and everything it may include, directly or not.
function(tessera_closure OUT FOLDER)
  set(ALL ${FOLDER})
  foreach(DEP IN LISTS TESSERA_DEPS_${FOLDER})
    tessera_closure(SUB ${DEP})
    list(APPEND ALL ${SUB})
  endforeach()
  list(REMOVE_DUPLICATES ALL)
  set(${OUT} ${ALL} PARENT_SCOPE)
endfunction()

# Sources are compiled ten at a time, because parsing what they include takes longest: it takes less than half of the time. Two
# sources of a folder must not give one name to two things at the level of a namespace. Nor may a source's own name hide one of
# tessera's: the next source of its batch may mean that. Not those of these folders: kernels and codecs, made after one pattern with
# the same names in each, some of which include themselves.
set(TESSERA_SINGLE_FOLDERS host image)
# Sources with compile definitions of their own: each alone.
set(TESSERA_ALONE cli/version.cc)

# tessera_unity(OUT SRC FOLDER SOURCE...): the sources, ten of them in each file that includes them. CMake's own such files
# (UNITY_BUILD) name the checkout, so that a compiler cache would not find what another one compiled.
function(tessera_unity OUT SRC FOLDER)
  list(TRANSFORM TESSERA_ALONE PREPEND ${SRC}/ OUTPUT_VARIABLE ALONE)
  set(SOURCES ${ARGN})
  set(RESULT "")
  foreach(SOURCE IN LISTS ALONE)
    if(SOURCE IN_LIST SOURCES)
      list(REMOVE_ITEM SOURCES ${SOURCE})
      list(APPEND RESULT ${SOURCE})
    endif()
  endforeach()
  set(NUMBER 0)
  while(SOURCES)
    list(SUBLIST SOURCES 0 10 FILES)
    list(REMOVE_ITEM SOURCES ${FILES})
    list(TRANSFORM FILES REPLACE "^${SRC}/(.*)$" "#include \"\\1\"\n")
    list(JOIN FILES "" TEXT)
    set(BATCH ${CMAKE_BINARY_DIR}/unity/${FOLDER}_${NUMBER}.cc)
    file(CONFIGURE OUTPUT ${BATCH} CONTENT "${TEXT}" @ONLY)
    list(APPEND RESULT ${BATCH})
    math(EXPR NUMBER "${NUMBER} + 1")
  endwhile()
  set(${OUT} ${RESULT} PARENT_SCOPE)
endfunction()

# Folders without loops over pixels, rows or elements: there is nothing in them for -O3 to make fast, and -Og takes a third less time.
# Under sanitizers they are not optimised, and two more. Fuzzing wants them fast.
set(TESSERA_COLD_FOLDERS config http mesh cluster checkpoint pjrt ir nn models objectives optim recipe state plan monitor
  pages train inference cli)
if(TESSERA_SANITIZE)
  list(APPEND TESSERA_COLD_FOLDERS store data)
  set(TESSERA_COLD_OPTIONS -O0)
else()
  set(TESSERA_COLD_OPTIONS $<$<CONFIG:Release>:-Og>)
endif()

function(tessera_add_folders SRC)
  tessera_read_folders(${SRC}/folders.txt)
  set(TESSERA_FOLDERS ${TESSERA_FOLDERS} PARENT_SCOPE)
  set(COMPILED "")
  foreach(FOLDER IN LISTS TESSERA_FOLDERS)
    set(TESSERA_DEPS_${FOLDER} ${TESSERA_DEPS_${FOLDER}} PARENT_SCOPE)
    file(GLOB_RECURSE SOURCES CONFIGURE_DEPENDS ${SRC}/${FOLDER}/*.cc)
    list(FILTER SOURCES EXCLUDE REGEX "/cli/program/")  # what only programs are linked with
    if(NOT SOURCES)
      add_library(tessera_${FOLDER} INTERFACE)
      continue()
    endif()
    if(TESSERA_UNITY AND NOT FOLDER IN_LIST TESSERA_SINGLE_FOLDERS)
      tessera_unity(SOURCES ${SRC} ${FOLDER} ${SOURCES})
    endif()
    add_library(tessera_${FOLDER} OBJECT ${SOURCES})
    target_include_directories(tessera_${FOLDER} PUBLIC ${SRC})
    target_include_directories(tessera_${FOLDER} SYSTEM PRIVATE ${TESSERA_PJRT_INCLUDE} ${TESSERA_FFI_INCLUDE})
    target_link_libraries(tessera_${FOLDER} PUBLIC fmt::fmt Threads::Threads ${TESSERA_LIBS_${FOLDER}})
    if(TESSERA_UNITY)
      # It takes the sources of a batch for headers, which others include too.
      target_compile_options(tessera_${FOLDER} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    endif()
    list(APPEND COMPILED ${FOLDER})
  endforeach()
  # The owner of headers defines no macros of a library, which the others would not have.
  foreach(FOLDER IN LISTS COMPILED)
    set(OWNER base)
    if(NOT TESSERA_FUZZ AND FOLDER IN_LIST TESSERA_COLD_FOLDERS)
      target_compile_options(tessera_${FOLDER} PRIVATE ${TESSERA_COLD_OPTIONS})
      set(OWNER mesh)
    endif()
    tessera_precompile(tessera_${FOLDER} tessera_${OWNER} ${TESSERA_COMMON_HEADERS})
  endforeach()
endfunction()

# tessera_use_allocator(PROGRAM): jemalloc in the place of malloc, for the plugin too. Sanitizers bring their own, and get what they
# are to leave out.
function(tessera_use_allocator PROGRAM)
  if(TESSERA_SANITIZE)
    target_sources(${PROGRAM} PRIVATE ${CMAKE_SOURCE_DIR}/src/cli/program/sanitizers.cc)
  else()
    target_sources(${PROGRAM} PRIVATE ${CMAKE_SOURCE_DIR}/src/cli/program/allocator.cc)
    target_link_libraries(${PROGRAM} PRIVATE ${TESSERA_JEMALLOC} ${CMAKE_DL_LIBS})
  endif()
endfunction()

# tessera_link_closure(TARGET FOLDER...): links the objects of the folders and of all they need.
function(tessera_link_closure TARGET)
  set(ALL "")
  foreach(FOLDER IN LISTS ARGN)
    if(NOT TARGET tessera_${FOLDER})
      message(FATAL_ERROR "${TARGET} is to link ${FOLDER}, which has no line in src/folders.txt")
    endif()
    tessera_closure(SUB ${FOLDER})
    list(APPEND ALL ${SUB})
  endforeach()
  list(REMOVE_DUPLICATES ALL)
  foreach(FOLDER IN LISTS ALL)
    target_link_libraries(${TARGET} PRIVATE tessera_${FOLDER})
  endforeach()
  target_include_directories(${TARGET} PRIVATE ${CMAKE_SOURCE_DIR}/src)
endfunction()
