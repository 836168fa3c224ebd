# How the program writes numbers, beside printf.
add_executable(test.cli.float ${PROJECT_SOURCE_DIR}/tests/cli/test_float.c ${PROJECT_SOURCE_DIR}/cli/format.c)
target_include_directories(test.cli.float PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(test.cli.float PRIVATE PkgConfig::CMOCKA PkgConfig::JANSSON ${QKV_LIBM})
set_target_properties(test.cli.float PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME cli.float COMMAND test.cli.float)

# Transcripts of the program: bash scripts that run it and look at what comes out.
find_program(QKV_BASH bash)
if(QKV_BASH)
  add_executable(test.cli.json_tool ${PROJECT_SOURCE_DIR}/tests/cli/json_tool.c)
  target_link_libraries(test.cli.json_tool PRIVATE PkgConfig::JANSSON)
  set_target_properties(test.cli.json_tool PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

  add_executable(test.cli.peak ${PROJECT_SOURCE_DIR}/tests/cli/peak.c)
  set_target_properties(test.cli.peak PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

  add_executable(test.cli.overflow ${PROJECT_SOURCE_DIR}/tests/cli/overflow.c)
  qkv_use_floors(test.cli.overflow models)
  set_target_properties(test.cli.overflow PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

  set(cli_environment QKV=$<TARGET_FILE:qkv> QKV_JSON=$<TARGET_FILE:test.cli.json_tool> QKV_PEAK=$<TARGET_FILE:test.cli.peak>
    QKV_OVERFLOW=$<TARGET_FILE:test.cli.overflow> QKV_MODELS=${PROJECT_BINARY_DIR}/tests/cli-models)
  if(CMAKE_C_FLAGS MATCHES "-fsanitize")
    list(APPEND cli_environment QKV_SANITIZED=1)
  endif()
  if(CMAKE_C_FLAGS MATCHES "-fsanitize=thread")
    list(APPEND cli_environment QKV_SIGNALS_HELD_BACK=1)
  endif()
  foreach(name model help effects train positions patterns recurrent segments memory signals resume folds tune formats bench flops compare test predict embed info attend bf16)
    add_test(NAME cli.${name} COMMAND ${QKV_BASH} ${PROJECT_SOURCE_DIR}/tests/cli/${name}.sh)
    set_tests_properties(cli.${name} PROPERTIES ENVIRONMENT "${cli_environment}" TIMEOUT 600)
    if(name STREQUAL model)
      set_tests_properties(cli.${name} PROPERTIES FIXTURES_SETUP cli_model)
    else()
      set_tests_properties(cli.${name} PROPERTIES FIXTURES_REQUIRED cli_model)
    endif()
  endforeach()
endif()
