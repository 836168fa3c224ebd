# fuzz/fuzz_<name>.c is a libFuzzer target. Here each is built with a driver of its own and replays fuzz/corpus/<name> as an
# ordinary test. With -DQKV_FUZZ=ON (clang) each is built as fuzz.<name> with libFuzzer itself too; give the floors
# -DCMAKE_C_FLAGS="-fsanitize=fuzzer-no-link,address,undefined", then: fuzz.<name> fuzz/corpus/<name>
option(QKV_FUZZ "also build the fuzz targets with libFuzzer (clang only)" OFF)

if(NOT QKV_DOUBLE)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fuzz/fuzz_*.c)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" name ${name})
    add_executable(test.fuzz.${name} ${source} ${PROJECT_SOURCE_DIR}/fuzz/replay.c)
    set_target_properties(test.fuzz.${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_compile_options(test.fuzz.${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    qkv_use_floors(test.fuzz.${name} api)
    add_test(NAME fuzz/${name} COMMAND test.fuzz.${name} ${PROJECT_SOURCE_DIR}/fuzz/corpus/${name})
    set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 600 LABELS fuzz)
    if(QKV_FUZZ)
      add_executable(fuzz.${name} ${source})
      target_link_options(fuzz.${name} PRIVATE -fsanitize=fuzzer)
      target_compile_options(fuzz.${name} PRIVATE -fsanitize=fuzzer)
      qkv_use_floors(fuzz.${name} api)
    endif()
  endforeach()
endif()
