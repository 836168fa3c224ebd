# tests/unit/<floor>/test_*.c see their floor and those below; laws and parity see everything up to tasks (and the COUNT
# table). Exit code 77 means skipped.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

function(qkv_test source floors)
  file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/tests ${source})
  string(REGEX REPLACE "\\.c$" "" path ${path})
  string(REPLACE "/test_" "/" name ${path})
  string(REPLACE "/" "." target test.${name})
  add_executable(${target} ${source})
  qkv_use_floors(${target} ${floors})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE PkgConfig::CMOCKA ${ARGN})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(name MATCHES "^unit/kernels/simd_(.+)$") # the vocabulary of one instruction set, with its flags
    target_compile_options(${target} PRIVATE ${QKV_ISA_FLAGS_${CMAKE_MATCH_1}})
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  string(REGEX REPLACE "/.*$" "" label ${name})
  add_test(NAME ${name} COMMAND ${target})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS ${label}
    ENVIRONMENT "QKV_TEST_SOURCE=${PROJECT_SOURCE_DIR}/tests;QKV_TEST_TMP=${PROJECT_BINARY_DIR}/tests/tmp")
endfunction()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/tests/tmp)

foreach(floor base kernels text formats data ops layers models train report tasks bench compare api)
  if(floor MATCHES "^(bench|compare|api)$" AND QKV_DOUBLE)
    continue()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/${floor}/test_*.c)
  foreach(source ${sources})
    if(floor STREQUAL kernels)
      qkv_test(${source} ${floor} qkv_isa_count qkv_isa_bf16_count)
    else()
      qkv_test(${source} ${floor})
    endif()
  endforeach()
endforeach()

# The AArch64 kernels, cross-built and run under qemu where both are installed.
find_program(QKV_AARCH64_CC aarch64-linux-gnu-gcc)
find_program(QKV_AARCH64_RUN qemu-aarch64)
if(QKV_AARCH64_CC AND QKV_AARCH64_RUN AND NOT QKV_DOUBLE AND CMAKE_BUILD_TYPE STREQUAL Release)
  add_test(NAME unit/kernels/neon COMMAND ${CMAKE_CTEST_COMMAND}
    --build-and-test ${PROJECT_SOURCE_DIR}/tests/unit/kernels/neon ${PROJECT_BINARY_DIR}/neon --build-generator ${CMAKE_GENERATOR}
    --build-options -DCMAKE_TOOLCHAIN_FILE=${PROJECT_SOURCE_DIR}/cmake/aarch64.cmake --test-command ${CMAKE_CTEST_COMMAND} --output-on-failure)
  set_tests_properties(unit/kernels/neon PROPERTIES TIMEOUT 600 LABELS unit)
endif()

foreach(group laws parity)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${group}/test_*.c)
  foreach(source ${sources})
    if(QKV_DOUBLE)
      qkv_test(${source} tasks qkv_isa_count qkv_isa_bf16_count)
    else()
      qkv_test(${source} api qkv_isa_count qkv_isa_bf16_count)
    endif()
  endforeach()
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/fuzz.cmake)
if(TARGET qkv)
  include(${CMAKE_CURRENT_LIST_DIR}/cli_tests.cmake)
endif()
